// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/history.h"

struct proc_table {
	struct map alive;      /* by pid */
	struct process *ended; /* newest first, not yet reaped */
};

int proc_table_new(struct proc_table **ret, size_t max_processes)
{
	struct proc_table *t = calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	map_init(&t->alive, max_processes);
	*ret = t;
	return 0;
}

void proc_table_free(struct proc_table *t)
{
	struct map_node *n;

	if (!t)
		return;
	map_for_each (&t->alive, n, it)
		process_unref(container_of(n, struct process, node));
	for (struct process *p = t->ended, *next; p; p = next) {
		next = p->next_ended;
		process_unref(p);
	}
	map_fini(&t->alive);
	free(t);
}

static bool pid_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct process, node)->pid == *(const uint32_t *)key;
}

struct process *proc_table_get(const struct proc_table *t, uint32_t pid)
{
	struct map_node *n = map_find(&t->alive, hash_u64(pid), pid_is, &pid);

	return n ? container_of(n, struct process, node) : NULL;
}

struct process *proc_table_at(const struct proc_table *t, uint32_t pid, uint64_t time_ns)
{
	struct process *alive = proc_table_get(t, pid);

	if (alive && alive->start_ns <= time_ns)
		return alive;
	/* newest first; a task is still sampled on its way out, after it was reported to have ended */
	for (struct process *p = t->ended; p; p = p->next_ended)
		if (p->pid == pid && p->start_ns <= time_ns)
			return p;
	return alive; /* a clock that is a little off beats no name */
}

static int process_new(struct process **ret, uint32_t pid, uint64_t start_ns)
{
	struct process *p = calloc(1, sizeof *p);
	int r;

	if (!p)
		return -ENOMEM;
	p->pid = pid;
	p->start_ns = start_ns;
	p->refs = 1;
	r = proc_maps_new(&p->maps);
	if (r < 0) {
		free(p);
		return r;
	}
	*ret = p;
	return 0;
}

int proc_table_add(struct proc_table *t, uint32_t pid, uint64_t start_ns, struct process **ret)
{
	struct process *p = proc_table_get(t, pid);
	int r;

	if (p)
		proc_table_end(t, p, start_ns);
	r = process_new(&p, pid, start_ns);
	if (r < 0)
		return r;
	r = map_insert(&t->alive, &p->node, hash_u64(pid));
	if (r < 0) {
		process_unref(p);
		return r;
	}
	*ret = p;
	return 0;
}

void proc_table_end(struct proc_table *t, struct process *p, uint64_t time_ns)
{
	if (p->end_ns)
		return;
	map_remove(&t->alive, &p->node);
	p->end_ns = time_ns ?: 1;
	p->next_ended = t->ended;
	t->ended = p;
}

void proc_table_reap(struct proc_table *t, uint64_t time_ns, void (*fn)(struct process *p, void *data),
		     void *data)
{
	struct process **at = &t->ended;

	while (*at) {
		struct process *p = *at;

		if (p->end_ns >= time_ns) {
			at = &p->next_ended;
			continue;
		}
		*at = p->next_ended;
		fn(p, data);
		process_unref(p);
	}
}

void proc_table_each(const struct proc_table *t, void (*fn)(struct process *p, void *data), void *data)
{
	struct map_node *n;

	map_for_each (&t->alive, n, it)
		fn(container_of(n, struct process, node), data);
}

size_t proc_table_len(const struct proc_table *t)
{
	return t->alive.len;
}

uint64_t proc_table_full(const struct proc_table *t)
{
	return t->alive.n_full;
}

struct process *process_ref(struct process *p)
{
	p->refs++;
	return p;
}

void process_unref(struct process *p)
{
	if (!p || --p->refs)
		return;
	if (p->context_free)
		p->context_free(p->context);
	proc_history_fini(p);
	proc_maps_unref(p->maps);
	free(p->exe);
	free(p->service_name);
	free(p);
}
