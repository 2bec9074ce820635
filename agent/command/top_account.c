// SPDX-License-Identifier: Apache-2.0
#include "agent/command/top_account.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/config/config.h"

/* Appends the losses by reason and returns their sum. */
static uint64_t losses(const struct agent_stats *s, struct buf *b)
{
	struct agent_drop drops[AGENT_DROPS_MAX];
	size_t n = agent_drops(s, drops);
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		if (!drops[i].n)
			continue;
		(void)buf_printf(b, "%s%s %lu", sum ? ", " : "", drops[i].reason, (unsigned long)drops[i].n);
		sum += drops[i].n;
	}
	return sum;
}

/* Samples that are or will be shown. */
static uint64_t arrived(const struct agent_stats *s)
{
	uint64_t n = s->received - s->received_not_selected;

	for (int i = 0; i < SAMPLE_DROPS_N; i++)
		n -= s->refused[i];
	for (int i = 0; i < REPORT_DROPS_N; i++)
		n -= s->report.dropped[i];
	return n;
}

static void set_time(struct top_account *a)
{
	time_t now = time(NULL);
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(a->time, sizeof a->time, "%H:%M:%S", &tm);
}

static unsigned online_cpus(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (unsigned)n : 1;
}

void top_account_begin(struct top_account *a, struct agent *agent, const struct config *config)
{
	struct agent_stats s;

	agent_stats(agent, &s);
	a->begin_ns = a->last_ns = clock_mono_ns();
	a->taken = s.taken + s.not_selected;
	a->arrived = arrived(&s);
	set_time(a);
	a->head = (struct output_screen_head){
		.host = uname(&a->host) == 0 ? a->host.nodename : NULL,
		.time = a->time,
		.event = s.event,
		.frequency_hz = config->sampling.frequency,
		.n_cpus = online_cpus(),
		.n_processes = s.track.processes,
	};
}

uint64_t top_account_update(struct top_account *a, struct agent *agent, uint64_t *ret_arrived)
{
	uint64_t now = clock_mono_ns(), interval_ns = now - a->last_ns, dropped;
	double seconds = (double)interval_ns / (double)NS_PER_SEC;
	struct output_screen_head *h = &a->head;
	struct agent_stats s;

	agent_stats(agent, &s);
	set_time(a);
	buf_clear(&a->drops);
	dropped = losses(&s, &a->drops);
	h->n_cpus = online_cpus();
	h->running_ns = now - a->begin_ns;
	h->busy = (double)(s.taken + s.not_selected - a->taken) / (h->frequency_hz * seconds * h->n_cpus);
	h->busy = h->busy > 1 ? 1 : h->busy; /* intervals and sampling periods are not aligned */
	*ret_arrived =
		arrived(&s) > a->arrived ? arrived(&s) - a->arrived : 0; /* some may have been dropped late */
	h->samples_per_second = (double)*ret_arrived / seconds;
	h->dropped = dropped - a->dropped;
	h->dropped_ever = dropped;
	h->drops = buf_str(&a->drops);
	h->n_processes = s.track.processes;
	a->taken = s.taken + s.not_selected;
	a->arrived = arrived(&s);
	a->dropped = dropped;
	a->last_ns = now;
	return interval_ns;
}

void top_account_fini(struct top_account *a)
{
	buf_fini(&a->drops);
}
