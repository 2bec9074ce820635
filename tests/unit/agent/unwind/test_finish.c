// SPDX-License-Identifier: Apache-2.0
/* Stacks of three frames, leaf → middle → start, ended at different points and gone on with. */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rows.h"
#include "agent/proc/table.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/block.h"
#include "agent/unwind/finish.h"
#include "bpf/area.h"
#include "agent/unwind/list.h"
#include "tests/unit/machine.h"

#define FILE_INDEX 7ull
#define BIAS 0x10000u
#define LEAF 0x1010u /* ELF addresses inside the functions */
#define MIDDLE 0x1150u
#define START 0x1250u
#define TRAMPOLINE 0x1290u
#define SP 0x7ffe0000u

#define NOBODY ((struct arena_owner){ARENA_LIST, 0})

struct scene {
	void *segment;
	struct arena *arena;
	struct finisher *finisher;
	uint32_t table;
	uint16_t generation; /* of the table */
	struct mapping_entry mapping;
	struct {
		struct saved_stack head;
		uint64_t stack[16];
	} saved;
	uint64_t frames[4];
	struct sample_view view;
};

static int segment(void *data, uint32_t index, void **ret)
{
	struct scene *s = data;

	cr_assert_eq(index, 0);
	s->segment = *ret = calloc(1, SEGMENT_VALUE);
	return *ret ? 0 : -1;
}

static struct elf_rule rule_sp(int32_t offset)
{
	return (struct elf_rule){.cfa_kind = CFA_REG_OFF,
				 .cfa_reg = 7,
				 .cfa_off = offset,
				 .ra = {.kind = REG_CFA_OFF, .off = -8}};
}

static void place_table(struct scene *s)
{
	struct elf_rule rules[] = {{.cfa_kind = CFA_NONE},
				   rule_sp(16),
				   rule_sp(32),
				   {.cfa_kind = CFA_UNDEFINED, .ra = {.kind = REG_UNDEFINED}},
				   {.cfa_kind = CFA_SIGNAL}};
	struct elf_row rows[] = {{0x1000, 1}, {0x1100, 2}, {0x1200, 3}, {0x1280, 4}, {0x1300, 0}};
	struct elf_rows table = {.rows = rows, .n_rows = 5, .rules = rules, .n_rules = 5};
	struct unwind_blocks blocks;
	struct arena_block block;

	cr_assert_eq(unwind_blocks_encode(&blocks, &table, EM_X86_64), 0);
	cr_assert_eq(blocks.n, 1);
	cr_assert_eq(arena_alloc(s->arena, blocks.bytes, NOBODY, &block), 0);
	memcpy(arena_at(s->arena, block.ref), blocks.blocks[0].bytes, blocks.blocks[0].len);
	unwind_block_place(arena_at(s->arena, block.ref), (block.ref & 0x7fff) * REF_ALIGN, block.generation);
	unwind_blocks_fini(&blocks);
	s->table = block.ref;
	s->generation = (uint16_t)block.generation;
}

static void scene_init(struct scene *s)
{
	*s = (struct scene){0};
	cr_assert_eq(arena_new(&s->arena, SEGMENT_BYTES, segment, s), 0);
	cr_assert_eq(
		finisher_new(&s->finisher, &(struct finisher_options){.arena = s->arena, .user_frames = 512}),
		0);
	place_table(s);
	s->mapping = (struct mapping_entry){BIAS + 0x1000, BIAS + 0x1300, BIAS,
					    FILE_INDEX,	   s->generation, s->table};
	s->saved.head = (struct saved_stack){.ip = BIAS + LEAF,
					     .sp = SP,
					     .stack_address = SP,
					     .innermost = 1,
					     .stack_bytes = sizeof s->saved.stack};
	s->saved.stack[1] = BIAS + MIDDLE + 1; /* of the leaf: CFA = SP + 16 */
	s->saved.stack[5] = BIAS + START + 1;  /* of the middle: CFA = SP + 16 + 32 */
	s->frames[0] = 0xffffffff81000000;
	s->view = (struct sample_view){.ending = ENDING_NO_PROCESS,
				       .n_kernel = 1,
				       .frames = s->frames,
				       .saved = &s->saved.head,
				       .stack = (const uint8_t *)s->saved.stack};
}

static void scene_fini(struct scene *s)
{
	finisher_free(s->finisher);
	arena_free(s->arena);
	free(s->segment);
}

#define _cleanup_scene_ _cleanup_(scene_fini)

static uint32_t list_of(struct scene *s, struct mapping_entry m)
{
	struct arena_block block;

	cr_assert_eq(arena_alloc(s->arena, list_bytes(1), NOBODY, &block), 0);
	list_write(arena_at(s->arena, block.ref), &m, 1, 1, 0);
	return block.ref;
}

static void expect_whole(const struct sample_view *v)
{
	const uint64_t want[] = {0xffffffff81000000, FILE_INDEX << FRAME_VA_BITS | LEAF,
				 FILE_INDEX << FRAME_VA_BITS | MIDDLE, FILE_INDEX << FRAME_VA_BITS | START};

	cr_expect_eq(v->ending, ENDING_ROOT, "%s", unwind_ending_text(v->ending));
	cr_expect_eq(v->n_kernel, 1);
	cr_assert_eq(v->n_user, 3);
	cr_expect_arr_eq(v->frames, want, sizeof want);
	cr_expect_null(v->saved);
}

Test(finish, from_the_first_frame)
{
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s);
	cr_expect(finisher_walk(s.finisher, &s.view, list_of(&s, s.mapping), &done));
	expect_whole(&done);
}

Test(finish, a_frame_that_had_no_table_is_not_doubled)
{
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s);
	/* the program walked the leaf and ended at the middle: its frame is in, the state is its own */
	s.frames[1] = FILE_INDEX << FRAME_VA_BITS | LEAF;
	s.frames[2] = FILE_INDEX << FRAME_VA_BITS | MIDDLE;
	s.view.n_user = 2;
	s.view.ending = ENDING_NO_TABLE;
	s.saved.head.ip = BIAS + MIDDLE;
	s.saved.head.sp = s.saved.head.stack_address = SP + 16;
	s.saved.head.innermost = 0;
	s.saved.head.stack_bytes = sizeof s.saved.stack - 16;
	s.view.stack += 16;
	cr_expect(finisher_walk(s.finisher, &s.view, list_of(&s, s.mapping), &done));
	expect_whole(&done);
}

Test(finish, what_may_still_come_is_waited_for)
{
	_cleanup_scene_ struct scene s;
	struct sample_view done;
	struct mapping_entry m;

	scene_init(&s);
	m = s.mapping;
	m.table = TABLE_PENDING;
	cr_expect_not(finisher_walk(s.finisher, &s.view, list_of(&s, m), &done), "the table is being built");
	cr_expect_eq(done.ending, ENDING_NO_TABLE);
	cr_expect_eq(done.n_user, 1, "as far as it goes now");
	m = s.mapping;
	m.start += 0x100; /* without the leaf */
	cr_expect_not(finisher_walk(s.finisher, &s.view, list_of(&s, m), &done),
		      "the mapping may be on its way");
	cr_expect_eq(done.ending, ENDING_NO_MAPPING);
	m = s.mapping;
	m.table = TABLE_NEVER;
	cr_expect(finisher_walk(s.finisher, &s.view, list_of(&s, m), &done), "there is nothing to wait for");
	cr_expect_eq(done.ending, ENDING_NO_ROOT, "frame pointer 0");
}

Test(finish, memory_is_what_the_record_brought_and_no_more)
{
	_cleanup_scene_ struct scene s;
	uint32_t list;

	scene_init(&s);
	list = list_of(&s, s.mapping);
	for (uint32_t bytes = 0; bytes <= sizeof s.saved.stack; bytes += 8) {
		struct sample_view done;

		s.saved.head.stack_bytes = bytes;
		cr_expect(finisher_walk(s.finisher, &s.view, list, &done), "%u", bytes);
		if (done.ending == ENDING_ROOT)
			expect_whole(&done);
		else
			cr_expect_eq(done.ending, ENDING_NOT_SAVED, "%u", bytes);
	}
}

/* Pages of a large frame that the process never touched: what lies beyond is there all the same. */
Test(finish, holes)
{
	enum { FRAME = 3 * SAVED_STACK_CHUNK };
	_cleanup_scene_ struct scene s;
	struct sample_view done;
	uint8_t stack[FRAME + 128] = {0};

	scene_init(&s);
	memcpy(stack + 8, &s.saved.stack[1], 8);
	memcpy(stack + 40, &s.saved.stack[5], 8);
	s.view.stack = stack;
	s.saved.head.stack_bytes = sizeof stack;
	s.saved.head.holes = 2 | 4; /* the second and third chunk */
	cr_expect(finisher_walk(s.finisher, &s.view, list_of(&s, s.mapping), &done));
	expect_whole(&done);
	s.saved.head.holes = 1;
	cr_expect(finisher_walk(s.finisher, &s.view, list_of(&s, s.mapping), &done));
	cr_expect_eq(done.ending, ENDING_READ_FAULT, "%s", unwind_ending_text(done.ending));
}

/* The record's first chunk may be a part of one: the address of a byte decides which chunk it is in. */
Test(finish, holes_by_address)
{
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s);
	s.saved.head.sp = s.saved.head.stack_address = SP - 16; /* the words of the leaf end a chunk */
	s.saved.head.holes = 2;
	cr_expect(finisher_walk(s.finisher, &s.view, list_of(&s, s.mapping), &done));
	cr_expect_eq(done.n_user, 2, "%u", done.n_user);
	cr_expect_eq(done.ending, ENDING_READ_FAULT, "%s", unwind_ending_text(done.ending));
	s.saved.head.holes = 0;
	cr_expect(finisher_walk(s.finisher, &s.view, list_of(&s, s.mapping), &done));
	expect_whole(&done);
}

static void map_anonymous(struct proc_maps *maps, uint64_t start, uint64_t end)
{
	cr_assert_eq(proc_maps_insert(maps, (struct proc_mapping){start, end, 0, PROC_FILE_NONE}), 0);
}

/* Walks the sample with mappings that are not published. */
static struct sample_view walked(struct scene *s, const struct proc_maps *maps)
{
	uint32_t list = finisher_list(s->finisher, &s->view, maps, NULL);
	struct sample_view done;

	cr_assert_neq(list, 0u);
	(void)finisher_walk(s->finisher, &s->view, list, &done);
	return done;
}

static void expect_anonymous_leaf(const struct sample_view *v)
{
	cr_expect_eq(v->ending, ENDING_NO_ROOT, "frame pointer 0: %s", unwind_ending_text(v->ending));
	cr_expect_eq(v->n_user, 1);
	cr_expect_eq(v->frames[1], frame_anonymous(BIAS + LEAF));
}

Test(finish, with_mappings_that_are_not_published)
{
	_cleanup_scene_ struct scene s;
	struct sample_view done;
	struct proc_maps *maps;

	scene_init(&s);
	cr_assert_eq(proc_maps_new(&maps, NULL), 0);
	cr_expect_eq(finisher_list(s.finisher, &s.view, maps, NULL), 0u, "there are none");
	map_anonymous(maps, BIAS + 0x1000, BIAS + 0x2000);
	done = walked(&s, maps);
	expect_anonymous_leaf(&done);
	proc_maps_unref(maps);
}

/* Of very many mappings those that the stack leads to are enough, and needed. */
Test(finish, with_very_many_mappings)
{
	enum { OTHERS = 5000 };
	_cleanup_scene_ struct scene s;
	struct sample_view done;
	struct proc_maps *maps;

	scene_init(&s);
	cr_assert_eq(proc_maps_new(&maps, NULL), 0);
	for (uint64_t i = 1; i <= OTHERS; i++)
		map_anonymous(maps, i << 20, (i << 20) + 4096);
	done = walked(&s, maps);
	cr_expect_eq(done.ending, ENDING_NO_MAPPING, "%s", unwind_ending_text(done.ending));
	map_anonymous(maps, BIAS + 0x1000, BIAS + 0x1100);
	done = walked(&s, maps);
	expect_anonymous_leaf(&done);
	proc_maps_unref(maps);
}

/* `pop %rbp; ret`, where the call-frame information still has rbp below the stack pointer. */
Test(finish, red_zone)
{
	_cleanup_scene_ struct scene s;
	struct sample_view done;
	uint64_t stack[32] = {0};

	scene_init(&s);
	s.saved.head.stack_address = SP - SAVED_STACK_BELOW;
	s.saved.head.stack_bytes = sizeof stack;
	memcpy(stack + SAVED_STACK_BELOW / 8, s.saved.stack, sizeof stack - SAVED_STACK_BELOW);
	s.view.stack = (const uint8_t *)stack;
	cr_expect(finisher_walk(s.finisher, &s.view, list_of(&s, s.mapping), &done));
	expect_whole(&done);
}

Test(finish, cut)
{
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s);
	s.frames[1] = 1;
	s.frames[2] = 2;
	s.view.n_user = 2;
	finisher_cut(s.finisher, &s.view, 1, 77, &done);
	cr_expect_eq(done.ending, ENDING_OUTDATED);
	cr_expect_eq(done.n_user, 2);
	cr_expect(done.frames[0] == s.frames[0] && done.frames[1] == 1 && done.frames[2] == 77);
	finisher_cut(s.finisher, &s.view, 0, 0, &done);
	cr_expect_eq(done.n_user, 0);
	cr_expect_null(done.saved);
}

/* --- stacks deeper than the limit: leaf, any number of middle frames, start */

#define DEEP_MAX 2000u
#define LIMIT 512u
#define INNER (LIMIT / 2)
#define OUTER (LIMIT - INNER - 1)

struct deep {
	struct scene scene;
	uint64_t stack[DEEP_MAX * 4];
	uint64_t frames[LIMIT + 1];
};

/* A stack of n frames, the last one `outermost`; the record has none of them. */
static struct deep *deep_new(unsigned n, uint64_t outermost)
{
	struct deep *d = calloc(1, sizeof *d);
	struct scene *s;

	cr_assert_not_null(d);
	s = &d->scene;
	scene_init(s);
	d->stack[1] = BIAS + (n == 2 ? outermost : MIDDLE) + 1;
	for (unsigned i = 1; i + 1 < n; i++)
		d->stack[1 + 4 * i] = BIAS + (i + 2 == n ? outermost : MIDDLE) + 1;
	s->saved.head.stack_bytes = sizeof d->stack;
	s->view.stack = (const uint8_t *)d->stack;
	s->view.frames = d->frames;
	d->frames[0] = 0xffffffff81000000;
	return d;
}

static void deep_free(struct deep *d)
{
	scene_fini(&d->scene);
	free(d);
}

DEFINE_CLEANUP(struct deep *, deep_free)
#define _cleanup_deep_ _cleanup_(deep_free_p)

static uint64_t file_word(uint64_t va)
{
	return frame_native(FILE_INDEX, va);
}

static void expect_deep(const struct sample_view *v, unsigned n)
{
	unsigned wrong = 0;

	cr_expect_eq(v->ending, ENDING_ROOT, "%u: %s", n, unwind_ending_text(v->ending));
	cr_assert_eq(v->n_user, n > LIMIT ? LIMIT : n, "%u: %u", n, v->n_user);
	cr_expect_eq(v->frames[0], 0xffffffff81000000);
	cr_expect_eq(v->frames[1], file_word(LEAF));
	for (unsigned i = 1; i + 1 < v->n_user; i++)
		wrong += (i != INNER || n <= LIMIT) && v->frames[1 + i] != file_word(MIDDLE);
	cr_expect_eq(wrong, 0, "%u: %u", n, wrong);
	cr_expect_eq(v->frames[v->n_user], file_word(START));
	cr_expect_eq(v->omitted, n > LIMIT ? 1 + INNER : 0, "%u: %u", n, v->omitted);
	if (n > LIMIT)
		cr_expect_eq(v->frames[1 + INNER], frame_omitted(n - INNER - OUTER), "%u: %llx", n,
			     (unsigned long long)v->frames[1 + INNER]);
}

Test(finish, deeper_than_the_limit)
{
	static const unsigned depths[] = {511, 512, 513, 514, 800, 1023, 1024, 1025, 1300, 1999};

	for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
		_cleanup_deep_ struct deep *d = deep_new(depths[i], START);
		struct scene *s = &d->scene;
		struct sample_view done;

		cr_expect(finisher_walk(s->finisher, &s->view, list_of(s, s->mapping), &done));
		expect_deep(&done, depths[i]);
	}
}

/* The program omitted frames, too, before it came to a binary without a table. */
Test(finish, frames_that_the_program_omitted_count)
{
	for (unsigned seen = LIMIT - 1; seen < 900; seen += 97) {
		for (unsigned n = seen + 1; n < DEEP_MAX; n += 211) {
			_cleanup_deep_ struct deep *d = deep_new(n, START);
			struct scene *s = &d->scene;
			struct sample_view done;
			const unsigned words = seen < LIMIT ? seen : LIMIT;

			d->frames[1] = file_word(LEAF);
			for (unsigned i = 1; i < words; i++)
				d->frames[1 + i] = file_word(MIDDLE);
			if (seen > LIMIT) {
				d->frames[1 + INNER] = frame_omitted(seen - INNER - OUTER);
				s->view.omitted = 1 + INNER;
			}
			s->view.n_user = (uint16_t)words;
			s->view.ending = ENDING_NO_TABLE;
			s->saved.head.n_before = ~0u;
			s->saved.head.ip = BIAS + MIDDLE;
			s->saved.head.sp = SP + 16 + 32 * (seen - 2);
			s->saved.head.innermost = 0;
			cr_expect(finisher_walk(s->finisher, &s->view, list_of(s, s->mapping), &done));
			expect_deep(&done, n);
		}
	}
}

/* What is cut off before omitted frames has none. */
Test(finish, cut_before_omitted_frames)
{
	_cleanup_scene_ struct scene s;
	struct sample_view done;

	scene_init(&s);
	s.frames[1] = 1;
	s.frames[2] = frame_omitted(5);
	s.frames[3] = 3;
	s.view.n_user = 3;
	s.view.omitted = 2;
	finisher_cut(s.finisher, &s.view, 1, 0, &done);
	cr_expect_eq(done.n_user, 1);
	cr_expect_eq(done.omitted, 0);
}

/* A signal frame that leads to itself: the walk ends all the same. */
Test(finish, a_circle)
{
	ONLY_ON_X86_64("the registers");
	_cleanup_deep_ struct deep *d = deep_new(2, START);
	struct scene *s = &d->scene;
	struct sample_view done;

	s->saved.head.ip = BIAS + TRAMPOLINE;
	d->stack[5 + 15] = SP; /* of the struct ucontext at SP: its general registers begin at 40 */
	d->stack[5 + 16] = BIAS + TRAMPOLINE;
	cr_expect(finisher_walk(s->finisher, &s->view, list_of(s, s->mapping), &done));
	cr_expect_eq(done.ending, ENDING_BAD_CFA, "%s", unwind_ending_text(done.ending));
	cr_assert_eq(done.n_user, SIGNALS_MAX + 1);
	for (unsigned i = 0; i < done.n_user; i++)
		cr_assert_eq(done.frames[1 + i], file_word(TRAMPOLINE), "%u", i);
	cr_expect_eq(done.omitted, 0);
}
