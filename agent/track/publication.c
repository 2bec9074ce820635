// SPDX-License-Identifier: Apache-2.0
#include "agent/track/publication.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/base/urgency.h"
#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/completion.h"
#include "agent/unwind/publish.h"
#include "agent/unwind/tables.h"

#define RETRY_NS (1 * NS_PER_SEC)
#define COSTLY_NS NS_PER_MS		  /* of CPU time, to write one list */
#define COST_SHARE 50u			  /* at most 1/50 of the time goes into such lists */
#define LONG_LIST 4096u			  /* mappings that are expected to be costly */
#define HISTORY_KEEP_NS (12 * NS_PER_SEC) /* longer than samples take to arrive here */
#define HISTORY_WAITING_NS (COMPLETION_PENDING_NS + HISTORY_KEEP_NS) /* of a process whose samples wait */
#define REPLACED_SAVE_STACK_NS (10 * NS_PER_SEC) /* a program that replaces code does so again */
#define FORKED_SAVE_STACK_NS (1 * NS_PER_SEC)	 /* most children that call execve do so sooner */

/* Waits, on a worker, until every BPF program that runs now has ended. */
struct grace_job {
	struct worker_job job;
	struct publication *owner;
	void (*wait)(void);
	bool begun;   /* blocks of the arena wait for it */
	bool running; /* it is with the workers */
};

/*
 * A process whose list is not written again before a time: there was no room, or it has tens of thousands of
 * mappings that change all the time. Its slot keeps the list that it has.
 */
struct delay {
	struct map_node node;
	uint32_t pid;
	uint64_t until_ns;
	bool no_room;
	uint64_t n_graces; /* as it was then: the next grace period may bring room */
};

/* A process that is to be published. */
struct due {
	struct process *process;
	uint64_t until_ns; /* of its delay; 0: there is none */
};

struct publication {
	struct publication_options options;
	struct host_clock clock;
	uint64_t epoch;
	uint32_t *changed; /* pids */
	size_t n_changed, cap_changed;
	struct due *due; /* of one run */
	size_t cap_due;
	uint64_t long_lists_ns; /* no long list is written before then, because of what the last one cost */
	bool all_changed;
	struct map delays;
	uint64_t n_graces; /* that have ended */
	struct grace_job grace;
};

static void grace_run(struct worker_job *job)
{
	container_of(job, struct grace_job, job)->wait();
}

static void grace_done(struct worker_job *job, bool cancelled)
{
	struct grace_job *g = container_of(job, struct grace_job, job);

	g->running = g->begun = false;
	if (cancelled)
		return;
	g->owner->n_graces++;
	arena_grace_end(g->owner->options.arena);
	unwind_tables_retry(g->owner->options.tables);
}

int publication_new(struct publication **ret, const struct publication_options *options)
{
	struct publication *p = calloc(1, sizeof *p);

	if (!p)
		return -ENOMEM;
	p->options = *options;
	p->clock = options->host->clock;
	map_init(&p->delays, SIZE_MAX); /* no more than processes */
	p->grace = (struct grace_job){
		.job = {.run = grace_run, .done = grace_done}, .owner = p, .wait = options->host->grace_wait};
	*ret = p;
	return 0;
}

void publication_free(struct publication *p)
{
	struct map_node *n;

	if (!p)
		return;
	map_for_each (&p->delays, n, it)
		free(container_of(n, struct delay, node));
	map_fini(&p->delays);
	free(p->changed);
	free(p->due);
	free(p);
}

static int by_pid(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Leaves each pid once. */
static void changed_unique(struct publication *p)
{
	size_t n = 0;

	if (p->n_changed)
		qsort(p->changed, p->n_changed, sizeof *p->changed, by_pid);
	for (size_t i = 0; i < p->n_changed; i++)
		if (!n || p->changed[n - 1] != p->changed[i])
			p->changed[n++] = p->changed[i];
	p->n_changed = n;
}

void publication_mark(struct publication *p, uint32_t pid)
{
	if (p->n_changed && p->changed[p->n_changed - 1] == pid)
		return;
	if (p->n_changed == p->cap_changed) /* two processes may be marked in turn, thousands of times */
		changed_unique(p);
	if (array_reserve(&p->changed, &p->cap_changed, p->n_changed + 1, sizeof *p->changed) < 0) {
		p->all_changed = true;
		return;
	}
	p->changed[p->n_changed++] = pid;
}

void publication_mark_all(struct publication *p)
{
	p->all_changed = true;
}

void publication_grace(struct publication *p)
{
	const struct job_pool *workers = &p->options.host->workers;

	if (p->grace.running)
		return;
	/* where the workers' queue was full, the period has begun for the arena already */
	if (!p->grace.begun && !arena_grace_begin(p->options.arena))
		return;
	p->grace.begun = true;
	p->grace.running = workers->submit(workers->data, &p->grace.job, WORKER_HIGH) == 0;
}

static bool delay_has_pid(const struct map_node *node, const void *key)
{
	return container_of(node, struct delay, node)->pid == *(const uint32_t *)key;
}

static struct delay *delay_of(const struct publication *p, uint32_t pid)
{
	struct map_node *n = map_find(&p->delays, hash_u64(pid), delay_has_pid, &pid);

	return n ? container_of(n, struct delay, node) : NULL;
}

static void delay_remove(struct publication *p, struct delay *d)
{
	map_remove(&p->delays, &d->node);
	free(d);
}

/* Without memory, the process is tried again at every run. */
static void delay_set(struct publication *p, uint32_t pid, uint64_t until_ns, bool no_room)
{
	struct delay *d = delay_of(p, pid);

	if (!d) {
		d = calloc(1, sizeof *d);
		if (!d)
			return;
		d->pid = pid;
		if (map_insert(&p->delays, &d->node, hash_u64(pid)) < 0) {
			free(d);
			return;
		}
	}
	d->until_ns = until_ns;
	d->no_room = no_room;
	d->n_graces = p->n_graces;
}

/* Whether the delay, which may be NULL, is still to be waited for. */
static bool is_delayed(const struct publication *p, const struct delay *d, uint64_t now_ns)
{
	return d && now_ns < d->until_ns && !(d->no_room && d->n_graces != p->n_graces);
}

/*
 * True when the process's slot says what it is now. After each opened file all processes come here, most of
 * them for nothing: only where a list will be written, its cost is measured, by two system calls.
 */
static bool publish(struct publication *p, struct process *process)
{
	uint64_t begin_ns = p->clock.mono_ns(), cpu_ns, cost_ns = 0;
	struct delay *d = delay_of(p, process->pid);
	bool is_written = publisher_outdated(p->options.publisher, process->maps);
	bool is_long = is_written && process->maps->n >= LONG_LIST;
	int r;

	urgency_check(URGENCY_EVENTS);
	if ((is_long && begin_ns < p->long_lists_ns) || is_delayed(p, d, begin_ns))
		return false;
	cpu_ns = is_written ? p->clock.thread_cpu_ns() : 0;
	r = publisher_put(p->options.publisher, process); /* counts what it refuses */
	if (is_written)
		cost_ns = p->clock.thread_cpu_ns() - cpu_ns;
	if (is_long)
		p->long_lists_ns = begin_ns + COST_SHARE * cost_ns;
	if (r < 0)
		delay_set(p, process->pid, begin_ns + RETRY_NS, true);
	else if (cost_ns > COSTLY_NS)
		delay_set(p, process->pid, begin_ns + COST_SHARE * cost_ns, false);
	else if (d)
		delay_remove(p, d);
	return r == 0;
}

static void mark(struct process *process, void *data)
{
	publication_mark(data, process->pid);
}

/*
 * Many short lists before a long one; and of those that had to wait, the one first that may be written first,
 * so that each has its turn.
 */
static int by_turn(const void *a, const void *b)
{
	const struct due *x = a, *y = b;
	uint32_t n = x->process->maps->n, m = y->process->maps->n;

	if (x->until_ns != y->until_ns)
		return x->until_ns < y->until_ns ? -1 : 1;
	return n != m ? (n < m ? -1 : 1) : by_pid(&x->process->pid, &y->process->pid);
}

/* The processes that are marked, in the order in which they are published. -ENOMEM. */
static int due_set(struct publication *p, size_t *ret_n)
{
	size_t n = 0;

	changed_unique(p);
	if (array_reserve(&p->due, &p->cap_due, p->n_changed, sizeof *p->due) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_changed; i++) {
		struct process *process = proc_table_get(p->options.processes, p->changed[i]);
		const struct delay *d = delay_of(p, p->changed[i]);

		if (process)
			p->due[n++] = (struct due){process, d ? d->until_ns : 0};
	}
	if (n)
		qsort(p->due, n, sizeof *p->due, by_turn);
	*ret_n = n;
	return 0;
}

/* Those that are not published stay marked. True when anything was published. */
static bool publish_changed(struct publication *p)
{
	size_t n, left = 0;

	if (due_set(p, &n) < 0) /* all stay marked */
		return false;
	for (size_t i = 0; i < n; i++)
		if (!publish(p, p->due[i].process))
			p->changed[left++] = p->due[i].process->pid;
	p->n_changed = left;
	return left < n;
}

void publication_run(struct publication *p)
{
	if (p->all_changed) {
		p->all_changed = false;
		p->epoch++;
		proc_table_each(p->options.processes, mark, p);
	}
	if (p->n_changed)
		p->epoch += publish_changed(p);
	publication_grace(p);
}

uint64_t publication_epoch(const struct publication *p)
{
	return p->epoch;
}

void publication_changed(struct publication *p)
{
	p->epoch++;
}

void publication_select(struct publication *p, struct process *process, bool inherited)
{
	const struct publication_options *o = &p->options;
	enum select_answer answer = o->select ? o->select(process, o->select_data) : SELECT_YES;

	process->image->selected = answer == SELECT_AS_PARENT ? inherited : answer == SELECT_YES;
}

/* --- what happens to a process */

void publication_begin(struct publication *p, struct process *process)
{
	proc_history_begin(process, publisher_generation(p->options.publisher), 0);
}

/* Until its execve is published, samples are walked with the wrong list: they bring their saved stack. */
void publication_forked(struct publication *p, struct process *child, struct process *parent,
			uint64_t time_ns)
{
	child->save_stack = true;
	child->save_stack_until_ns = time_ns + FORKED_SAVE_STACK_NS;
	if (parent->save_stack && parent->save_stack_until_ns > child->save_stack_until_ns)
		child->save_stack_until_ns = parent->save_stack_until_ns;
	proc_maps_unref(child->maps);
	child->maps = proc_maps_ref(parent->maps);
	proc_history_begin(child, publisher_generation(p->options.publisher),
			   publisher_list_generation(p->options.publisher, child->maps));
	publication_mark(p, child->pid);
}

void publication_remember(struct publication *p, struct process *process, uint64_t until_ns)
{
	if (process->maps->n &&
	    proc_history_add(process, until_ns, publisher_generation(p->options.publisher)) < 0)
		gap_note(p->options.gaps, GAP_NO_MEMORY);
}

void publication_exec(struct publication *p, struct process *process, uint64_t time_ns)
{
	struct proc_maps *empty;

	/* a process that calls execve twice within so short a time may do it again */
	process->save_stack = process->exec_ns && time_ns - process->exec_ns < FORKED_SAVE_STACK_NS;
	process->save_stack_until_ns = time_ns + FORKED_SAVE_STACK_NS;
	process->exec_ns = time_ns;
	publication_remember(p, process, time_ns);
	publisher_remove(p->options.publisher, process);
	publication_mark(p, process->pid);
	if (proc_maps_new(&empty, process->maps->files) < 0) {
		gap_note(p->options.gaps, GAP_NO_MEMORY);
		return;
	}
	proc_maps_unref(process->maps);
	process->maps = empty;
}

void publication_replacing(struct publication *p, struct process *process, uint64_t time_ns)
{
	publication_remember(p, process, time_ns);
	process->save_stack_until_ns = time_ns + REPLACED_SAVE_STACK_NS;
	process->save_stack = true;
}

void publication_end(struct publication *p, struct process *process, uint64_t time_ns)
{
	publisher_remove(p->options.publisher, process);
	proc_table_end(p->options.processes, process, time_ns);
}

void publication_tend(struct publication *p, struct process *process, uint64_t now_ns)
{
	/* the table has one reference, samples that wait have the others */
	uint64_t keep_ns = process->refs > 1 ? HISTORY_WAITING_NS : HISTORY_KEEP_NS;

	proc_history_forget(process, now_ns > keep_ns ? now_ns - keep_ns : 0);
	if (!process->save_stack || now_ns < process->save_stack_until_ns)
		return;
	process->save_stack = false;
	publication_mark(p, process->pid);
}

void publication_forget(struct publication *p)
{
	uint64_t now = p->clock.mono_ns();
	struct map_node *n;

	map_for_each (&p->delays, n, it)
		if (now >= container_of(n, struct delay, node)->until_ns)
			delay_remove(p, container_of(n, struct delay, node));
}

void publication_resolved(struct publication *p, const struct process *process)
{
	if (!process->end_ns && publisher_outdated(p->options.publisher, process->maps))
		publication_mark(p, process->pid);
}
