// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/history.h"

/* The map has one entry per pid, the newest process; it links to the earlier processes of that pid. */
struct proc_table {
	struct map pids;
	const struct proc_files *files;
	size_t n_alive, max_alive, n_ended;
	size_t n_images; /* of all processes */
	uint64_t n_full;
	struct process *ended, **ended_tail; /* in the order in which they ended; not yet reaped */
};

int proc_table_new(struct proc_table **ret, size_t max_processes, const struct proc_files *files)
{
	struct proc_table *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	map_init(&t->pids, SIZE_MAX); /* the number of live and ended processes limits it */
	t->max_alive = max_processes;
	t->files = files;
	t->ended_tail = &t->ended;
	*ret = t;
	return 0;
}

void proc_table_free(struct proc_table *t)
{
	struct map_node *n;

	if (!t)
		return;
	map_for_each (&t->pids, n, it) {
		for (struct process *p = container_of(n, struct process, node), *earlier; p; p = earlier) {
			earlier = p->earlier;
			p->n_images_all = NULL;
			process_unref(p);
		}
	}
	map_fini(&t->pids);
	free(t);
}

static bool pid_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct process, node)->pid == *(const uint32_t *)key;
}

/* The newest process of the pid, live or ended. */
static struct process *newest(const struct proc_table *t, uint32_t pid)
{
	struct map_node *n = map_find(&t->pids, hash_u64(pid), pid_is, &pid);

	return n ? container_of(n, struct process, node) : NULL;
}

struct process *proc_table_get(const struct proc_table *t, uint32_t pid)
{
	struct process *p = newest(t, pid);

	return p && !p->end_ns ? p : NULL;
}

/* A task can still be sampled while it exits, after its end was reported. */
struct process *proc_table_at(const struct proc_table *t, uint32_t pid, uint64_t time_ns)
{
	struct process *p = newest(t, pid);

	while (p && p->start_ns > time_ns)
		p = p->earlier;
	return p;
}

static void process_destroy(struct process *p)
{
	proc_images_fini(p);
	proc_history_fini(p);
	proc_maps_unref(p->reported);
	proc_maps_unref(p->maps);
	free(p);
}

static int process_new(struct proc_table *t, struct process **ret, uint32_t pid, uint64_t start_ns)
{
	struct process *p = calloc(1, sizeof *p);
	int r;

	if (!p)
		return -ENOMEM;
	p->pid = pid;
	p->start_ns = start_ns;
	p->n_images_all = &t->n_images;
	p->refs = 1;
	p->destroy = process_destroy;
	r = proc_maps_new(&p->maps, t->files);
	if (r == 0)
		r = proc_image_first(p);
	if (r < 0) {
		process_unref(p);
		return r;
	}
	*ret = p;
	return 0;
}

static void ended_append(struct proc_table *t, struct process *p, uint64_t time_ns)
{
	p->end_ns = time_ns ?: 1;
	*t->ended_tail = p;
	t->ended_tail = &p->next_ended;
	t->n_ended++;
}

static void ended_drop_first(struct proc_table *t)
{
	struct process *p = t->ended, *head = newest(t, p->pid), *at = head;

	t->ended = p->next_ended;
	if (!t->ended)
		t->ended_tail = &t->ended;
	t->n_ended--;
	if (p == head) {
		map_remove(&t->pids, &p->node);
		if (p->earlier) /* the bucket exists, because it has just held `p` */
			(void)map_insert(&t->pids, &p->earlier->node, p->node.hash);
	} else {
		while (at->earlier != p)
			at = at->earlier;
		at->earlier = p->earlier;
	}
	p->earlier = NULL;
	process_unref(p);
}

/* If the pid was reused before we read /proc, discard what we read. */
static void disown(struct process *p, uint64_t time_ns)
{
	proc_program_leave(p->image->program, p->pid, time_ns);
	for (struct proc_image *i = p->image; i; i = i->before)
		proc_image_disown(i, time_ns);
}

int proc_table_add(struct proc_table *t, uint32_t pid, uint64_t start_ns, struct process **ret)
{
	struct process *last = newest(t, pid), *p;
	int r;

	if (last && !last->end_ns)
		proc_table_end(t, last, start_ns);
	else if (t->n_ended >= PROC_ENDED_MAX && t->ended != last)
		ended_drop_first(t);
	if (t->n_alive >= t->max_alive) {
		t->n_full++;
		return -ENOSPC;
	}
	if (last && last->end_ns > start_ns)
		start_ns = last->end_ns;
	r = process_new(t, &p, pid, start_ns);
	if (r < 0)
		return r;
	if (last)
		map_remove(&t->pids, &last->node);
	r = map_insert(&t->pids, &p->node, hash_u64(pid));
	if (r < 0) { /* without buckets there was no earlier process either */
		process_unref(p);
		return r;
	}
	p->earlier = last;
	if (last)
		disown(last, start_ns);
	t->n_alive++;
	*ret = p;
	return 0;
}

int proc_table_add_ended(struct proc_table *t, uint32_t pid, uint64_t end_ns, struct process **ret)
{
	struct process *p, *at;
	int r;

	if (t->n_ended >= PROC_ENDED_MAX)
		ended_drop_first(t);
	r = process_new(t, &p, pid, 0);
	if (r < 0)
		return r;
	at = newest(t, pid);
	while (at && at->earlier)
		at = at->earlier;
	if (at)
		at->earlier = p;
	else
		r = map_insert(&t->pids, &p->node, hash_u64(pid));
	if (r < 0) {
		process_unref(p);
		return r;
	}
	ended_append(t, p, end_ns);
	*ret = p;
	return 0;
}

void proc_table_end(struct proc_table *t, struct process *p, uint64_t time_ns)
{
	if (p->end_ns)
		return;
	proc_program_leave(p->image->program, p->pid, time_ns);
	ended_append(t, p, time_ns);
	t->n_alive--;
}

void proc_table_reap(struct proc_table *t, uint64_t time_ns)
{
	while (t->ended && t->ended->end_ns < time_ns)
		ended_drop_first(t);
}

void proc_table_each(const struct proc_table *t, void (*fn)(struct process *p, void *data), void *data)
{
	struct map_node *n;

	map_for_each (&t->pids, n, it)
		if (!container_of(n, struct process, node)->end_ns)
			fn(container_of(n, struct process, node), data);
}

size_t proc_table_len(const struct proc_table *t)
{
	return t->n_alive;
}

uint64_t proc_table_full(const struct proc_table *t)
{
	return t->n_full;
}
