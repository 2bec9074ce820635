// SPDX-License-Identifier: Apache-2.0
/*
 * Thread names are asked for when a window closes, when the thread may have ended: those of ended threads are
 * kept for NAME_KEEP_NS. Main threads are not here, they have the process's name.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/proc/stat.h"
#include "agent/track_private.h"

#define THREADS_MAX 65536u
#define NAME_KEEP_NS (90 * NS_PER_SEC) /* longer than the longest window */
#define REAP_EVERY_NS (10 * NS_PER_SEC)

struct thread_name {
	struct map_node node;
	uint32_t tid;
	uint64_t end_ns; /* 0 while it lives */
	char name[PROC_TASK_COMM_LEN];
};

void track_threads_init(struct track *t)
{
	map_init(&t->threads, THREADS_MAX);
}

void track_threads_fini(struct track *t)
{
	struct map_node *n;

	map_for_each (&t->threads, n, it)
		free(container_of(n, struct thread_name, node));
	map_fini(&t->threads);
}

static bool tid_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct thread_name, node)->tid == *(const uint32_t *)key;
}

static struct thread_name *thread_find(const struct track *t, uint32_t tid)
{
	struct map_node *n = map_find(&t->threads, hash_u64(tid), tid_is, &tid);

	return n ? container_of(n, struct thread_name, node) : NULL;
}

void track_thread_add(struct track *t, uint32_t tid, const char *name)
{
	struct thread_name *e = thread_find(t, tid);

	if (!e) {
		e = calloc(1, sizeof *e);
		if (!e)
			return;
		e->tid = tid;
		if (map_insert(&t->threads, &e->node, hash_u64(tid)) < 0) {
			free(e);
			return;
		}
	}
	e->end_ns = 0;
	strncpy(e->name, name, sizeof e->name - 1);
}

void track_thread_end(struct track *t, uint32_t tid, uint64_t time_ns)
{
	struct thread_name *e = thread_find(t, tid);

	if (e)
		e->end_ns = time_ns;
}

void track_threads_reap(struct track *t, uint64_t now_ns)
{
	struct map_node *n;

	if (now_ns - t->threads_reaped_ns < REAP_EVERY_NS)
		return;
	t->threads_reaped_ns = now_ns;
	map_for_each (&t->threads, n, it) {
		struct thread_name *e = container_of(n, struct thread_name, node);

		if (!e->end_ns || e->end_ns + NAME_KEEP_NS > now_ns)
			continue;
		map_remove(&t->threads, n);
		free(e);
	}
}

const char *track_thread_name(struct track *t, struct process *p, uint32_t tid)
{
	struct thread_name *e;
	char name[PROC_TASK_COMM_LEN];

	if (tid == p->pid)
		return p->comm;
	e = thread_find(t, tid);
	if (!e && !p->end_ns && proc_comm_read(t->proc_fd, p->pid, tid, name) == 0) {
		track_thread_add(t, tid, name);
		e = thread_find(t, tid);
	}
	return e ? e->name : p->comm;
}
