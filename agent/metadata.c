// SPDX-License-Identifier: Apache-2.0
/* There is at most one request at a time. cgroup/pace decides when to send one. */
#include "agent/metadata.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/base/map.h"
#include "agent/base/memo.h"
#include "agent/delivery/delivery.h"
#include "agent/delivery/kubelet_query.h"
#include "cgroup/pace.h"

#define ENTRIES_MAX 16384u
/*
 * Ids that the kubelet did not know; at the maximum the memo is cleared, and they may cause a request again.
 */
#define UNKNOWN_MAX 8192u

struct metadata {
	struct loop_source *timer;
	struct delivery *delivery; /* borrowed */
	struct pod_table *table;
	struct memo unknown; /* hashes of ids */
	struct pace pace;
	char *url; /* for the log; owned */
	bool in_flight;
	uint64_t asked_ns;
	char reported[KUBELET_WHY_MAX]; /* the failure that was logged last; "" for none */
	struct metadata_stats stats;
};

/* --- sending it */

static double random_share(void)
{
	return (double)(hash_u64(clock_mono_ns() ^ (uint64_t)getpid() << 40) >> 11) / (double)(1ull << 53);
}

/* Logs a failure once, until it changes or ends. */
static void report(struct metadata *m, int result, const struct pod_list *pods, const char *why)
{
	if (result < 0 && strcmp(m->reported, why) != 0) {
		log_warn("kubelet %s: %s; pods that it has not listed have no names", m->url, why);
		snprintf(m->reported, sizeof m->reported, "%s", why);
	} else if (result == 0 && (m->reported[0] || !m->stats.answered)) {
		log_info("kubelet %s answers: %lu pods", m->url, (unsigned long)pods->n);
		m->reported[0] = '\0';
	}
}

static int wait_for_turn(struct metadata *m)
{
	uint64_t now_ns = clock_mono_ns();

	return loop_set_timer(m->timer, m->pace.due_ns > now_ns ? m->pace.due_ns - now_ns : 1, 0);
}

static void on_pods(int result, struct pod_list *pods, const char *why, void *data)
{
	struct metadata *m = data;

	m->in_flight = false;
	report(m, result, pods, why);
	pace_answered(&m->pace, clock_mono_ns(), result == 0, random_share());
	if (result == 0) {
		m->stats.answered++;
		m->stats.answered_ns = m->asked_ns;
		pod_table_update(m->table, pods, m->asked_ns);
	} else {
		m->stats.failed++;
	}
	if (wait_for_turn(m) < 0)
		log_error("the kubelet will not be asked again: its timer cannot be set");
}

static int on_turn(uint64_t expirations, void *data)
{
	struct metadata *m = data;
	int r;

	(void)expirations;
	if (m->in_flight)
		return 0;
	m->asked_ns = clock_mono_ns();
	r = delivery_request_pods(m->delivery, on_pods, m);
	if (r < 0)
		on_pods(r, NULL, strerror(-r), m);
	else
		m->in_flight = true;
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

int metadata_new(struct metadata **ret, struct loop *loop, const struct config *config,
		 struct delivery *delivery)
{
	struct metadata *m = calloc(1, sizeof *m);
	_cleanup_buf_ struct buf url = {0};
	int r;

	if (!m)
		return -ENOMEM;
	m->delivery = delivery;
	r = pod_table_new(&m->table, ENTRIES_MAX);
	if (r == 0)
		r = kubelet_query_url(config, &url);
	if (r == 0 && !(m->url = strdup(buf_str(&url))))
		r = -ENOMEM;
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
	if (!m)
		return;
	if (m->in_flight)
		delivery_forget_pods(m->delivery);
	loop_remove(m->timer);
	pod_table_free(m->table);
	memo_fini(&m->unknown);
	free(m->url);
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
