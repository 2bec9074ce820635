// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/publish.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/table.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/tables.h"
#include "agent/unwind/list.h"

#define SLOTS (PROCESS_BUCKETS * PROCESS_BUCKET_SLOTS)
#define PROBES (PROCESS_PROBES * PROCESS_BUCKET_SLOTS)

struct publisher {
	struct arena *arena;
	struct unwind_tables *tables;
	uint32_t generation;
	struct publish_stats stats;
};

int publisher_new(struct publisher **ret, struct arena *arena, struct unwind_tables *tables)
{
	struct publisher *p = calloc(1, sizeof *p);

	if (!p)
		return -ENOMEM;
	p->arena = arena;
	p->tables = tables;
	*ret = p;
	return 0;
}

void publisher_free(struct publisher *p)
{
	free(p);
}

/* Slot and value in one store: the program reads both in one load. */
static void slot_store(struct process_slot *slot, struct process_slot value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	__atomic_store_n((uint64_t *)slot, bits, __ATOMIC_RELEASE);
}

/* The slot that has `pid`, or the first that it may have. NULL when all it may have are taken. */
static struct process_slot *slot_find(const struct publisher *p, uint32_t pid)
{
	struct process_slot *slots = arena_process_table(p->arena), *free_slot = NULL;
	uint32_t first =
		(pid * 2654435761u >> 20) * PROCESS_BUCKET_SLOTS; /* as the program's process_list() */

	for (uint32_t i = 0; i < PROBES; i++) {
		struct process_slot *s = &slots[(first + i) % SLOTS];

		if (s->pid == pid)
			return s;
		if ((s->pid == 0 || s->pid == PROCESS_PID_DELETED) && !free_slot)
			free_slot = s;
		if (s->pid == 0)
			break;
	}
	return free_slot;
}

static void list_release(struct proc_maps *m, void *data)
{
	struct publisher *p = data;

	arena_retire(p->arena, (struct arena_block){m->published_ref, m->published_len});
	p->stats.list_bytes -= m->published_len;
	m->published_ref = m->published_len = m->published_generation = 0;
}

/* Writes the list to a new block, and retires the one before. */
static int list_put(struct publisher *p, struct proc_maps *m, uint32_t flags)
{
	_cleanup_(list_entries_fini) struct list_entries l = {0};
	struct arena_block block = {0};
	size_t n;
	int r = list_entries_make(&l, m, p->tables);

	if (r < 0)
		return r;
	n = list_capacity(SEGMENT_BYTES);
	if (l.n > n)
		p->stats.cut++;
	else
		n = l.n;
	if (n) {
		r = arena_alloc(p->arena, list_bytes(n), &block);
		if (r < 0) {
			p->stats.no_memory++;
			return r;
		}
		if (!++p->generation)
			p->generation = 1;
		list_write(arena_at(p->arena, block.ref), l.entries, n, p->generation, flags);
	}
	if (m->published_ref)
		list_release(m, p);
	m->published_ref = block.ref;
	m->published_len = block.len;
	m->published_change = unwind_tables_change(p->tables);
	m->published_generation = block.ref ? p->generation : 0;
	m->release = list_release;
	m->release_data = p;
	m->dirty = false;
	p->stats.lists++;
	p->stats.list_bytes += block.len;
	return 0;
}

static bool table_lives(const struct publisher *p, const struct mapping_entry *e)
{
	const struct binary_table *f = unwind_tables_get(p->tables, e->file);

	for (size_t i = 0; f && i < f->n_placed; i++)
		if (f->placed[i].block.ref == e->table)
			return true;
	return false;
}

/* The list that stays, because there is no room for a new one, must not lead to blocks that will be reused.
 */
static void list_forget(const struct publisher *p, const struct proc_maps *m)
{
	struct mapping_list *list = arena_at(p->arena, m->published_ref);
	struct mapping_entry *entries = (struct mapping_entry *)((uint8_t *)list + list->entries);

	for (uint32_t i = 0; i < list->n; i++)
		if (entries[i].table > TABLE_PENDING && !table_lives(p, &entries[i]))
			__atomic_store_n(&entries[i].table, TABLE_PENDING, __ATOMIC_RELEASE);
}

bool publisher_outdated(const struct publisher *p, const struct proc_maps *m)
{
	for (uint32_t i = 0; i < m->n; i++) {
		const struct binary_table *f = unwind_tables_get(p->tables, m->entries[i].file);

		if (f && (int32_t)(f->change - m->published_change) > 0) /* it may wrap around */
			return true;
	}
	return false;
}

int publisher_put(struct publisher *p, struct process *process)
{
	struct proc_maps *m = process->maps;
	struct process_slot *slot;
	int r;

	if (m->dirty || !m->release) {
		r = list_put(p, m, process->image->selected ? 0 : LIST_SKIP);
		if (r < 0) {
			if (m->published_ref)
				list_forget(p, m);
			return r;
		}
	}
	if (process->in_kernel_table && process->published_ref == m->published_ref &&
	    process->published_stack == process->keep_stack)
		return 0;
	slot = slot_find(p, process->pid);
	if (!slot) {
		p->stats.table_full++;
		return -ENOSPC;
	}
	slot_store(slot, (struct process_slot){process->pid,
					       m->published_ref | (process->keep_stack ? PROCESS_STACK : 0)});
	p->stats.processes += !process->in_kernel_table;
	process->in_kernel_table = true;
	process->published_ref = m->published_ref;
	process->published_stack = process->keep_stack;
	return 0;
}

/* Empties a slot. Only where another slot of the probe follows must a mark stay behind. */
static void slot_clear(const struct publisher *p, struct process_slot *slot)
{
	struct process_slot *slots = arena_process_table(p->arena);
	uint32_t i = (uint32_t)(slot - slots);

	if (slots[(i + 1) % SLOTS].pid != 0) {
		slot_store(slot, (struct process_slot){PROCESS_PID_DELETED, 0});
		return;
	}
	do {
		slot_store(&slots[i], (struct process_slot){0, 0});
		i = (i + SLOTS - 1) % SLOTS;
	} while (slots[i].pid == PROCESS_PID_DELETED);
}

void publisher_remove(struct publisher *p, struct process *process)
{
	struct process_slot *slot;

	if (!process->in_kernel_table)
		return;
	slot = slot_find(p, process->pid);
	if (slot && slot->pid == process->pid)
		slot_clear(p, slot);
	process->in_kernel_table = false;
	process->published_ref = 0;
	p->stats.processes--;
}

uint32_t publisher_generation(const struct publisher *p)
{
	return p->generation;
}

void publisher_stats(const struct publisher *p, struct publish_stats *ret)
{
	*ret = p->stats;
}
