// SPDX-License-Identifier: Apache-2.0
#include "agent/track/track_ask.h"

#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/log.h"
#include "agent/base/priority.h"
#include "agent/track/track_private.h"

#define REPLACE_NS (20 * NS_PER_MS)	 /* a thread of whose question nobody waits for the answer */
#define TABLE_BOUND_NS (10 * NS_PER_SEC) /* as long as a sample waits for its table */

static void on_done(struct worker_job *job, bool cancelled);

static void on_run(struct worker_job *job)
{
	static _Thread_local bool prepared;
	struct ask *a = container_of(job, struct ask, job);
	uint64_t before = clock_thread_cpu_ns();

	if (!prepared)
		priority_short_slices(); /* the main loop waits */
	prepared = true;
	__atomic_store_n(&a->began_ns, clock_mono_ns(), __ATOMIC_RELEASE);
	a->kind->run(a);
	a->cpu_ns += clock_thread_cpu_ns() - before;
}

static void late_add(struct track *t, struct ask *a)
{
	a->next = t->late;
	t->late = a;
	t->ask.pending++;
}

static void late_remove(struct track *t, struct ask *a)
{
	struct ask **at = &t->late;

	while (*at && *at != a)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = a->next;
	t->ask.pending -= !a->given_up;
}

/* Copies what is not to be touched. False: the process itself is not. */
static bool refusals_take(const struct track *t, struct ask *a, bool *ret_late)
{
	*ret_late = false;
	a->watch = (struct proc_open_watch){.refused = a->refused};
	for (const struct ask *l = t->late; l; l = l->next) {
		uint64_t dev = __atomic_load_n(&l->watch.dev, __ATOMIC_ACQUIRE);

		if (!l->given_up)
			*ret_late |= l->pid == a->pid;
		else if (!dev && l->pid == a->pid)
			return false;
		else if (dev && a->watch.n_refused < ASK_REFUSED_MAX)
			a->refused[a->watch.n_refused++] = dev;
	}
	return true;
}

/* How long the main loop may wait now. */
static uint64_t patience(struct track *t)
{
	uint64_t now = clock_mono_ns();

	if (t->patience_ns < ASK_SAVED_NS) { /* it has more at the start */
		t->patience_ns += (now - t->patience_at_ns) / ASK_SHARE;
		if (t->patience_ns > ASK_SAVED_NS)
			t->patience_ns = ASK_SAVED_NS;
	}
	t->patience_at_ns = now;
	return t->patience_ns < ASK_WAIT_NS ? t->patience_ns : ASK_WAIT_NS;
}

static bool await(struct track *t, struct ask *a)
{
	uint64_t most = patience(t), before = clock_mono_ns(), waited, counted;
	bool here;

	if (most < ASK_FREE_NS)
		return false;
	here = worker_await(t->options.opener, &a->job, most);
	waited = clock_mono_ns() - before;
	counted = waited > ASK_FREE_NS ? waited - ASK_FREE_NS : 0;
	t->patience_ns -= counted < t->patience_ns ? counted : t->patience_ns;
	t->ask.waited_ns += waited;
	if (waited > t->ask.waited_max_ns)
		t->ask.waited_max_ns = waited;
	return here;
}

static void prepare(struct track *t, struct ask *a, const struct ask_kind *kind, uint32_t pid)
{
	a->job = (struct worker_job){.run = on_run, .done = on_done};
	a->kind = kind;
	a->track = t;
	a->pid = pid;
	a->proc_fd = t->proc_fd;
	a->of_rescan = t->rescanning;
	a->asked_ns = clock_mono_ns();
	t->ask.asked++;
}

static bool submit(struct track *t, struct ask *a, enum worker_priority priority, bool *ret_late)
{
	if (refusals_take(t, a, ret_late) && worker_submit(t->options.opener, &a->job, priority) == 0)
		return true;
	t->ask.refused++;
	return false;
}

static enum ask_answer later(struct track *t, struct ask *a)
{
	t->ask.late++;
	late_add(t, a);
	return ASK_LATER;
}

enum ask_answer track_ask(struct track *t, struct ask *a, const struct ask_kind *kind, uint32_t pid)
{
	bool any_late;

	prepare(t, a, kind, pid);
	do {
		if (!submit(t, a, WORKER_HIGH, &any_late))
			return ASK_NEVER;
		if (any_late || !await(t, a))
			return later(t, a);
	} while (kind->again && kind->again(t, a));
	return ASK_HERE;
}

bool track_ask_ahead(struct track *t, struct ask *a, const struct ask_kind *kind, uint32_t pid)
{
	bool any_late;

	prepare(t, a, kind, pid);
	return submit(t, a, WORKER_LOW, &any_late);
}

enum ask_answer track_ask_take(struct track *t, struct ask *a)
{
	return await(t, a) ? ASK_HERE : later(t, a);
}

static void take_late(struct track *t, struct ask *a)
{
	uint64_t before = clock_thread_cpu_ns();
	bool was = t->rescanning;

	t->rescanning = a->of_rescan; /* and what is asked because of it */
	a->kind->late(t, a);
	t->rescanning = was;
	if (a->of_rescan)
		t->rescan_cost_ns += a->cpu_ns + clock_thread_cpu_ns() - before;
}

static void on_done(struct worker_job *job, bool cancelled)
{
	struct ask *a = container_of(job, struct ask, job);
	struct track *t = a->track;

	if (!cancelled && !a->given_up && a->kind->again && a->kind->again(t, a) &&
	    worker_submit(t->options.opener, &a->job, WORKER_HIGH) == 0)
		return;
	late_remove(t, a);
	if (!cancelled && !a->given_up && a->kind->late)
		take_late(t, a);
	a->kind->free(a);
}

static bool overdue(const struct ask *a, uint64_t now)
{
	uint64_t began = __atomic_load_n(&a->began_ns, __ATOMIC_ACQUIRE);

	return began ? now > began + ASK_BOUND_NS : now > a->asked_ns + ASK_QUEUED_NS;
}

static void give_up(struct track *t, struct ask *a)
{
	a->given_up = true;
	t->ask.pending--;
	t->ask.given_up++;
	log_warn("process %u: %s takes longer than 2 s: a file system, or what backs its memory, does not "
		 "answer; given up",
		 a->pid, a->kind->what);
	if (a->kind->give_up)
		a->kind->give_up(t, a);
}

static void questions_check(struct track *t)
{
	uint64_t now = clock_mono_ns();
	bool any = true;

	worker_check(t->options.opener, REPLACE_NS);
	while (any) { /* giving up one may ask another question */
		any = false;
		for (struct ask *a = t->late; a && !any; a = a->next) {
			any = !a->given_up && overdue(a, now);
			if (any)
				give_up(t, a);
		}
	}
}

void track_check(struct track *t)
{
	struct unwind_tables_stats s;
	const struct binary *b;

	questions_check(t);
	worker_check(t->options.worker, TABLE_BOUND_NS);
	unwind_tables_stats(t->tables, &s);
	if (s.overdue == t->overdue_told)
		return;
	t->overdue_told = s.overdue;
	b = binary_registry_get(t->binaries, s.overdue_file);
	log_warn("%s: reading it for its unwind table has taken longer than 10 s: its file system does not "
		 "answer; given up",
		 b ? b->module.path : "a file");
}
