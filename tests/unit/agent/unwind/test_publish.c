// SPDX-License-Identifier: Apache-2.0
/* What the publisher writes, read as the BPF program reads it. */
#include <errno.h>

#include "agent/elf/runtime/facts.h"
#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "agent/unwind/list.h"
#include "agent/unwind/publish.h"
#include "bpf/unwind.h"
#include "tests/unit/agent/unwind/world.h"

#define SLOTS (PROCESS_BUCKETS * PROCESS_BUCKET_SLOTS)
#define UNKNOWN UINT32_MAX

struct stage {
	struct world world;
	struct publisher *publisher;
	struct proc_table *processes;
	struct unwind_area area;
	struct env env;
};

static struct segment *stage_segment(void *data, __u32 index)
{
	const struct stage *s = data;

	return index < WORLD_SEGMENTS ? s->world.segments[index] : NULL;
}

static struct stage *stage_new(void)
{
	struct stage *s = calloc(1, sizeof *s);

	cr_assert_not_null(s);
	world_init(&s->world, 2, 64);
	cr_assert_eq(publisher_new(&s->publisher, s->world.arena, s->world.tables), 0);
	cr_assert_eq(proc_table_new(&s->processes, 65536, NULL), 0);
	s->env = (struct env){.area = &s->area, .segment = stage_segment, .data = s};
	env_current = &s->env;
	return s;
}

static void stage_free(struct stage *s)
{
	proc_table_free(s->processes);
	publisher_free(s->publisher);
	world_fini(&s->world);
	free(s);
}

DEFINE_CLEANUP(struct stage *, stage_free)
#define _cleanup_stage_ _cleanup_(stage_free_p)

/* process_list() of bpf/profiler.bpf.c; UNKNOWN where it finds nothing. */
static uint32_t slot_word(const struct stage *s, uint32_t pid)
{
	const struct process_slot *slots = arena_process_table(s->world.arena);
	uint32_t bucket = pid * 2654435761u >> 20;

	for (uint32_t i = 0; i < PROCESS_PROBES * PROCESS_BUCKET_SLOTS; i++) {
		const struct process_slot *slot = &slots[(bucket * PROCESS_BUCKET_SLOTS + i) % SLOTS];

		if (slot->pid == pid)
			return slot->list;
		if (!slot->pid)
			break;
	}
	return UNKNOWN;
}

/* The list's ref; the slot must have its generation. */
static uint32_t process_list(const struct stage *s, uint32_t pid)
{
	uint32_t word = slot_word(s, pid);

	if (word == UNKNOWN)
		return UNKNOWN;
	if (word & SLOT_LIST_MASK)
		cr_assert_not_null(slot_segment(word), "pid %u: %#x", pid, word);
	return word & SLOT_LIST_MASK;
}

static struct process *process(struct stage *s, uint32_t pid)
{
	struct process *p;

	cr_assert_eq(proc_table_add(s->processes, pid, 0, &p), 0);
	p->image->selected = true;
	return p;
}

static void map(struct process *p, uint64_t start, uint64_t len, uint64_t offset, uint32_t file)
{
	cr_assert_eq(proc_maps_insert(p->maps, (struct proc_mapping){start, start + len, offset, file}), 0);
}

static struct publish_stats stats_of(const struct stage *s)
{
	struct publish_stats stats;

	publisher_stats(s->publisher, &stats);
	return stats;
}

static const struct mapping_list *list_at(const struct stage *s, uint32_t ref)
{
	return arena_at(s->world.arena, ref);
}

/* The walk's state after it looked `ip` up in the process's list. */
static int find(struct stage *s, uint32_t pid, uint64_t ip)
{
	s->area.state = (struct unwind_state){.ip = ip, .list = process_list(s, pid)};
	return unwind_mapping();
}

Test(publish, process)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100), *thread = process(s, 2);

	cr_expect_eq(process_list(s, 100), UNKNOWN);
	map(p, 0x10000, 0x4000, 0, PROC_FILE_NONE);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_eq(find(s, 100, 0x10123), NEXT_FRAMES);
	cr_expect_eq(s->area.state.tag, (uint64_t)FILE_ANONYMOUS << FRAME_VA_BITS);
	cr_expect_eq(s->area.state.bias, 0);
	cr_expect_eq(find(s, 100, 0x14000), ENDING_NO_MAPPING);
	cr_expect_eq(list_at(s, process_list(s, 100))->flags, 0);

	/* a kernel thread is known, and has no list */
	cr_assert_eq(publisher_put(s->publisher, thread), 0);
	cr_expect_eq(process_list(s, 2), 0);
	cr_expect_eq(stats_of(s).processes, 2);
	publisher_remove(s->publisher, p);
	publisher_remove(s->publisher, p);
	cr_expect_eq(process_list(s, 100), UNKNOWN);
	cr_expect_eq(process_list(s, 2), 0);
	cr_expect_eq(stats_of(s).processes, 1);
}

/* Whether samples bring their stack stands in the slot: lists are shared, and need not be written again. */
Test(publish, stack_wanted)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100);
	uint32_t list;

	map(p, 0x10000, 0x4000, 0, PROC_FILE_NONE);
	p->save_stack = true;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	list = slot_word(s, 100);
	cr_expect_eq(list & PROCESS_STACK, PROCESS_STACK);
	p->save_stack = false;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_eq(slot_word(s, 100), list & ~PROCESS_STACK);
	cr_expect_eq(stats_of(s).lists, 1);
	cr_expect_eq(stats_of(s).processes, 1);
}

Test(publish, again)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100);
	uint32_t first, generation;
	size_t used;

	map(p, 0x10000, 0x4000, 0, PROC_FILE_NONE);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	used = world_used(&s->world);
	first = process_list(s, 100);
	generation = list_at(s, first)->generation;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_eq(process_list(s, 100), first, "nothing changed");
	map(p, 0x20000, 0x4000, 0, PROC_FILE_NONE);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_neq(process_list(s, 100), first);
	cr_expect_neq(list_at(s, process_list(s, 100))->generation, generation);
	cr_expect_eq(find(s, 100, 0x20123), NEXT_FRAMES);
	world_publish(&s->world);
	cr_expect_leq(world_used(&s->world), used + 128, "the list before was retired");
	cr_expect_eq(stats_of(s).lists, 2);
	cr_expect_eq(stats_of(s).list_bytes, world_used(&s->world));
}

/* A fork costs a slot, not a list. */
Test(publish, fork)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *parent = process(s, 100), *child = process(s, 101);
	uint32_t ref;

	map(parent, 0x10000, 0x4000, 0, PROC_FILE_NONE);
	cr_assert_eq(publisher_put(s->publisher, parent), 0);
	proc_maps_unref(child->maps);
	child->maps = proc_maps_ref(parent->maps);
	cr_assert_eq(publisher_put(s->publisher, child), 0);
	ref = process_list(s, 101);
	cr_expect_eq(process_list(s, 100), ref);
	cr_expect_eq(stats_of(s).lists, 1);

	/* the child changes: its parent keeps the list */
	cr_assert_eq(proc_maps_own(child), 0);
	map(child, 0x30000, 0x1000, 0, PROC_FILE_NONE);
	cr_assert_eq(publisher_put(s->publisher, child), 0);
	cr_expect_eq(process_list(s, 100), ref);
	cr_expect_eq(find(s, 100, 0x30123), ENDING_NO_MAPPING);
	cr_expect_eq(find(s, 101, 0x30123), NEXT_FRAMES);
}

Test(publish, not_selected)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100);

	p->image->selected = false;
	map(p, 0x10000, 0x4000, 0, PROC_FILE_NONE);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_eq(list_at(s, process_list(s, 100))->flags, LIST_SKIP);
}

/* A file's mapping is cut where its table blocks begin and end; every address finds the block that has its
 * rule. */
Test(publish, file_with_table)
{
	const uint64_t base = 0x7f0000000000ull;
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100);
	const struct elf_segment *text = NULL;
	const struct binary_table *f;
	uint64_t len;
	uint32_t index = world_add_libc(&s->world, "libc", 0);

	world_settle(&s->world);
	f = world_table(&s->world, index);
	for (size_t i = 0; i < f->binary->n_segments; i++)
		text = f->binary->segments[i].executable ? &f->binary->segments[i] : text;
	cr_assert_not_null(text);
	cr_assert_eq(text->offset % 4096, 0);
	len = (text->file_bytes + 4095) & ~4095ull;
	map(p, 0x1000, 0x1000, 0, PROC_FILE_NONE);
	map(p, base, len, text->offset, index);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	for (uint64_t ip = base; ip < base + len; ip += 61) {
		const struct unwind_placed *want = NULL;
		uint64_t va = text->va + (ip - base);

		for (size_t k = 0; k < f->n_placed; k++)
			if (va >= f->placed[k].va && va < f->placed[k].end)
				want = &f->placed[k];
		cr_assert_eq(find(s, 100, ip), NEXT_FRAMES, "%#llx", (unsigned long long)ip);
		cr_assert_eq(ip - s->area.state.bias, va);
		cr_assert_eq(s->area.state.tag, (uint64_t)index << FRAME_VA_BITS);
		cr_assert_eq(s->area.state.n_pages != 0, want != NULL);
		if (want)
			cr_assert_eq(s->area.state.rules,
				     ref_offset(want->block.ref) + sizeof(struct unwind_table));
	}
	cr_expect_eq(find(s, 100, base + len), ENDING_NO_MAPPING);
}

/* A list is out of date when a table of its files came, and not when another's did. */
Test(publish, outdated)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100), *other = process(s, 101);
	uint32_t index = world_add_libc(&s->world, "libc", 0);

	map(p, 0x1000, 0x1000, 0, index);
	map(other, 0x1000, 0x1000, 0, PROC_FILE_NONE);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_assert_eq(publisher_put(s->publisher, other), 0);
	cr_expect_not(publisher_outdated(s->publisher, p->maps));
	world_settle(&s->world);
	cr_expect(publisher_outdated(s->publisher, p->maps));
	cr_expect_not(publisher_outdated(s->publisher, other->maps));
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_not(publisher_outdated(s->publisher, p->maps));
}

/* Makes the file's table the one that goes: another needs its room. */
static void evict(struct stage *s, const struct binary_table *f)
{
	world_add_libc(&s->world, "another", 2);
	unwind_tables_pump(s->world.tables);
	worker_drain(s->world.worker, WORLD_WAIT_NS);
	cr_assert_eq(f->state, TABLE_EVICTED);
}

/* Takes all room that is left. */
static void fill(struct stage *s)
{
	struct arena_block block;

	for (size_t len = SEGMENT_BYTES; len >= REF_ALIGN; len /= 2)
		while (arena_alloc(s->world.arena, len, NOBODY, &block) == 0)
			;
}

/*
 * A table goes: from then on no published list names it any more, whether or not there is room or time to
 * write another list. Its blocks will be somebody else's after the next grace period.
 */
Test(publish, evicted_table)
{
	const uint64_t base = 0x7f0000000000ull;
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100), *fork = process(s, 101);
	uint32_t index = world_add_libc(&s->world, "libc", 1), list;
	const struct binary_table *f = world_table(&s->world, index);
	uint64_t ip;

	world_settle(&s->world);
	cr_assert_gt(f->n_placed, 0);
	map(p, base, f->binary->module.limit - f->binary->module.start, f->binary->module.file_offset, index);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	proc_maps_unref(fork->maps);
	fork->maps = proc_maps_ref(p->maps);
	cr_assert_eq(publisher_put(s->publisher, fork), 0);
	list = process_list(s, 100);
	ip = base + f->placed[0].va - f->binary->module.start;
	cr_assert_eq(find(s, 100, ip), NEXT_FRAMES);
	cr_expect_gt(s->area.state.n_pages, 0);
	fill(s);
	evict(s, f);
	for (uint32_t pid = 100; pid <= 101; pid++) {
		cr_expect_eq(process_list(s, pid), list, "the process stays");
		cr_expect_eq(find(s, pid, ip), NEXT_FRAMES);
		cr_expect_eq(s->area.state.n_pages, 0, "without its table");
		cr_expect(s->area.state.pending);
	}
	cr_expect_gt(stats_of(s).withdrawn, 0);
	cr_expect_not(publisher_outdated(s->publisher, p->maps), "the list says what there is");
	cr_expect_eq(publisher_put(s->publisher, p), 0);
	cr_expect_eq(stats_of(s).lists, 1);
}

/* ---- who owns the list that a slot names */

/* Whether the arena accounts for the block as one in use. */
struct looking {
	uint32_t ref;
	enum arena_state state;
};

static void look(const struct arena_extent *e, void *data)
{
	struct looking *l = data;

	if ((e->segment << REF_OFFSET_BITS | e->offset / REF_ALIGN) == l->ref)
		l->state = e->state;
}

static bool in_use(const struct stage *s, uint32_t ref)
{
	struct looking l = {ref, ARENA_FREE};

	arena_each(s->world.arena, look, &l);
	return l.state == ARENA_USED;
}

/* A new list finds no room: the slot keeps the old one, whatever becomes of the mappings it was made of. */
Test(publish, no_room_for_a_new_list)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100);
	struct proc_maps *read;
	uint32_t list;

	map(p, 0x10000, 0x1000, 0, PROC_FILE_NONE);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	list = process_list(s, 100);
	fill(s);
	/* remembered, changed, forgotten */
	cr_assert_eq(proc_history_add(p, 1000, publisher_generation(s->publisher)), 0);
	cr_assert_eq(proc_maps_own(p), 0);
	map(p, 0x20000, 0x1000, 0, PROC_FILE_NONE);
	cr_expect_eq(publisher_put(s->publisher, p), -ENOSPC);
	proc_history_forget(p, 2000);
	cr_expect_eq(process_list(s, 100), list);
	cr_expect(in_use(s, list));
	world_publish(&s->world);
	cr_expect(in_use(s, list));
	cr_expect_eq(find(s, 100, 0x10123), NEXT_FRAMES);
	/* read again from /proc: other mappings take their place, and nobody holds the old ones */
	cr_assert_eq(proc_maps_new(&read, NULL), 0);
	proc_maps_unref(p->maps);
	p->maps = read;
	map(p, 0x30000, 0x1000, 0, PROC_FILE_NONE);
	cr_expect_eq(publisher_put(s->publisher, p), -ENOSPC);
	world_publish(&s->world);
	cr_expect(in_use(s, list));
	cr_expect_eq(process_list(s, 100), list);
	cr_expect_eq(publisher_list(s->publisher, p->maps), 0, "no list says what it maps now");
	cr_expect_eq(stats_of(s).no_memory, 2);
	publisher_remove(s->publisher, p);
	cr_expect_not(in_use(s, list), "freed with the last slot that names it");
}

/*
 * The arena is full of tables, and a process with 5,000 mappings comes: tables go that samples have not used
 * for long, their room is kept for its list, and the list is there after the next grace period.
 */
Test(publish, long_list_in_a_full_arena)
{
	enum { N = 5000, LIBRARIES = 40 };
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100);
	struct arena_block block;
	unsigned ready = 0;
	uint32_t last = 0;
	uint64_t text;

	for (uint8_t i = 1; i <= LIBRARIES; i++) {
		char name[8];

		snprintf(name, sizeof name, "lib%u", i);
		unwind_tables_touch(s->world.tables, world_add_libc(&s->world, name, i), i);
		world_settle(&s->world);
		last = i;
	}
	while (arena_alloc(s->world.arena, 4096, NOBODY, &block) == 0)
		;
	text = world_binary(&s->world, last)->module.file_offset & ~4095ull;
	for (uint64_t i = 0; i < N; i++)
		map(p, 0x10000 + i * 0x4000, 0x1000, text, i % 2 ? last : PROC_FILE_NONE);
	cr_expect_eq(publisher_put(s->publisher, p), -ENOSPC);
	cr_expect_eq(stats_of(s).no_room, 0, "tables went for it");
	cr_expect_eq(publisher_put(s->publisher, p), -ENOSPC, "they may still be read");
	cr_expect(arena_grace_begin(s->world.arena));
	arena_grace_end(s->world.arena);
	while (arena_alloc(s->world.arena, 4096, NOBODY, &block) == 0)
		; /* what is left over beside it */
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	for (uint64_t i = 0; i < N; i++)
		cr_assert_eq(find(s, 100, 0x10123 + i * 0x4000), NEXT_FRAMES);
	for (uint32_t i = 1; i <= LIBRARIES; i++)
		ready += world_table(&s->world, i)->state == TABLE_READY;
	cr_expect_geq(ready, LIBRARIES - 6, "no more went than was needed: %u are left", ready);
	cr_expect_eq(world_table(&s->world, last)->state, TABLE_READY);
}

/* Lists drive out tables up to half of the arena: one tenant's mappings must not take everybody's tables. */
Test(publish, lists_leave_room_for_tables)
{
	_cleanup_stage_ struct stage *s = stage_new();
	uint32_t index = world_add_libc(&s->world, "libc", 1);
	uint64_t published = 0;
	struct arena_stats stats;

	world_settle(&s->world);
	for (uint32_t pid = 1; pid <= 40 && !stats_of(s).no_room; pid++) {
		struct process *p = process(s, pid);

		for (uint64_t i = 0; i < 4000; i++)
			map(p, 0x10000 + i * 0x4000, 0x1000, i * 0x4000, i % 2 ? 999 : PROC_FILE_NONE);
		published += publisher_put(s->publisher, p) == 0;
	}
	arena_stats(s->world.arena, &stats);
	cr_expect_gt(published, 4);
	cr_expect_gt(stats_of(s).list_bytes, stats.total_bytes / 2, "free room is for whoever comes");
	cr_expect_geq(stats.free_bytes, stats.total_bytes / 4, "but a part of it is left for tables");
	cr_expect_eq(world_table(&s->world, index)->state, TABLE_READY);
	cr_expect_eq(world_stats(&s->world).evicted, 0);
}

/* Forks share mappings and list. A table comes: the list is written once, and all slots move to it. */
Test(publish, forks_move_together)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *parent = process(s, 100), *child = process(s, 101);
	uint32_t index = world_add_libc(&s->world, "libc", 0), before;

	map(parent, 0x10000, 0x4000, world_binary(&s->world, index)->module.file_offset, index);
	proc_maps_unref(child->maps);
	child->maps = proc_maps_ref(parent->maps);
	cr_assert_eq(publisher_put(s->publisher, parent), 0);
	cr_assert_eq(publisher_put(s->publisher, child), 0);
	before = process_list(s, 101);
	world_settle(&s->world);
	cr_assert_eq(publisher_put(s->publisher, parent), 0);
	cr_expect_neq(process_list(s, 101), before);
	cr_expect_eq(process_list(s, 101), process_list(s, 100));
	cr_expect_not(in_use(s, before));
	cr_expect_eq(stats_of(s).lists, 2);
	cr_assert_eq(publisher_put(s->publisher, child), 0);
	cr_expect_eq(stats_of(s).lists, 2);
	publisher_remove(s->publisher, parent);
	cr_expect(in_use(s, process_list(s, 101)));
}

/*
 * The child maps something of its own, and is not published yet; its parent, alone with the list they shared,
 * changes it in place. The child's slot must not follow: these are not its mappings.
 */
Test(publish, forks_part)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *parent = process(s, 100), *child = process(s, 101);
	const struct proc_maps *shared;
	uint32_t before;

	map(parent, 0x10000, 0x4000, 0, PROC_FILE_NONE);
	proc_maps_unref(child->maps);
	child->maps = proc_maps_ref(parent->maps);
	cr_assert_eq(publisher_put(s->publisher, parent), 0);
	cr_assert_eq(publisher_put(s->publisher, child), 0);
	before = process_list(s, 101);
	cr_assert_eq(proc_maps_own(child), 0);
	map(child, 0x30000, 0x1000, 0, PROC_FILE_NONE);
	shared = parent->maps;
	cr_assert_eq(proc_maps_own(parent), 0);
	cr_assert_eq(parent->maps, shared, "it is the parent's alone");
	map(parent, 0x50000, 0x1000, 0, PROC_FILE_NONE);
	cr_assert_eq(publisher_put(s->publisher, parent), 0);
	cr_expect_eq(process_list(s, 101), before);
	cr_expect_eq(find(s, 100, 0x50123), NEXT_FRAMES);
	cr_expect_eq(find(s, 101, 0x50123), ENDING_NO_MAPPING);
	cr_expect(in_use(s, before));
}

/* The parent is sampled, its fork is not: two lists of the same mappings. */
Test(publish, fork_not_selected)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *parent = process(s, 100), *child = process(s, 101);

	map(parent, 0x10000, 0x4000, 0, PROC_FILE_NONE);
	proc_maps_unref(child->maps);
	child->maps = proc_maps_ref(parent->maps);
	child->image->selected = false;
	cr_assert_eq(publisher_put(s->publisher, parent), 0);
	cr_assert_eq(publisher_put(s->publisher, child), 0);
	cr_expect_eq(list_at(s, process_list(s, 100))->flags, 0);
	cr_expect_eq(list_at(s, process_list(s, 101))->flags, LIST_SKIP);
	child->image->selected = true;
	cr_assert_eq(publisher_put(s->publisher, child), 0);
	cr_expect_eq(process_list(s, 101), process_list(s, 100));
}

/* What the publisher answers about its lists. */
Test(publish, queries)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100);
	uint32_t index = world_add_libc(&s->world, "libc", 0), generation;

	map(p, 0x1000, 0x1000, 0, index);
	cr_expect(publisher_outdated(s->publisher, p->maps));
	cr_expect_eq(publisher_list(s->publisher, p->maps), 0);
	cr_expect_eq(publisher_list_generation(s->publisher, p->maps), 0);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	generation = list_at(s, process_list(s, 100))->generation;
	cr_expect_eq(publisher_list(s->publisher, p->maps), process_list(s, 100));
	cr_expect_eq(publisher_list_generation(s->publisher, p->maps), generation);
	cr_expect_eq(publisher_generation(s->publisher), generation);
	/* a table came: the list still has these mappings, but there is a better one */
	world_settle(&s->world);
	cr_expect_eq(publisher_list(s->publisher, p->maps), 0);
	cr_expect_eq(publisher_list_generation(s->publisher, p->maps), generation);
	map(p, 0x5000, 0x1000, 0, PROC_FILE_NONE);
	cr_expect_eq(publisher_list_generation(s->publisher, p->maps), 0);
}

/* A published list holds its binaries, whatever becomes of the mappings, until its block is gone. */
Test(publish, lists_hold_binaries)
{
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *p = process(s, 100);
	uint32_t index = world_add_libc(&s->world, "a", 1), other = world_add_libc(&s->world, "b", 2);

	binary_registry_release(s->world.binaries, index);
	binary_registry_release(s->world.binaries, other);
	cr_expect_eq(world_binaries(&s->world).unused, 2);
	map(p, 0x1000, 0x1000, 0, index);
	map(p, 0x3000, 0x1000, 0, index);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_eq(world_binaries(&s->world).unused, 1);
	map(p, 0x1000, 0x1000, 0, other);
	map(p, 0x3000, 0x1000, 0, other);
	cr_expect_eq(world_binaries(&s->world).unused, 1, "published is what was");
	cr_expect_eq(world_binary(&s->world, index)->refs, 1);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_eq(world_binary(&s->world, index)->refs, 0);
	cr_expect_eq(world_binary(&s->world, other)->refs, 1);
	publisher_remove(s->publisher, p);
	cr_expect_eq(world_binaries(&s->world).unused, 2);
}

/* ---- the process table: open addressing in a bounded probe */

static uint32_t bucket_of(uint32_t pid)
{
	return pid * 2654435761u >> 20;
}

Test(publish, bucket_full)
{
	enum { ROOM = PROCESS_PROBES * PROCESS_BUCKET_SLOTS };
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *first = NULL, *refused = NULL;
	unsigned n = 0;

	/* the last bucket: its probe goes round the table's end */
	for (uint32_t pid = 1; n <= ROOM; pid++) {
		struct process *p;

		if (bucket_of(pid) != PROCESS_BUCKETS - 1)
			continue;
		p = process(s, pid);
		first = first ?: p;
		refused = p;
		cr_assert_eq(publisher_put(s->publisher, p), n < ROOM ? 0 : -ENOSPC, "the %u-th", n);
		n++;
	}
	cr_expect_eq(stats_of(s).table_full, 1);
	cr_expect_eq(stats_of(s).processes, ROOM);
	cr_expect_eq(process_list(s, refused->pid), UNKNOWN);
	publisher_remove(s->publisher, first);
	cr_expect_eq(publisher_put(s->publisher, refused), 0);
	cr_expect_eq(process_list(s, refused->pid), 0);
}

/* Pids come and go at random, most of them into few buckets: each that is in is found, no other. */
Test(publish, random_processes)
{
	enum { N = 300 };
	_cleanup_stage_ struct stage *s = stage_new();
	struct process *all[N];
	bool in[N] = {false};
	unsigned seed = 20260305, n = 0;
	uint64_t refused = 0;

	for (uint32_t pid = 1; n < N; pid++)
		if (bucket_of(pid) % 256 < 2 || bucket_of(pid) > PROCESS_BUCKETS - 3)
			all[n++] = process(s, pid);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned which = (unsigned)rand_r(&seed) % N;

		if (in[which]) {
			publisher_remove(s->publisher, all[which]);
			in[which] = false;
		} else {
			in[which] = publisher_put(s->publisher, all[which]) == 0;
			refused += !in[which];
		}
		if (i % 100)
			continue;
		for (unsigned k = 0; k < N; k++)
			cr_assert_eq(process_list(s, all[k]->pid) != UNKNOWN, in[k], "pid %u, step %u",
				     all[k]->pid, i);
	}
	cr_expect_eq(stats_of(s).table_full, refused);
	for (unsigned k = 0; k < N; k++)
		publisher_remove(s->publisher, all[k]);
	cr_expect_eq(stats_of(s).processes, 0);
	for (unsigned k = 0; k < N; k++)
		cr_expect_eq(process_list(s, all[k]->pid), UNKNOWN);
}

/* ---- language runtimes */

static const struct runtime_walk *walk_at(const struct stage *s, uint32_t pid)
{
	const struct mapping_list *list = list_at(s, process_list(s, pid));

	return list->runtime ? (const void *)((const uint8_t *)list + list->runtime) : NULL;
}

/* The C library stands for a runtime. */
static uint32_t runtime_add(struct stage *s)
{
	struct binary_table *t;
	uint32_t file;

	world_write_libc(&s->world, "runtime", 0);
	cr_assert_eq(world_add(&s->world, "runtime", &file), 0);
	world_settle(&s->world);
	t = unwind_tables_get(s->world.tables, file);
	free(t->runtime);
	t->runtime = calloc(1, sizeof *t->runtime);
	cr_assert_not_null(t->runtime);
	t->runtime->kind = RUNTIME_FILE_CPYTHON;
	t->runtime->cpython.version = CPYTHON_VERSION(11);
	t->runtime->cpython.runtime = 0x5000;
	t->runtime->cpython.known = 1;
	cr_assert(cpython_layout_of_minor(&t->runtime->cpython.layout, 11));
	return file;
}

static const struct elf_segment *text_of(const struct stage *s, uint32_t file)
{
	const struct binary *b = unwind_tables_get(s->world.tables, file)->binary;

	for (size_t i = 0; i < b->n_segments; i++)
		if (b->segments[i].executable)
			return &b->segments[i];
	cr_assert_fail("no text");
	return NULL;
}

static struct process *runtime_process(struct stage *s, uint32_t pid, uint32_t file, uint64_t bias)
{
	const struct elf_segment *text = text_of(s, file);
	struct process *p = process(s, pid);
	uint64_t first = text->offset / 4096 * 4096;

	map(p, bias + text->va - text->offset + first, 0x10000, first, file);
	return p;
}

Test(publish, runtime)
{
	_cleanup_stage_ struct stage *s = stage_new();
	const uint32_t file = runtime_add(s);
	struct process *p = runtime_process(s, 100, file, 0x10000000), *plain = process(s, 101);
	const struct runtime_walk *walk;

	map(plain, 0x10000, 0x4000, 0, PROC_FILE_NONE);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_null(walk_at(s, 100), "nobody wants it");

	publisher_want_runtimes(s->publisher, 1u << RUNTIME_FILE_CPYTHON);
	p->maps->version++;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_assert_eq(publisher_put(s->publisher, plain), 0);
	cr_expect_null(walk_at(s, 101));
	walk = walk_at(s, 100);
	cr_assert_not_null(walk);
	cr_expect_eq(walk->bias, 0x10000000);
	cr_expect_eq(walk->key, 0x10000000 + 0x5000 + 596);
	cr_expect_eq(walk->layout, file);
	cr_expect_eq(walk->salt, p->image->program->secret);
	cr_expect_neq(walk->salt, plain->image->program->secret);
	cr_expect_eq(!(walk->flags & RUNTIME_WALK_SEARCH), TSD_GLIBC != RUNTIME_NO_OFFSET);
	cr_expect_eq(find(s, 100, 0x10000000 + text_of(s, file)->va), NEXT_FRAMES, "the entries are there");

	cr_expect_eq(publisher_count_walks(s->publisher, file), 1);
	cr_expect_eq(publisher_count_walks(s->publisher, file + 1), 0);
	publisher_stop_walk(s->publisher, 100);
	publisher_stop_walk(s->publisher, 99);
	cr_expect_eq(publisher_count_walks(s->publisher, file), 0);
	cr_expect_null(walk_at(s, 100));
	p->image->program->runtime_refused = true;
	p->maps->version++;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_null(walk_at(s, 100), "its layout was refused");
}

/* Names of tasks, where they are wanted and it is known where a thread state has the task. */
Test(publish, runtime_tasks)
{
	_cleanup_stage_ struct stage *s = stage_new();
	const uint32_t file = runtime_add(s);
	struct process *p = runtime_process(s, 100, file, 0x10000000);
	struct cpython_layout *layout = &unwind_tables_get(s->world.tables, file)->runtime->cpython.layout;
	const struct runtime_walk *walk;

	layout->task = 872;
	layout->task_name = 136;
	publisher_want_runtimes(s->publisher, 1u << RUNTIME_FILE_CPYTHON);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_eq(walk_at(s, 100)->flags & RUNTIME_WALK_TASKS, 0, "not wanted");
	publisher_want_runtimes(s->publisher, 1u << RUNTIME_FILE_CPYTHON | RUNTIME_WANT_TASKS);
	p->maps->version++;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	walk = walk_at(s, 100);
	cr_expect(walk->flags & RUNTIME_WALK_TASKS && walk->scope == 872 && walk->scope_name == 136);
	layout->task = 0;
	p->maps->version++;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_eq(walk_at(s, 100)->flags & RUNTIME_WALK_TASKS, 0, "not known");
}

/* PHP: the list begins at a constant address. It is another kind of runtime. */
Test(publish, runtime_php)
{
	_cleanup_stage_ struct stage *s = stage_new();
	const uint32_t file = runtime_add(s);
	struct process *p = runtime_process(s, 100, file, 0x10000000);
	struct runtime_facts *facts = unwind_tables_get(s->world.tables, file)->runtime;
	const struct runtime_walk *walk;

	*facts = (struct runtime_facts){.kind = RUNTIME_FILE_PHP,
					.php = {.version = PHP_VERSION(8, 4), .known = 1, .globals = 0x6000}};
	cr_assert(php_layout_of(&facts->php.layout, PHP_VERSION(8, 4)));
	publisher_want_runtimes(s->publisher, 1u << RUNTIME_FILE_CPYTHON);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_null(walk_at(s, 100), "not wanted");
	publisher_want_runtimes(s->publisher, 1u << RUNTIME_FILE_PHP);
	p->maps->version++;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	walk = walk_at(s, 100);
	cr_assert_not_null(walk);
	cr_expect_eq(walk->start, 0x10000000 + 0x6000 + 488);
	cr_expect_eq(walk->runtime, RUNTIME_PHP);
	cr_expect_eq(walk->file, 168);
	cr_expect_eq(walk->flags & (RUNTIME_WALK_BLOCK | RUNTIME_WALK_SEARCH), 0);

	facts->php.threads = 1;
	p->maps->version++;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	walk = walk_at(s, 100);
	cr_assert_not_null(walk, "built for threads");
	cr_expect_eq(walk->start, 0x10000000 + 0x6000);
	cr_expect_eq(walk->first, 488);
	cr_expect_eq(walk->flags & (RUNTIME_WALK_BLOCK | RUNTIME_WALK_SEARCH),
		     RUNTIME_WALK_BLOCK | RUNTIME_WALK_SEARCH);

	facts->php.known = 0;
	p->maps->version++;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_null(walk_at(s, 100), "an unknown version");
}

/* Ruby: before 3.0 the context is found by an address, then by a search. */
Test(publish, runtime_ruby)
{
	_cleanup_stage_ struct stage *s = stage_new();
	const uint32_t file = runtime_add(s);
	struct process *p = runtime_process(s, 100, file, 0x10000000);
	struct runtime_facts *facts = unwind_tables_get(s->world.tables, file)->runtime;
	const struct runtime_walk *walk;

	*facts = (struct runtime_facts){
		.kind = RUNTIME_FILE_RUBY,
		.ruby = {.version = RUBY_VERSION(3, 4), .known = 1, .symbols = 0x6000}};
	cr_assert(ruby_layout_of(&facts->ruby.layout, RUBY_VERSION(3, 4)));
	publisher_want_runtimes(s->publisher, 1u << RUNTIME_FILE_RUBY);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	walk = walk_at(s, 100);
	cr_assert_not_null(walk);
	cr_expect_eq(walk->start, 0);
	cr_expect_eq(walk->symbols, 0x10000000 + 0x6000);
	cr_expect_eq(walk->flags, RUNTIME_WALK_SEARCH | RUNTIME_WALK_HANDLERS);
	cr_expect_eq(walk->shape, RUNTIME_SHAPE_ARRAY);

	facts->ruby.version = RUBY_VERSION(2, 7);
	facts->ruby.context = 0x7000;
	cr_assert(ruby_layout_of(&facts->ruby.layout, RUBY_VERSION(2, 7)));
	p->maps->version++;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	walk = walk_at(s, 100);
	cr_expect_eq(walk->start, 0x10000000 + 0x7000);
	cr_expect_eq(walk->flags, 0);

	facts->ruby.known = 0;
	p->maps->version++;
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	cr_expect_null(walk_at(s, 100), "an unknown version");
}

/* Where there is no key, the program searches, and is given what it has found. */
Test(publish, thread_slot)
{
	_cleanup_stage_ struct stage *s = stage_new();
	const uint32_t file = runtime_add(s);
	struct process *p = runtime_process(s, 100, file, 0x10000000);
	uint32_t generation;

	unwind_tables_get(s->world.tables, file)->runtime->cpython.layout.key = CPYTHON_NO_OFFSET;
	publisher_want_runtimes(s->publisher, 1u << RUNTIME_FILE_CPYTHON);
	cr_assert_eq(publisher_put(s->publisher, p), 0);
	generation = list_at(s, process_list(s, 100))->generation;
	cr_expect_eq(walk_at(s, 100)->flags & RUNTIME_WALK_SEARCH, RUNTIME_WALK_SEARCH);
	publisher_set_thread_slot(s->publisher, 100, generation + 1, -40);
	publisher_set_thread_slot(s->publisher, 99, generation, -40);
	cr_expect_eq(walk_at(s, 100)->slot, 0, "another list, another process");
	publisher_set_thread_slot(s->publisher, 100, generation, 0);
	cr_expect_eq(walk_at(s, 100)->flags & RUNTIME_WALK_SEARCH, RUNTIME_WALK_SEARCH, "tried again");
	publisher_set_thread_slot(s->publisher, 100, generation, -40);
	cr_expect_eq(walk_at(s, 100)->slot, -40);
	cr_expect_eq(walk_at(s, 100)->flags & RUNTIME_WALK_SEARCH, 0);
}
