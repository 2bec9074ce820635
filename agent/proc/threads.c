// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"

/* One name of a thread. The map has the newest name of a tid, which links to the earlier ones. */
struct thread_name {
	struct map_node node;
	struct thread_name *before;
	uint32_t tid, pid;
	uint64_t since_ns, end_ns; /* end_ns: 0 while it is valid */
	char name[PROC_TASK_COMM_LEN];
};

struct proc_threads {
	struct map tids;
	size_t n_before;
};

int proc_threads_new(struct proc_threads **ret, size_t max)
{
	struct proc_threads *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	map_init(&t->tids, max);
	*ret = t;
	return 0;
}

/* Frees the names before `e`. */
static void drop_before(struct proc_threads *t, struct thread_name *e)
{
	struct thread_name *old = TAKE_PTR(e->before);

	while (old) {
		struct thread_name *before = old->before;

		free(old);
		t->n_before--;
		old = before;
	}
}

void proc_threads_free(struct proc_threads *t)
{
	struct map_node *n;

	if (!t)
		return;
	map_for_each (&t->tids, n, it) {
		drop_before(t, container_of(n, struct thread_name, node));
		free(container_of(n, struct thread_name, node));
	}
	map_fini(&t->tids);
	free(t);
}

static bool tid_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct thread_name, node)->tid == *(const uint32_t *)key;
}

static struct thread_name *find(const struct proc_threads *t, uint32_t tid)
{
	struct map_node *n = map_find(&t->tids, hash_u64(tid), tid_is, &tid);

	return n ? container_of(n, struct thread_name, node) : NULL;
}

static void name_set(struct thread_name *e, const char *name)
{
	memset(e->name, 0, sizeof e->name);
	memcpy(e->name, name, strnlen(name, sizeof e->name - 1));
}

/* Links the thread's present name behind its new one. */
static void keep_before(struct proc_threads *t, struct thread_name *e)
{
	struct thread_name *old = t->n_before < t->tids.max ? malloc(sizeof *old) : NULL, *last = e;

	if (!old && e->before) { /* at the maximum, the tid's own oldest name is dropped */
		while (last->before->before)
			last = last->before;
		old = TAKE_PTR(last->before);
	} else if (old) {
		t->n_before++;
	} else {
		return;
	}
	*old = *e;
	e->before = old;
}

void proc_threads_set(struct proc_threads *t, uint32_t pid, uint32_t tid, uint64_t since_ns, const char *name)
{
	struct thread_name *e = find(t, tid);

	if (e && e->pid == pid && !e->end_ns && strncmp(e->name, name, sizeof e->name - 1) == 0)
		return;
	if (e && since_ns > e->since_ns) {
		keep_before(t, e);
	} else if (!e) {
		e = calloc(1, sizeof *e);
		if (!e)
			return;
		e->tid = tid;
		if (map_insert(&t->tids, &e->node, hash_u64(tid)) < 0) {
			free(e);
			return;
		}
	}
	e->pid = pid;
	e->since_ns = since_ns;
	e->end_ns = 0;
	name_set(e, name);
}

void proc_threads_end(struct proc_threads *t, uint32_t tid, uint64_t time_ns)
{
	struct thread_name *e = find(t, tid);

	if (e && !e->end_ns)
		e->end_ns = time_ns;
}

void proc_threads_end_all(struct proc_threads *t, uint32_t pid, uint64_t time_ns)
{
	struct map_node *n;

	map_for_each (&t->tids, n, it) {
		struct thread_name *e = container_of(n, struct thread_name, node);

		if (e->pid == pid && !e->end_ns)
			e->end_ns = time_ns;
	}
}

bool proc_threads_known(const struct proc_threads *t, uint32_t pid, uint32_t tid)
{
	const struct thread_name *e = find(t, tid);

	while (e && e->pid != pid)
		e = e->before;
	return e;
}

bool proc_threads_at(const struct proc_threads *t, uint32_t pid, uint32_t tid, uint64_t time_ns,
		     char ret[PROC_TASK_COMM_LEN])
{
	const struct thread_name *e = find(t, tid);

	while (e && e->since_ns > time_ns)
		e = e->before;
	if (!e || e->pid != pid)
		return false;
	memcpy(ret, e->name, sizeof e->name);
	return true;
}

static void remove_thread(struct proc_threads *t, struct thread_name *e)
{
	drop_before(t, e);
	map_remove(&t->tids, &e->node);
	free(e);
}

void proc_threads_forget_running(struct proc_threads *t)
{
	struct map_node *n;

	map_for_each (&t->tids, n, it) {
		struct thread_name *e = container_of(n, struct thread_name, node);

		if (!e->end_ns)
			remove_thread(t, e);
	}
}

void proc_threads_forget(struct proc_threads *t, uint64_t time_ns)
{
	struct map_node *n;

	map_for_each (&t->tids, n, it) {
		struct thread_name *e = container_of(n, struct thread_name, node), *at = e;

		while (at->before && at->since_ns > time_ns)
			at = at->before;
		drop_before(t, at);
		if (e->end_ns && e->end_ns < time_ns)
			remove_thread(t, e);
	}
}

size_t proc_threads_len(const struct proc_threads *t)
{
	return t->tids.len;
}

uint64_t proc_threads_full(const struct proc_threads *t)
{
	return t->tids.n_full;
}
