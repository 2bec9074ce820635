// SPDX-License-Identifier: Apache-2.0
/*
 * Grace periods by membarrier(MEMBARRIER_CMD_GLOBAL): it returns after every CPU has passed a context switch,
 * and BPF programs of perf events run with preemption off, so all that ran when it was called have ended.
 * Where the kernel refuses it (nohz_full CPUs), a wait far longer than any program runs.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/track/track_private.h"

#define FALLBACK_SECONDS 2
#define RETRY_NS (1 * NS_PER_SEC)
#define COSTLY_NS NS_PER_MS /* to write one list */
#define COST_SHARE 20u	    /* at most 1/20 of the time goes into such a list */

static void grace_run(struct worker_job *job)
{
	struct timespec wait = {.tv_sec = FALLBACK_SECONDS};

	(void)job;
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) < 0)
		nanosleep(&wait, NULL);
}

static void grace_done(struct worker_job *job, bool cancelled)
{
	struct grace_job *g = container_of(job, struct grace_job, job);

	g->running = g->begun = false;
	if (cancelled)
		return;
	arena_grace_end(g->track->arena);
	unwind_tables_retry(g->track->tables);
}

void track_grace_init(struct track *t)
{
	t->grace = (struct grace_job){.job = {.run = grace_run, .done = grace_done}, .track = t};
}

void track_grace(struct track *t)
{
	if (t->grace.running)
		return;
	/* blocks that wait from a submission which found the queue full are in a period that has begun */
	if (!t->grace.begun && !arena_grace_begin(t->arena))
		return;
	t->grace.begun = true;
	t->grace.running = worker_submit(t->options.worker, &t->grace.job, WORKER_HIGH) == 0;
}

/* Marks first and writes after, or a list shared by forks would be written once for each of them. */
static void mark_again(struct process *p, void *data)
{
	const struct track *t = data;

	p->maps->dirty = p->maps->dirty || publisher_outdated(t->publisher, p->maps);
}

/*
 * True when that is done. With the arena full, room comes with the next grace period or exit: asking at every
 * event would only cost. So would lists of tens of thousands of mappings that change all the time.
 */
static bool publish(struct track *t, struct process *p)
{
	uint64_t begin_ns = clock_mono_ns(), cost_ns;
	int r;

	if (begin_ns < p->publish_after_ns)
		return false;
	r = publisher_put(t->publisher, p); /* refusals are counted there */
	cost_ns = clock_mono_ns() - begin_ns;
	if (r < 0)
		p->publish_after_ns = begin_ns + RETRY_NS;
	else if (cost_ns > COSTLY_NS)
		p->publish_after_ns = begin_ns + COST_SHARE * cost_ns;
	return r == 0;
}

static void publish_one(struct process *p, void *data)
{
	struct track *t = data;

	if (!publish(t, p) && !p->publish_waits)
		track_mark_dirty(t, p->pid);
}

/* Publishes what this drain changed. Those that find no room, or whose turn has not come, stay in the list,
 * once. True when anything was published. */
static bool publish_dirty(struct track *t)
{
	struct process *p;
	size_t left = 0, done = 0;

	for (size_t i = 0; i < t->n_dirty; i++)
		if ((p = proc_table_get(t->table, t->dirty[i])))
			p->publish_waits = false;
	for (size_t i = 0; i < t->n_dirty; i++) {
		p = proc_table_get(t->table, t->dirty[i]);
		if (!p || p->publish_waits)
			continue;
		p->publish_waits = !publish(t, p);
		if (p->publish_waits)
			t->dirty[left++] = p->pid;
		else
			done++;
	}
	t->n_dirty = left;
	return done > 0;
}

void track_publish(struct track *t)
{
	if (t->all_dirty) {
		t->all_dirty = false;
		t->epoch++;
		proc_table_each(t->table, mark_again, t);
		proc_table_each(t->table, publish_one, t);
		unwind_tables_published(t->tables);
	}
	if (t->n_dirty)
		t->epoch += publish_dirty(t);
	track_grace(t);
}

void track_progress(struct track *t)
{
	track_publish(t);
	unwind_tables_pump(t->tables);
}
