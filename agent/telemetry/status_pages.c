// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/status_pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/base/alive.h"
#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/config/config.h"
#include "agent/parser/parser.h"
#include "agent/report/cut_stacks.h"
#include "agent/sample/endings.h"
#include "agent/telemetry/cpu_wait.h"
#include "agent/delivery/delivery.h"
#include "agent/delivery/pull_request.h"
#include "agent/telemetry/metrics.h"
#include "agent/telemetry/stall.h"
#include "version.h"

#define CUT_STACKS_SHOWN 20u
#define CALLS_MAX 16
#define PROCESS_PAGES "/debug/state/"

enum { HTTP_OK = 200, HTTP_NOT_FOUND = 404, HTTP_ERROR = 500, HTTP_UNAVAILABLE = 503 };

struct status_pages {
	struct agent *agent;
	struct delivery *delivery;
	struct cpu_wait *cpu_wait;
	const struct config *config;
	struct loop_source *timer, *calls;
	int alive_fd; /* where `proflet check --alive` calls; -1: another agent has the address */
	struct stall stall;
	bool told_of_crowd; /* the log says that there are too many connections */
};

static void view_read(struct status_pages *s, struct metrics_view *ret)
{
	*ret = (struct metrics_view){.frequency_max_hz = s->config->sampling.frequency,
				     .cpu_max = s->config->cpu.max,
				     .memory_max_bytes = s->config->memory.total_bytes,
				     .queue_max_bytes = s->config->queue.memory_bytes,
				     .spool_max_bytes =
					     s->config->queue.spool ? s->config->queue.spool_max_bytes : 0,
				     .stalled = s->stall.stalled};
	agent_stats(s->agent, &ret->agent);
	agent_count_runtimes(s->agent, &ret->languages);
	delivery_stats(s->delivery, &ret->exporter);
	selfstat_read(&ret->self);
	ret->self.cpu_ns += ret->exporter.cpu_ns;
	parser_stats(&ret->parser);
	cpu_wait_refresh(s->cpu_wait);
	ret->cpu = s->cpu_wait->times;
	delivery_http_stats(s->delivery, &ret->http);
	delivery_pull_stats(s->delivery, &ret->pulls);
	ret->delivery_restarts = delivery_restarts(s->delivery);
	ret->ready = ret->agent.attached_ns != 0;
}

static unsigned page_metrics(struct status_pages *s, const char *accept, struct buf *body,
			     const char **content_type)
{
	enum metrics_form form = metrics_form_of(accept);
	struct metrics_view v;

	view_read(s, &v);
	*content_type = metrics_content_type(form);
	return metrics_format(&v, form, body) < 0 ? HTTP_ERROR : HTTP_OK;
}

static unsigned page_healthz(struct status_pages *s, const char *accept, struct buf *body,
			     const char **content_type)
{
	(void)accept;
	(void)content_type;
	if (!s->stall.stalled)
		return buf_puts(body, "ok\n") < 0 ? HTTP_ERROR : HTTP_OK;
	(void)buf_printf(body,
			 "sampling stalled: no sample for %llu s, in which the CPUs were busy for %.1f s; is "
			 "the event "
			 "still allowed (kernel.perf_event_paranoid, kernel.perf_event_max_sample_rate)?\n",
			 (unsigned long long)(s->stall.lost_looks * STALL_PERIOD_NS / NS_PER_SEC),
			 (double)s->stall.lost_busy_ns / NS_PER_SEC);
	return HTTP_UNAVAILABLE;
}

static unsigned page_readyz(struct status_pages *s, const char *accept, struct buf *body,
			    const char **content_type)
{
	struct agent_stats stats;

	(void)accept;
	(void)content_type;
	agent_stats(s->agent, &stats);
	(void)buf_puts(body, stats.attached_ns ? "ok\n" : "sampling has not begun\n");
	return stats.attached_ns ? HTTP_OK : HTTP_UNAVAILABLE;
}

static void put_cpu_times(const struct cpu_wait_times *t, struct buf *body)
{
	if (t->known)
		(void)buf_printf(body,
				 "CPU: the agent's threads ran for %.1f s and waited %.1f s for a CPU%s\n",
				 (double)(t->main.run_ns + t->others.run_ns) / NS_PER_SEC,
				 (double)(t->main.wait_ns + t->others.wait_ns) / NS_PER_SEC,
				 t->starved ? "; starved: raise the CPU request" : "");
	else
		(void)buf_puts(body, "CPU: unknown how long the agent waits for one\n");
}

/* Where stacks are cut, so that one sees whose code is to blame. */
static void put_cut_stacks(const struct status_pages *s, struct buf *body)
{
	struct cut_stack top[CUT_STACKS_SHOWN];
	const size_t n = agent_cut_stacks(s->agent, top, CUT_STACKS_SHOWN);

	for (size_t i = 0; i < n; i++)
		(void)buf_printf(body, "stacks cut at %s: %s, %llu samples\n", top[i].module,
				 unwind_ending_text(top[i].ending), (unsigned long long)top[i].samples);
	(void)buf_puts(body, n ? "\n" : "");
}

/* Which language runtimes there are, and why functions of some are not shown. */
static void put_runtimes(const struct status_pages *s, struct buf *body)
{
	const size_t before = body->len;

	agent_describe_runtimes(s->agent, body);
	(void)buf_puts(body, body->len > before ? "\n" : "");
}

/* A few lines in words, then the metrics that are not 0. */
static unsigned page_state(struct status_pages *s, const char *accept, struct buf *body,
			   const char **content_type)
{
	_cleanup_buf_ struct buf all = {0};
	struct metrics_view v;
	char *at, *line;

	(void)accept;
	(void)content_type;
	view_read(s, &v);
	if (metrics_format(&v, METRICS_TEXT, &all) < 0 || buf_putc(&all, '\0') < 0)
		return HTTP_ERROR;
	(void)buf_printf(body, "proflet %s (%s), event %s, %u Hz%s, up %.0f s\n", PROFLET_VERSION,
			 PROFLET_COMMIT, v.agent.event, v.agent.frequency_hz,
			 v.agent.frequency_hz < v.frequency_max_hz ? " (lowered, by cpu.max)" : "",
			 (double)(clock_mono_ns() - v.agent.start_ns) / NS_PER_SEC);
	(void)buf_printf(body, "sampling: %s\n",
			 v.stalled ? "stalled"
			 : v.ready ? "goes on"
				   : "has not begun");
	put_cpu_times(&v.cpu, body);
	(void)buf_printf(body, "collector: %s%s%s\n\n",
			 v.exporter.away       ? "away"
			 : v.exporter.attempts ? "there"
					       : "not tried yet",
			 v.exporter.last.text[0] ? ", last answer: " : "", v.exporter.last.text);
	put_cut_stacks(s, body);
	put_runtimes(s, body);
	at = (char *)all.data;
	while ((line = strsep(&at, "\n"))) {
		const char *value = strrchr(line, ' ');

		if (*line && *line != '#' && value && strcmp(value, " 0") != 0)
			(void)buf_printf(body, "%s\n", line);
	}
	return HTTP_OK;
}

/* The page of a process; `text`: its pid. */
static unsigned page_process(struct status_pages *s, const char *text, struct buf *body)
{
	char *end;
	unsigned long pid;

	if (*text < '0' || *text > '9')
		return HTTP_NOT_FOUND;
	errno = 0;
	pid = strtoul(text, &end, 10);
	if (*end || errno || pid > UINT32_MAX)
		return HTTP_NOT_FOUND;
	if (agent_describe_process(s->agent, (uint32_t)pid, body))
		return HTTP_OK;
	return HTTP_NOT_FOUND;
}

unsigned status_pages_answer(const char *path, const char *accept, struct buf *body,
			     const char **content_type, void *data)
{
	static const struct {
		const char *path;
		unsigned (*fn)(struct status_pages *s, const char *accept, struct buf *body,
			       const char **content_type);
	} pages[] = {{"/metrics", page_metrics},
		     {"/healthz", page_healthz},
		     {"/readyz", page_readyz},
		     {"/debug/state", page_state}};

	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		if (strcmp(path, pages[i].path) == 0)
			return pages[i].fn(data, accept, body, content_type);
	if (strncmp(path, PROCESS_PAGES, strlen(PROCESS_PAGES)) == 0)
		return page_process(data, path + strlen(PROCESS_PAGES), body);
	if (strcmp(path, "/") != 0)
		return HTTP_NOT_FOUND;
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		(void)buf_printf(body, "%s\n", pages[i].path);
	for (int i = 0; i < PULL_FORMS_N; i++)
		(void)buf_printf(body, "%s\n", pull_form_path((enum pull_form)i));
	return HTTP_OK;
}

/* Logs once that there are too many connections; /metrics has the numbers. */
static void look_at_crowd(struct status_pages *s)
{
	struct http_server_stats stats;

	delivery_http_stats(s->delivery, &stats);
	if (s->told_of_crowd || !(stats.evicted || stats.paused))
		return;
	s->told_of_crowd = true;
	log_warn("listen %s: too many connections; at most %u are open, %u of one address, and %u are "
		 "accepted in a "
		 "second",
		 s->config->listen, HTTP_SERVER_CONNECTIONS_MAX, HTTP_SERVER_PER_ADDRESS_MAX,
		 HTTP_SERVER_PER_SECOND_MAX);
}

static int on_look(uint64_t expirations, void *data)
{
	struct status_pages *s = data;
	struct agent_stats stats;
	bool was = s->stall.stalled;
	uint64_t busy_ns;

	(void)expirations;
	look_at_crowd(s);
	agent_stats(s->agent, &stats);
	if (!stats.attached_ns || stall_read_busy(&busy_ns) < 0)
		return 0;
	stall_look(&s->stall, stats.taken + stats.not_selected, busy_ns, stats.frequency_hz);
	if (s->stall.stalled && !was)
		log_error("sampling stalled: no samples arrive although the CPUs are busy; /healthz says so");
	else if (was && !s->stall.stalled)
		log_info("samples arrive again");
	return 0;
}

/* Answers `proflet check --alive` at once: nothing is read, and no connection stays. */
static int on_call(int listen_fd, uint32_t events, void *data)
{
	struct status_pages *s = data;
	struct agent_stats stats;

	(void)events;
	agent_stats(s->agent, &stats);
	for (int i = 0; i < CALLS_MAX; i++) {
		_cleanup_close_ int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct alive_message m = {.alive = s->stall.stalled ? '0' : '1',
					  .ready = stats.attached_ns ? '1' : '0'};

		if (fd < 0)
			break;
		if (!alive_peer_is_trusted(fd))
			continue;
		snprintf(m.text, sizeof m.text, "%s",
			 s->stall.stalled    ? "sampling stalled"
			 : stats.attached_ns ? "ok"
					     : "sampling has not begun");
		(void)!send(fd, &m, sizeof m, MSG_NOSIGNAL);
	}
	return 0;
}

/* Without the address, the agent goes on: another one on this host has it, or the kubelet does not call. */
static int await_calls(struct status_pages *s)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	socklen_t len;

	if (fd < 0 || alive_address(&address, &len) < 0 ||
	    bind(fd, (const struct sockaddr *)&address, len) < 0 || listen(fd, CALLS_MAX) < 0) {
		log_debug("check --alive gets no answer of this agent: %s", strerror(errno));
		return 0;
	}
	s->alive_fd = TAKE_FD(fd);
	return loop_add_fd(agent_loop(s->agent), s->alive_fd, EPOLLIN, on_call, s, &s->calls);
}

int status_pages_new(struct status_pages **ret, struct agent *agent, struct delivery *delivery,
		     struct cpu_wait *cpu_wait, const struct config *config)
{
	struct status_pages *s;
	int r;

	*ret = NULL;
	s = malloc(sizeof *s);
	if (!s)
		return -ENOMEM;
	*s = (struct status_pages){
		.agent = agent, .delivery = delivery, .cpu_wait = cpu_wait, .config = config, .alive_fd = -1};
	r = await_calls(s);
	if (r == 0)
		r = loop_add_timer(agent_loop(agent), STALL_PERIOD_NS, STALL_PERIOD_NS, on_look, s,
				   &s->timer);
	if (r < 0) {
		status_pages_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void status_pages_free(struct status_pages *s)
{
	if (!s)
		return;
	loop_remove(s->timer);
	loop_remove(s->calls);
	if (s->alive_fd >= 0)
		close(s->alive_fd);
	free(s);
}
