// SPDX-License-Identifier: Apache-2.0
/*
 * There are two kinds of objects, both found by hash: a `slot` for each process in the process table, by
 * pid, and a `list` for each mapping list in the arena, by id and version of the mappings and whether they
 * are sampled. A slot names one list. A list has a chain of the slots that name it, and is freed with the
 * last of them.
 *
 * When a table of a list becomes ready, the list is written to a new block, and all of its slots are set
 * to it. When the mappings of a process change, that makes another list: the processes that shared the old
 * one may differ by now, and each moves to its new list when publisher_put is called for it.
 */
#include "agent/unwind/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/binary/registry.h"
#include "agent/proc/image.h"
#include "agent/proc/mapping.h"
#include "agent/proc/process.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/tables.h"
#include "agent/unwind/list.h"
#include "agent/unwind/runtime_walk.h"

#define SLOTS (PROCESS_BUCKETS * PROCESS_BUCKET_SLOTS)
#define LISTS_SHARE 2u	/* lists evict tables until they take 1/2 of the arena */
#define ROOM_LEFT 4u	/* more lists leave 1/4 of the arena free */
#define SEARCHES_MAX 8u /* samples of a process in which no thread's state was found */
#define PROBES (PROCESS_PROBES * PROCESS_BUCKET_SLOTS)

/* Which list: of this version of these mappings, sampled or not. */
struct list_key {
	uint64_t maps, version;
	uint32_t flags; /* LIST_* */
};

struct slot;

struct list {
	struct map_node node;
	struct list_key key;
	bool written;
	uint32_t change;	  /* unwind_tables_change() when it was written */
	struct arena_block block; /* ref 0: there are no mappings */
	struct slot *slots;	  /* that name it */
	int32_t thread_slot;	  /* where a thread's state was found (struct runtime_slot); 0: not yet */
	uint32_t n_searched;	  /* times that it was not found */
	uint32_t *files;	  /* indices of all files in it, ascending, each held */
	size_t n_files;
};

struct slot {
	struct map_node node;
	uint32_t pid;
	bool stack;		 /* samples bring their stack */
	struct process_slot *at; /* in the arena; it does not move. NULL until there is a list */
	struct list *list;
	struct arena_hold hold;	   /* room for its next list */
	struct slot *next, **link; /* in the list's chain */
};

struct publisher {
	struct arena *arena;
	struct unwind_tables *tables;
	struct map slots, lists;
	unsigned runtimes;  /* bit n: frames of those of that kind are wanted (enum runtime_kind) */
	uint64_t last_list; /* number given last, as the owner's id in the arena */
	uint32_t generation;
	struct publish_stats stats;
};

/* --- the process table */

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

/* Slot and value in one store: the program reads both in one load. */
static void slot_store(struct process_slot *slot, struct process_slot value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	__atomic_store_n((uint64_t *)slot, bits, __ATOMIC_RELEASE);
}

static void slot_write(const struct slot *s)
{
	const struct arena_block *b = &s->list->block;
	uint32_t generation = b->ref ? b->generation & SLOT_GENERATION_MASK : 0;

	slot_store(s->at, (struct process_slot){s->pid, b->ref | generation << SLOT_GENERATION_SHIFT |
								(s->stack ? PROCESS_STACK : 0)});
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

static bool slot_has_pid(const struct map_node *node, const void *key)
{
	return container_of(node, struct slot, node)->pid == *(const uint32_t *)key;
}

static struct slot *slot_of(const struct publisher *p, uint32_t pid)
{
	struct map_node *n = map_find(&p->slots, hash_u64(pid), slot_has_pid, &pid);

	return n ? container_of(n, struct slot, node) : NULL;
}

/* --- lists */

static uint64_t key_hash(const struct list_key *k)
{
	return hash_u64(hash_u64(k->maps) + k->version * 2 + (k->flags & LIST_SKIP));
}

static bool list_has_key(const struct map_node *node, const void *key)
{
	const struct list *l = container_of(node, struct list, node);
	const struct list_key *k = key;

	return l->key.maps == k->maps && l->key.version == k->version && l->key.flags == k->flags;
}

static struct list *list_of(const struct publisher *p, struct list_key key)
{
	struct map_node *n = map_find(&p->lists, key_hash(&key), list_has_key, &key);

	return n ? container_of(n, struct list, node) : NULL;
}

static void block_retire(struct publisher *p, struct arena_block block)
{
	arena_retire(p->arena, block);
	p->stats.list_bytes -= block.len;
}

static void files_release(const struct publisher *p, const uint32_t *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		binary_registry_release(unwind_tables_binaries(p->tables), files[i]);
}

static void list_free(struct publisher *p, struct list *l)
{
	map_remove(&p->lists, &l->node);
	block_retire(p, l->block);
	files_release(p, l->files, l->n_files);
	free(l->files);
	free(l);
}

/* Adds an empty list, which no slot names yet. */
static int list_new(struct publisher *p, struct list_key key, struct list **ret)
{
	struct list *l = calloc(1, sizeof *l);
	int r;

	if (!l)
		return -ENOMEM;
	l->key = key;
	r = map_insert(&p->lists, &l->node, key_hash(&key));
	if (r < 0) {
		free(l);
		return r;
	}
	*ret = l;
	return 0;
}

static int by_index(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The files of all mappings, also of those that have no entry in the list yet. *ret is the caller's. */
static int files_of(const struct proc_maps *m, uint32_t **ret, size_t *ret_n)
{
	uint32_t *files = malloc((m->n + 1ul) * sizeof *files);
	struct proc_maps_cursor c = {.maps = m};
	const struct proc_mapping *e;
	size_t n = 0, k = 0;

	if (!files)
		return -ENOMEM;
	while ((e = proc_maps_next(&c))) {
		uint32_t file = e->file;

		if (file != PROC_FILE_NONE && !(file & PROC_FILE_OPENING) && (!n || files[n - 1] != file))
			files[n++] = file;
	}
	if (m->code)
		files[n++] = m->code;
	qsort(files, n, sizeof *files, by_index);
	for (size_t i = 0; i < n; i++)
		if (!k || files[k - 1] != files[i])
			files[k++] = files[i];
	*ret = files;
	*ret_n = k;
	return 0;
}

/* Takes references to the files of the mappings, and releases those that the list had. */
static int files_set(const struct publisher *p, struct list *l, const struct proc_maps *m)
{
	uint32_t *files;
	size_t n, k = 0;
	int r = files_of(m, &files, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (binary_registry_hold(unwind_tables_binaries(p->tables), files[i]))
			files[k++] = files[i];
	files_release(p, l->files, l->n_files);
	free(l->files);
	l->files = files;
	l->n_files = k;
	return 0;
}

static bool list_names(const struct list *l, uint32_t file)
{
	return l->n_files && bsearch(&file, l->files, l->n_files, sizeof file, by_index);
}

/* Whether tables of its files came, or turned out to be none, since it was written. */
static bool tables_changed(const struct publisher *p, const struct list *l)
{
	for (size_t i = 0; i < l->n_files; i++) {
		const struct binary_table *f = unwind_tables_get(p->tables, l->files[i]);

		if (f && (int32_t)(f->change - l->change) > 0) /* it may wrap around */
			return true;
	}
	return false;
}

/*
 * Whether a list of `len` bytes, beyond the share of lists, leaves room for tables: without them no process's
 * stacks are whole, while a process without a list has its stacks walked by the agent.
 */
static bool leaves_room(const struct publisher *p, size_t len)
{
	struct arena_stats stats;
	size_t all, left;

	arena_stats(p->arena, &stats);
	left = stats.max_bytes > stats.segment_bytes ? stats.max_bytes - stats.segment_bytes : 0;
	left = left / SEGMENT_VALUE * SEGMENT_BYTES; /* the arena grows by whole segments */
	all = stats.total_bytes + left;
	return p->stats.list_bytes + len <= all / LISTS_SHARE ||
	       stats.free_bytes - stats.held_bytes + left >= len + all / ROOM_LEFT;
}

/*
 * Makes a block for a list. When the arena is full, it evicts tables and reserves their room for this
 * slot: it returns -ENOSPC now, and succeeds after the next grace period. Lists evict tables until they
 * take half of the arena.
 */
static int block_alloc(struct publisher *p, struct slot *s, size_t len, struct arena_block *ret)
{
	const struct arena_owner owner = {ARENA_LIST, ++p->last_list};
	struct arena_stats stats;
	int r = -ENOSPC;

	if (s->hold.id)
		r = arena_claim(p->arena, &s->hold, len, owner, ret);
	if (r == 0)
		return 0;
	if (r != -EAGAIN)
		arena_unhold(p->arena, &s->hold); /* it was for a shorter list */
	r = leaves_room(p, len) ? arena_alloc(p->arena, len, owner, ret) : -ENOSPC;
	if (r == 0) {
		arena_unhold(p->arena, &s->hold);
		return 0;
	}
	p->stats.no_memory++;
	if (s->hold.id)
		return -ENOSPC;
	arena_stats(p->arena, &stats); /* it is full: there will be no more segments */
	if (p->stats.list_bytes + len > stats.total_bytes / LISTS_SHARE ||
	    unwind_tables_make_room(p->tables, len, &s->hold) < 0)
		p->stats.no_room++;
	return -ENOSPC;
}

/* How the frames of the process's language runtime are found. False: it has none, or they are not wanted. */
static bool walk_of(const struct publisher *p, const struct list *l, const struct process *process,
		    struct runtime_walk *ret)
{
	if (!p->runtimes || process->image->program->runtime_refused ||
	    !runtime_walk_find(ret, process->maps, p->tables, p->runtimes, process->image->program->secret))
		return false;
	ret->slot = l->thread_slot;
	if (l->thread_slot || l->n_searched >= SEARCHES_MAX)
		ret->flags &= (uint16_t)~RUNTIME_WALK_SEARCH;
	return true;
}

/* The process's heaps of code; NULL: it has none that are known. */
static const struct code_heaps *heaps_of(const struct publisher *p, const struct process *process)
{
	const struct binary_table *t = unwind_tables_get(p->tables, process->maps->code);

	return t && !t->refused ? t->heaps : NULL;
}

/* Writes the process's mappings to a new block. On failure nothing has changed. */
static int block_write(struct publisher *p, struct slot *s, const struct process *process,
		       const struct list *list, struct arena_block *ret)
{
	_cleanup_(list_entries_fini) struct list_entries l = {0};
	struct arena_block block = {0};
	struct runtime_walk walk;
	const struct code_heaps *heaps = heaps_of(p, process);
	size_t n = list_capacity(SEGMENT_BYTES - sizeof walk - sizeof *heaps);
	bool has_walk = walk_of(p, list, process, &walk);
	int r = list_entries_make(&l, process->maps, p->tables);

	if (r < 0)
		return r;
	if (l.n > n)
		p->stats.cut++;
	else
		n = l.n;
	if (n) {
		r = block_alloc(p, s,
				(has_walk ? list_bytes_with_walk(n) : list_bytes(n)) +
					(heaps ? sizeof *heaps : 0),
				&block);
		if (r < 0)
			return r;
		list_write(arena_at(p->arena, block.ref), l.entries, n, block.generation, list->key.flags);
		if (has_walk)
			list_write_walk(arena_at(p->arena, block.ref), &walk);
		if (heaps)
			list_write_heaps(arena_at(p->arena, block.ref), heaps);
		p->generation = block.generation;
	}
	p->stats.lists++;
	p->stats.list_bytes += block.len;
	*ret = block;
	return 0;
}

/* Writes the list (again): its slots name the new block, and the one before is retired. */
static int list_update(struct publisher *p, struct slot *s, struct list *l, const struct process *process)
{
	struct arena_block before = l->block, block;
	int r = block_write(p, s, process, l, &block);

	if (r < 0)
		return r;
	r = files_set(p, l, process->maps);
	if (r < 0) {
		block_retire(p, block);
		return r;
	}
	l->block = block;
	l->written = true;
	l->change = unwind_tables_change(p->tables);
	for (const struct slot *each = l->slots; each; each = each->next)
		slot_write(each);
	unwind_tables_published(p->tables, process->maps->code);
	block_retire(p, before);
	return 0;
}

/* The up-to-date list of the mappings, written for `s` if there is none. It may have no slot yet. */
static int list_get(struct publisher *p, struct slot *s, const struct process *process, struct list **ret)
{
	struct list_key key = {process->maps->id, process->maps->version,
			       process->image->selected ? 0 : LIST_SKIP};
	struct list *l = list_of(p, key);
	int r = 0;

	if (!l)
		r = list_new(p, key, &l);
	if (r == 0 && (!l->written || tables_changed(p, l)))
		r = list_update(p, s, l, process);
	if (r < 0) {
		if (l && !l->slots)
			list_free(p, l);
		return r;
	}
	*ret = l;
	return 0;
}

/* --- slots and their lists */

/* Makes the slot name the list (NULL: none). Frees the list that it named before if no other slot does. */
static void slot_name(struct publisher *p, struct slot *s, struct list *l)
{
	struct list *before = s->list;

	if (before) {
		*s->link = s->next;
		if (s->next)
			s->next->link = s->link;
	}
	s->list = l;
	if (l) {
		s->next = l->slots;
		s->link = &l->slots;
		if (s->next)
			s->next->link = &s->next;
		l->slots = s;
		slot_write(s);
	} else if (before) {
		slot_clear(p, s->at);
	}
	p->stats.processes += (l != NULL) - (before != NULL);
	if (before && !before->slots)
		list_free(p, before);
}

static int slot_new(struct publisher *p, uint32_t pid, struct slot **ret)
{
	struct slot *s = calloc(1, sizeof *s);
	int r;

	if (!s)
		return -ENOMEM;
	s->pid = pid;
	r = map_insert(&p->slots, &s->node, hash_u64(pid));
	if (r < 0) {
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void slot_free(struct publisher *p, struct slot *s)
{
	map_remove(&p->slots, &s->node);
	arena_unhold(p->arena, &s->hold);
	free(s);
}

/* Updates the slot to the process's state. The slot may have no place in the process table yet. */
static int slot_set(struct publisher *p, struct slot *s, const struct process *process)
{
	struct list *l;
	int r;

	if (!s->list)
		s->at = slot_find(p, s->pid);
	if (!s->at) {
		p->stats.table_full++;
		return -ENOSPC;
	}
	r = list_get(p, s, process, &l);
	if (r < 0 || (s->list == l && s->stack == process->save_stack))
		return r;
	s->stack = process->save_stack;
	if (s->list == l)
		slot_write(s);
	else
		slot_name(p, s, l);
	return 0;
}

int publisher_put(struct publisher *p, const struct process *process)
{
	struct slot *s = slot_of(p, process->pid);
	int r = s ? 0 : slot_new(p, process->pid, &s);

	if (r < 0)
		return r;
	r = slot_set(p, s, process);
	if (r < 0 && !s->list && !s->hold.id)
		slot_free(p, s);
	return r;
}

void publisher_remove(struct publisher *p, const struct process *process)
{
	struct slot *s = slot_of(p, process->pid);

	if (!s)
		return;
	slot_name(p, s, NULL);
	slot_free(p, s);
}

/* --- tables that are evicted or forgotten */

/* Takes the file's table out of every list. A program that has read the entry before may still use it. */
static void withdraw(uint32_t file, void *data)
{
	struct publisher *p = data;
	struct map_node *node;

	map_for_each (&p->lists, node, it) {
		const struct list *l = container_of(node, struct list, node);
		struct mapping_list *list;
		struct mapping_entry *entries;

		if (!l->block.ref || !list_names(l, file))
			continue;
		list = arena_at(p->arena, l->block.ref);
		entries = (struct mapping_entry *)((uint8_t *)list + list->entries);
		for (uint32_t i = 0; i < list->n; i++) {
			if (entries[i].file != file || entries[i].table <= TABLE_PENDING)
				continue;
			__atomic_store_n(&entries[i].table, TABLE_PENDING, __ATOMIC_RELEASE);
			p->stats.withdrawn++;
		}
	}
}

/* --- language runtimes */

void publisher_want_runtimes(struct publisher *p, unsigned kinds)
{
	p->runtimes = kinds;
}

/* The process's list, if it says how the frames of a runtime are found; else NULL. */
static struct mapping_list *list_with_walk(const struct publisher *p, uint32_t pid, struct list **ret)
{
	const struct slot *s = slot_of(p, pid);
	struct mapping_list *list;

	if (!s || !s->list || !s->list->block.ref)
		return NULL;
	*ret = s->list;
	list = arena_at(p->arena, s->list->block.ref);
	return list->runtime ? list : NULL;
}

void publisher_stop_walk(struct publisher *p, uint32_t pid)
{
	struct list *l;
	struct mapping_list *list = list_with_walk(p, pid, &l);

	if (list)
		__atomic_store_n(&list->runtime, 0, __ATOMIC_RELAXED);
}

static uint32_t walk_file(const struct mapping_list *list)
{
	return ((const struct runtime_walk *)((const uint8_t *)list + list->runtime))->layout;
}

uint32_t publisher_walk(const struct publisher *p, uint32_t pid)
{
	struct list *l;
	const struct mapping_list *list = list_with_walk(p, pid, &l);

	return list ? walk_file(list) : 0;
}

size_t publisher_count_walks(const struct publisher *p, uint32_t file)
{
	struct map_node *node;
	size_t n = 0;

	map_for_each (&p->slots, node, it) {
		const struct slot *s = container_of(node, struct slot, node);
		struct list *l;
		const struct mapping_list *list = list_with_walk(p, s->pid, &l);

		n += list && walk_file(list) == file;
	}
	return n;
}

void publisher_set_thread_slot(struct publisher *p, uint32_t pid, uint32_t generation, int32_t thread_slot)
{
	struct list *l;
	struct mapping_list *list = list_with_walk(p, pid, &l);
	struct runtime_walk *walk;

	if (!list || l->block.generation != generation)
		return;
	walk = (struct runtime_walk *)((uint8_t *)list + list->runtime);
	if (!thread_slot && ++l->n_searched < SEARCHES_MAX)
		return;
	l->thread_slot = thread_slot;
	__atomic_store_n(&walk->slot, thread_slot, __ATOMIC_RELAXED);
	__atomic_store_n(&walk->flags, (uint16_t)(walk->flags & ~RUNTIME_WALK_SEARCH), __ATOMIC_RELAXED);
}

/* --- queries */

bool publisher_outdated(const struct publisher *p, const struct proc_maps *m)
{
	const struct list *sampled = list_of(p, (struct list_key){m->id, m->version, 0}),
			  *skipped = list_of(p, (struct list_key){m->id, m->version, LIST_SKIP});
	const struct list *l = sampled ?: skipped;

	return !l || tables_changed(p, l);
}

uint32_t publisher_list(const struct publisher *p, const struct proc_maps *m)
{
	const struct list *l = list_of(p, (struct list_key){m->id, m->version, 0});

	return l && !tables_changed(p, l) ? l->block.ref : 0;
}

uint32_t publisher_list_generation(const struct publisher *p, const struct proc_maps *m)
{
	const struct list *l = list_of(p, (struct list_key){m->id, m->version, 0});

	return l ? l->block.generation : 0;
}

uint32_t publisher_generation(const struct publisher *p)
{
	return p->generation;
}

void publisher_stats(const struct publisher *p, struct publish_stats *ret)
{
	*ret = p->stats;
}

int publisher_new(struct publisher **ret, struct arena *arena, struct unwind_tables *tables)
{
	struct publisher *p = calloc(1, sizeof *p);

	if (!p)
		return -ENOMEM;
	p->arena = arena;
	p->tables = tables;
	map_init(&p->slots, SIZE_MAX); /* no more than processes */
	map_init(&p->lists, SIZE_MAX); /* each has a slot */
	unwind_tables_set_withdraw(tables, withdraw, p);
	*ret = p;
	return 0;
}

void publisher_free(struct publisher *p)
{
	struct map_node *node;

	if (!p)
		return;
	unwind_tables_set_withdraw(p->tables, NULL, NULL);
	map_for_each (&p->slots, node, it)
		free(container_of(node, struct slot, node));
	map_for_each (&p->lists, node, it) {
		struct list *l = container_of(node, struct list, node);

		files_release(p, l->files, l->n_files);
		free(l->files);
		free(l);
	}
	map_fini(&p->slots);
	map_fini(&p->lists);
	free(p);
}
