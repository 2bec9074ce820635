// SPDX-License-Identifier: Apache-2.0
/*
 * Grace periods by membarrier(MEMBARRIER_CMD_GLOBAL): it returns after every CPU has passed a context switch,
 * and BPF programs of perf events run with preemption off, so all that ran when it was called have ended.
 * Where the kernel refuses it (nohz_full CPUs), a wait far longer than any program runs.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
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
	g->track->graces++;
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

/*
 * A process whose list is not written again before a time: there was no room, or its list has tens of
 * thousands of mappings that change all the time. Its slot keeps what it says; only new information is late.
 */
struct delay {
	struct map_node node;
	uint32_t pid;
	uint64_t until_ns;
	bool no_room;
	uint64_t graces; /* that had ended then: the next one may bring room */
};

static bool delay_has_pid(const struct map_node *node, const void *key)
{
	return container_of(node, struct delay, node)->pid == *(const uint32_t *)key;
}

static struct delay *delay_of(const struct track *t, uint32_t pid)
{
	struct map_node *n = map_find(&t->delays, hash_u64(pid), delay_has_pid, &pid);

	return n ? container_of(n, struct delay, node) : NULL;
}

static void delay_remove(struct track *t, struct delay *d)
{
	map_remove(&t->delays, &d->node);
	free(d);
}

static void delay_set(struct track *t, uint32_t pid, uint64_t until_ns, bool no_room)
{
	struct delay *d = delay_of(t, pid);

	if (!d) {
		d = calloc(1, sizeof *d);
		if (!d)
			return;
		d->pid = pid;
		if (map_insert(&t->delays, &d->node, hash_u64(pid)) < 0) {
			free(d);
			return;
		}
	}
	d->until_ns = until_ns;
	d->no_room = no_room;
	d->graces = t->graces;
}

void track_delays_fini(struct track *t)
{
	struct map_node *n;

	map_for_each (&t->delays, n, it)
		free(container_of(n, struct delay, node));
	map_fini(&t->delays);
}

void track_delays_tend(struct track *t, uint64_t now_ns)
{
	struct map_node *n;

	map_for_each (&t->delays, n, it)
		if (now_ns >= container_of(n, struct delay, node)->until_ns)
			delay_remove(t, container_of(n, struct delay, node));
}

/* True when the process's slot says what it is now. */
static bool publish(struct track *t, struct process *p)
{
	uint64_t begin_ns = clock_mono_ns(), cost_ns;
	struct delay *d = delay_of(t, p->pid);
	int r;

	if (d && begin_ns < d->until_ns && !(d->no_room && d->graces != t->graces))
		return false;
	r = publisher_put(t->publisher, p); /* refusals are counted there */
	cost_ns = clock_mono_ns() - begin_ns;
	if (r < 0)
		delay_set(t, p->pid, begin_ns + RETRY_NS, true);
	else if (cost_ns > COSTLY_NS)
		delay_set(t, p->pid, begin_ns + COST_SHARE * cost_ns, false);
	else if (d)
		delay_remove(t, d);
	return r == 0;
}

static void publish_one(struct process *p, void *data)
{
	struct track *t = data;

	if (!publish(t, p))
		track_mark_dirty(t, p->pid);
}

static int by_pid(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Publishes what this drain changed. Those that find no room, or whose turn has not come, stay in the array,
 * once. True when anything was published. */
static bool publish_dirty(struct track *t)
{
	uint32_t before = 0;
	size_t left = 0, done = 0;

	qsort(t->dirty, t->n_dirty, sizeof *t->dirty, by_pid);
	for (size_t i = 0; i < t->n_dirty; i++) {
		struct process *p = t->dirty[i] != before ? proc_table_get(t->table, t->dirty[i]) : NULL;

		before = t->dirty[i];
		if (!p)
			continue;
		if (publish(t, p))
			done++;
		else
			t->dirty[left++] = p->pid;
	}
	t->n_dirty = left;
	return done > 0;
}

void track_publish(struct track *t)
{
	if (t->all_dirty) {
		t->all_dirty = false;
		t->epoch++;
		proc_table_each(t->table, publish_one, t);
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
