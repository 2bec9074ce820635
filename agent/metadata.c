// SPDX-License-Identifier: Apache-2.0
/*
 * There is at most one request at a time, a job for a pool of one thread. Request, answer and job are one
 * object, which belongs to the thread while the job runs and to this module otherwise. cgroup/pace decides
 * when to send a request.
 */
#include "agent/metadata.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/base/map.h"
#include "agent/base/memo.h"
#include "agent/base/worker.h"
#include "agent/config/config.h"
#include "cgroup/kubelet.h"
#include "cgroup/pace.h"

#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"
#define TIMEOUT_NS (10 * NS_PER_SEC)
#define ENTRIES_MAX 16384u
/*
 * Ids that the kubelet did not know; at the maximum the memo is cleared, and they may cause a request again.
 */
#define UNKNOWN_MAX 8192u
#define HTTPS_PORT 10250u
#define HTTP_PORT 10255u

struct inquiry {
	struct worker_job job;
	struct metadata *owner;
	struct kubelet_request request;
	char *url, *token_file, *ca; /* owned, because the thread may outlive the configuration */
	atomic_bool cancel;
	uint64_t asked_ns;
	int result;
	struct pod_list list;
	char why[KUBELET_WHY_MAX];
};

struct metadata {
	struct loop_source *timer, *answers;
	struct worker *worker;
	struct pod_table *table;
	struct memo unknown; /* hashes of ids */
	struct pace pace;
	struct inquiry *inquiry; /* reused for every request */
	bool in_flight;
	char reported[KUBELET_WHY_MAX]; /* the failure that was logged last; "" for none */
	struct metadata_stats stats;
};

/* --- the request */

static const char *node_address(const struct config *config)
{
	const char *ip = getenv("K8S_NODE_IP");

	return ip && *ip ? ip : config->kubernetes.node ? config->kubernetes.node : "127.0.0.1";
}

int metadata_url(const struct config *config, struct buf *b)
{
	const char *url = config->kubernetes.kubelet, *host, *bracket;
	size_t n;
	int r;

	if (!url) {
		host = node_address(config);
		return buf_printf(b, strchr(host, ':') && *host != '[' ? "https://[%s]:%u" : "https://%s:%u",
				  host, HTTPS_PORT);
	}
	n = strlen(url);
	while (n && url[n - 1] == '/')
		n--;
	r = buf_printf(b, "%.*s", (int)n, url);
	host = strstr(url, "//");
	bracket = host ? strrchr(host, ']') : NULL;
	if (r < 0 || !host || strchr(bracket ?: host, ':'))
		return r;
	return buf_printf(b, ":%u", strncmp(url, "https", 5) ? HTTP_PORT : HTTPS_PORT);
}

static void inquiry_free(struct inquiry *q)
{
	if (!q)
		return;
	pod_list_fini(&q->list);
	free(q->url);
	free(q->token_file);
	free(q->ca);
	free(q);
}

DEFINE_CLEANUP(struct inquiry *, inquiry_free)

/* The configured file, else that of the service account if it exists. */
static const char *file_or(const char *configured, const char *usual)
{
	return configured || access(usual, F_OK) < 0 ? configured : usual;
}

static char *copy(const char *text, int *r)
{
	char *c = text ? strdup(text) : NULL;

	if (text && !c)
		*r = -ENOMEM;
	return c;
}

static int inquiry_new(struct inquiry **ret, const struct config *config, uint64_t timeout_ns)
{
	_cleanup_(inquiry_free_p) struct inquiry *q = calloc(1, sizeof *q);
	_cleanup_buf_ struct buf url = {0};
	int r;

	if (!q)
		return -ENOMEM;
	r = metadata_url(config, &url);
	q->url = copy(buf_str(&url), &r);
	q->token_file = copy(file_or(config->kubernetes.token_file, SERVICE_ACCOUNT "token"), &r);
	q->ca = copy(file_or(config->kubernetes.ca, SERVICE_ACCOUNT "ca.crt"), &r);
	q->request = (struct kubelet_request){.url = q->url,
					      .token_file = q->token_file,
					      .ca = q->ca,
					      .insecure = config->kubernetes.insecure,
					      .timeout_ns = timeout_ns,
					      .cancel = &q->cancel};
	if (r == 0)
		*ret = TAKE_PTR(q);
	return r;
}

int metadata_probe(const struct config *config, uint64_t timeout_ns, size_t *ret_pods, char **ret_why)
{
	_cleanup_(inquiry_free_p) struct inquiry *q = NULL;
	int r = inquiry_new(&q, config, timeout_ns);

	*ret_why = NULL;
	if (r < 0)
		return r;
	r = kubelet_fetch(&q->request, &q->list, q->why);
	if (r == 0)
		*ret_pods = q->list.n;
	else if (asprintf(ret_why, "%s: %s", q->url, q->why) < 0)
		*ret_why = NULL;
	return r;
}

/* --- sending it */

static void inquiry_run(struct worker_job *job)
{
	struct inquiry *q = container_of(job, struct inquiry, job);

	q->result = kubelet_fetch(&q->request, &q->list, q->why);
}

static double random_share(void)
{
	return (double)(hash_u64(clock_mono_ns() ^ (uint64_t)getpid() << 40) >> 11) / (double)(1ull << 53);
}

/* Logs a failure once, until it changes or ends. */
static void report(struct metadata *m, const struct inquiry *q)
{
	if (q->result < 0 && strcmp(m->reported, q->why) != 0) {
		log_warn("kubelet %s: %s; pods that it has not listed have no names", q->url, q->why);
		memcpy(m->reported, q->why, sizeof m->reported);
	} else if (q->result == 0 && (m->reported[0] || !m->stats.answered)) {
		log_info("kubelet %s answers: %lu pods", q->url, (unsigned long)q->list.n);
		m->reported[0] = '\0';
	}
}

static int wait_for_turn(struct metadata *m)
{
	uint64_t now_ns = clock_mono_ns();

	return loop_set_timer(m->timer, m->pace.due_ns > now_ns ? m->pace.due_ns - now_ns : 1, 0);
}

static void inquiry_done(struct worker_job *job, bool cancelled)
{
	struct inquiry *q = container_of(job, struct inquiry, job);
	struct metadata *m = q->owner;
	uint64_t now_ns = clock_mono_ns();

	m->in_flight = false;
	if (cancelled)
		return;
	report(m, q);
	pace_answered(&m->pace, now_ns, q->result == 0, random_share());
	if (q->result == 0) {
		m->stats.answered++;
		m->stats.answered_ns = q->asked_ns;
		pod_table_update(m->table, &q->list, q->asked_ns);
	} else {
		m->stats.failed++;
	}
	if (wait_for_turn(m) < 0)
		log_error("the kubelet will not be asked again: its timer cannot be set");
}

static int on_turn(uint64_t expirations, void *data)
{
	struct metadata *m = data;

	(void)expirations;
	if (m->in_flight)
		return 0;
	m->inquiry->asked_ns = clock_mono_ns();
	m->in_flight = worker_submit(m->worker, &m->inquiry->job, WORKER_HIGH) == 0;
	return 0;
}

static int on_answer(int fd, uint32_t events, void *data)
{
	struct metadata *m = data;

	(void)fd;
	(void)events;
	worker_collect(m->worker);
	return 0;
}

void metadata_seen(struct metadata *m, const struct cgroup_identity *id)
{
	const char *key = id->container_id[0] ? id->container_id : id->pod_uid;
	const struct pod_container *container;
	uint64_t hash, due_ns = m->pace.due_ns;
	int32_t asked;

	if (!*key || (pod_table_find(m->table, id, &container) && (container || !id->container_id[0])))
		return;
	hash = hash_bytes(key, strlen(key));
	if (memo_get(&m->unknown, hash, &asked))
		return;
	if (m->unknown.len >= UNKNOWN_MAX)
		memo_clear(&m->unknown);
	memo_put(&m->unknown, hash, 1);
	pace_unknown(&m->pace, clock_mono_ns());
	if (m->pace.due_ns != due_ns && !m->in_flight)
		(void)wait_for_turn(m); /* on failure, the earlier timer still runs */
}

/* --- */

int metadata_new(struct metadata **ret, struct loop *loop, const struct config *config)
{
	struct metadata *m = calloc(1, sizeof *m);
	int r;

	if (!m)
		return -ENOMEM;
	r = pod_table_new(&m->table, ENTRIES_MAX);
	if (r == 0)
		r = inquiry_new(&m->inquiry, config, TIMEOUT_NS);
	if (r == 0) {
		m->inquiry->owner = m;
		m->inquiry->job = (struct worker_job){.run = inquiry_run, .done = inquiry_done};
		r = worker_new(&m->worker, 1, 1, "kubelet");
	}
	if (r == 0)
		r = loop_add_fd(loop, worker_fd(m->worker), EPOLLIN, on_answer, m, &m->answers);
	if (r == 0)
		r = loop_add_timer(loop, 1, 0, on_turn, m, &m->timer);
	if (r < 0) {
		metadata_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

void metadata_free(struct metadata *m)
{
	unsigned n_stuck = 0;

	if (!m)
		return;
	if (m->inquiry)
		atomic_store(&m->inquiry->cancel, true);
	loop_remove(m->timer);
	loop_remove(m->answers);
	if (m->worker)
		n_stuck = worker_free(m->worker);
	if (!n_stuck) /* a stuck thread still uses it */
		inquiry_free(m->inquiry);
	pod_table_free(m->table);
	memo_fini(&m->unknown);
	free(m);
}

const struct pod_table *metadata_pods(const struct metadata *m)
{
	return m->table;
}

void metadata_stats(const struct metadata *m, struct metadata_stats *ret)
{
	*ret = m ? m->stats : (struct metadata_stats){0};
	if (m)
		pod_table_stats(m->table, &ret->table);
}
