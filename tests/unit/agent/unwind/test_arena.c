// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/unwind/arena.h"
#include "bpf/abi.h"

#define SEGMENTS 8
#define FIRST_FREE (SEGMENT_BYTES - PROCESS_TABLE_BYTES) /* bytes of segment 0 for blocks */

#define TABLE ((struct arena_owner){ARENA_TABLE, 1})
#define LIST ((struct arena_owner){ARENA_LIST, 2})

/* Segments as the probe would make them, in plain memory. */
struct source {
	uint8_t *segments[SEGMENTS];
	uint32_t n;
	uint32_t fail_at; /* segment that cannot be made; 0: none */
};

static int make_segment(void *data, uint32_t index, void **ret)
{
	struct source *s = data;

	cr_assert_eq(index, s->n, "segments are made in order");
	cr_assert_lt(index, SEGMENTS);
	if (s->fail_at && index >= s->fail_at)
		return -EPERM;
	s->segments[index] =
		aligned_alloc(REF_ALIGN, (SEGMENT_VALUE + REF_ALIGN - 1) / REF_ALIGN * REF_ALIGN);
	cr_assert_not_null(s->segments[index]);
	memset(s->segments[index], 0, SEGMENT_VALUE);
	*ret = s->segments[s->n++];
	return 0;
}

static void source_fini(struct source *s)
{
	for (uint32_t i = 0; i < s->n; i++)
		free(s->segments[i]);
}

DEFINE_CLEANUP(struct arena *, arena_free)
#define _cleanup_arena_ _cleanup_(arena_free_p)
#define _cleanup_source_ _cleanup_(source_fini)

static struct arena_stats stats_of(const struct arena *a)
{
	struct arena_stats s;

	arena_stats(a, &s);
	return s;
}

static void grace(struct arena *a)
{
	if (arena_grace_begin(a))
		arena_grace_end(a);
}

Test(arena, budget_below_one_segment)
{
	struct source s = {0};
	struct arena *a = NULL;

	cr_expect_eq(arena_new(&a, SEGMENT_BYTES - 1, make_segment, &s), -EINVAL);
	cr_expect_null(a);
	arena_free(NULL);
}

Test(arena, first_segment_fails)
{
	struct arena *a = NULL;
	struct source s = {.fail_at = 1};

	cr_assert_eq(arena_new(&a, 4 * SEGMENT_BYTES, make_segment, &s), 0);
	for (int i = 0; i < 2; i++) { /* the second segment's error is the caller's, and not the budget's */
		struct arena_block b = {.ref = 77};

		cr_expect_eq(arena_alloc(a, SEGMENT_BYTES, TABLE, &b), -EPERM);
		cr_expect_eq(b.ref, 77, "written on success only");
	}
	cr_expect_eq(stats_of(a).n_full, 0);
	arena_free(a);
	source_fini(&s);
}

Test(arena, blocks)
{
	_cleanup_source_ struct source s = {0};
	_cleanup_arena_ struct arena *a = NULL;
	struct arena_block b[3];

	cr_assert_eq(arena_new(&a, 2 * SEGMENT_BYTES, make_segment, &s), 0);
	cr_expect_eq(arena_process_table(a), s.segments[0]);
	cr_assert_eq(arena_alloc(a, 1, TABLE, &b[0]), 0);
	cr_assert_eq(arena_alloc(a, 64, TABLE, &b[1]), 0);
	cr_assert_eq(arena_alloc(a, 65, TABLE, &b[2]), 0);
	cr_expect_eq(b[0].ref, PROCESS_TABLE_BYTES / REF_ALIGN, "behind the process table, and not 0");
	cr_expect_eq(b[0].len, 64);
	cr_expect_eq(b[1].ref, b[0].ref + 1);
	cr_expect_eq(b[2].len, 128);
	cr_expect_eq(arena_at(a, b[2].ref), s.segments[0] + PROCESS_TABLE_BYTES + 128);
	cr_expect_eq(stats_of(a).used_bytes, 256);
}

/* What is retired comes back after the grace period that began after it, not before. */
Test(arena, grace_periods)
{
	_cleanup_source_ struct source s = {0};
	_cleanup_arena_ struct arena *a = NULL;
	struct arena_block first, second, b;

	cr_assert_eq(arena_new(&a, SEGMENT_BYTES, make_segment, &s), 0);
	cr_expect_not(arena_grace_begin(a), "nothing waits");
	cr_assert_eq(arena_alloc(a, FIRST_FREE / 2, TABLE, &first), 0);
	cr_assert_eq(arena_alloc(a, FIRST_FREE / 2, TABLE, &second), 0);
	arena_retire(a, (struct arena_block){0});
	cr_expect_not(arena_grace_begin(a), "ref 0 is nothing");
	arena_retire(a, first);
	cr_expect_eq(stats_of(a).retired_bytes, FIRST_FREE / 2);
	cr_expect_eq(arena_alloc(a, 64, TABLE, &b), -ENOSPC);
	cr_expect(arena_grace_begin(a));
	arena_retire(a, second); /* too late for this one */
	cr_expect_not(arena_grace_begin(a), "one at a time");
	cr_expect_eq(arena_alloc(a, 64, TABLE, &b), -ENOSPC);
	arena_grace_end(a);
	cr_expect_eq(stats_of(a).used_bytes, 0);
	cr_expect_eq(stats_of(a).retired_bytes, FIRST_FREE / 2);
	cr_assert_eq(arena_alloc(a, 64, TABLE, &b), 0);
	cr_expect_eq(b.ref, first.ref);
	cr_expect_eq(arena_alloc(a, FIRST_FREE / 2, TABLE, &first), -ENOSPC, "the second is still retired");
	grace(a);
	cr_expect_eq(stats_of(a).retired_bytes, 0);
	cr_expect_eq(stats_of(a).n_full, 3);
}

/* Freed in any order, the neighbours grow together again. */
Test(arena, merge)
{
	static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {0, 2, 1, 3}, {2, 0, 3, 1}};

	for (size_t o = 0; o < ARRAY_SIZE(orders); o++) {
		_cleanup_source_ struct source s = {0};
		_cleanup_arena_ struct arena *a = NULL;
		struct arena_block b[4], all;

		cr_assert_eq(arena_new(&a, SEGMENT_BYTES, make_segment, &s), 0);
		for (int i = 0; i < 4; i++)
			cr_assert_eq(arena_alloc(a, FIRST_FREE / 4, TABLE, &b[i]), 0);
		for (int i = 0; i < 4; i++) {
			arena_retire(a, b[orders[o][i]]);
			grace(a);
		}
		cr_expect_eq(arena_alloc(a, FIRST_FREE, TABLE, &all), 0, "order %zu", o);
	}
}

Test(arena, budget)
{
	_cleanup_source_ struct source s = {0};
	_cleanup_arena_ struct arena *a = NULL;
	struct arena_block b;

	cr_assert_eq(arena_new(&a, 3 * SEGMENT_BYTES + SEGMENT_BYTES / 2, make_segment, &s), 0);
	cr_expect_eq(s.n, 1, "segments are made when needed");
	cr_expect_eq(arena_alloc(a, 0, TABLE, &b), -ENOSPC);
	cr_expect_eq(arena_alloc(a, SEGMENT_BYTES + 1, TABLE, &b), -ENOSPC, "more than a segment");
	cr_expect_eq(arena_alloc(a, SEGMENT_BYTES, TABLE, &b), 0, "a whole one");
	cr_expect_eq(b.ref, 1u << REF_OFFSET_BITS);
	cr_expect_eq(arena_alloc(a, SEGMENT_BYTES, TABLE, &b), 0);
	cr_expect_eq(s.n, 3);
	cr_expect_eq(arena_alloc(a, SEGMENT_BYTES, TABLE, &b), -ENOSPC);
	cr_expect_eq(arena_alloc(a, FIRST_FREE, TABLE, &b), 0, "what is left of the first");
	cr_expect_eq(arena_alloc(a, 1, TABLE, &b), -ENOSPC);
	cr_expect_eq(stats_of(a).n_full, 4);
	cr_expect_eq(stats_of(a).segment_bytes, 3 * SEGMENT_VALUE);
}

/* Lists come from the other end than tables: what lies between them stays in one piece. */
Test(arena, opposite_ends)
{
	_cleanup_source_ struct source s = {0};
	_cleanup_arena_ struct arena *a = NULL;
	struct arena_block table, list, b;

	cr_assert_eq(arena_new(&a, 2 * SEGMENT_BYTES, make_segment, &s), 0);
	cr_assert_eq(arena_alloc(a, 6400, TABLE, &table), 0);
	cr_assert_eq(arena_alloc(a, 6400, LIST, &list), 0);
	cr_expect_eq(table.ref, PROCESS_TABLE_BYTES / REF_ALIGN);
	cr_expect_eq(list.ref, (SEGMENT_BYTES - 6400) / REF_ALIGN);
	cr_assert_eq(arena_alloc(a, SEGMENT_BYTES / 2, TABLE, &b), 0);
	cr_assert_eq(arena_alloc(a, SEGMENT_BYTES / 2, TABLE, &b), 0);
	cr_expect_eq(b.ref >> REF_OFFSET_BITS, 1);
	cr_assert_eq(arena_alloc(a, 6400, LIST, &b), 0);
	cr_expect_eq(b.ref, list.ref - 6400 / REF_ALIGN, "lists stay in the first segments");
	cr_assert_eq(arena_alloc(a, 6400, TABLE, &b), 0);
	cr_expect_eq(b.ref >> REF_OFFSET_BITS, 1, "tables go to the last ones");
}

/* Every block has another generation than those before it; none looks like a header that was cleared. */
Test(arena, generations)
{
	_cleanup_source_ struct source s = {0};
	_cleanup_arena_ struct arena *a = NULL;
	uint32_t before = 0, ref = 0;

	cr_assert_eq(arena_new(&a, SEGMENT_BYTES, make_segment, &s), 0);
	for (int i = 0; i < 100; i++) {
		struct arena_block b;
		uint32_t *at;

		cr_assert_eq(arena_alloc(a, 64, TABLE, &b), 0);
		cr_expect_gt(b.generation, before);
		cr_expect_neq(b.generation & SLOT_GENERATION_MASK, 0);
		cr_expect(!ref || b.ref == ref, "the same place again");
		at = (uint32_t *)((uint8_t *)arena_at(a, b.ref) + BLOCK_GENERATION);
		*at = before = b.generation;
		ref = b.ref;
		arena_retire(a, b);
		cr_expect_eq(*at, b.generation, "a program may be reading it");
		grace(a);
		cr_expect_eq(*at, 0);
	}
}

/* ---- room for one requester: tables by their last use, which is their id here */

struct evictions {
	struct arena *arena;
	struct arena_block blocks[64]; /* by id */
	uint64_t keep;		       /* this one and those after it stay; 0: none */
	uint64_t evicted[64];
	unsigned n;
};

static uint64_t last_used(uint64_t id, void *data)
{
	const struct evictions *e = data;

	return e->keep && id >= e->keep ? ARENA_KEEP : id;
}

static void evict(uint64_t id, void *data)
{
	struct evictions *e = data;

	e->evicted[e->n++] = id;
	arena_retire(e->arena, e->blocks[id]);
}

static void table_alloc(struct evictions *e, uint64_t id, size_t len)
{
	cr_assert_eq(arena_alloc(e->arena, len, (struct arena_owner){ARENA_TABLE, id}, &e->blocks[id]), 0);
}

static int hold(struct evictions *e, size_t len, struct arena_hold *ret)
{
	e->n = 0;
	return arena_hold(e->arena, len, &(struct arena_eviction){last_used, evict, e}, ret);
}

/* A segment full of tables of these ages, of 1/8 each. */
#define EIGHTH (FIRST_FREE / 8)
static void evictions_init(struct evictions *e, struct source *s, const uint64_t ages[8])
{
	cr_assert_eq(arena_new(&e->arena, SEGMENT_BYTES, make_segment, s), 0);
	for (int i = 0; i < 8; i++)
		table_alloc(e, ages[i], EIGHTH);
}

static void evictions_fini(struct evictions *e)
{
	arena_free(e->arena);
}

Test(arena, room_in_one_piece)
{
	static const struct {
		size_t len;
		uint64_t keep;
		uint64_t want[8]; /* evicted, 0 ends */
	} cases[] = {
		{EIGHTH, 0, {1}},	 /* the oldest */
		{64, 0, {1}},		 /* whole tables go */
		{2 * EIGHTH, 0, {5, 4}}, /* no others beside each other are as old */
		{3 * EIGHTH, 0, {5, 4, 6}},
		{4 * EIGHTH, 0, {5, 4, 6, 3}},
		{8 * EIGHTH, 0, {1, 9, 2, 7, 5, 4, 6, 3}},
		{5 * EIGHTH, 7, {0}}, /* what is needed does not lie in one piece */
		{9 * EIGHTH, 0, {0}},
		{SEGMENT_BYTES + 1, 0, {0}},
	};
	static const uint64_t ages[8] = {1, 9, 2, 7, 5, 4, 6, 3};

	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		_cleanup_source_ struct source s = {0};
		_cleanup_(evictions_fini) struct evictions e = {.keep = cases[c].keep};
		struct arena_hold h = {0};
		unsigned n = 0;

		evictions_init(&e, &s, ages);
		while (n < 8 && cases[c].want[n])
			n++;
		cr_expect_eq(hold(&e, cases[c].len, &h), n ? 0 : -ENOSPC, "case %zu", c);
		cr_assert_eq(e.n, n, "case %zu: %u evicted", c, e.n);
		for (unsigned i = 0; i < n; i++)
			cr_expect_eq(e.evicted[i], cases[c].want[i], "case %zu", c);
		cr_expect_eq(stats_of(e.arena).retired_bytes, n * EIGHTH);
	}
}

/* The room is the requester's: nobody takes it when it becomes free, and what it does not need is free. */
Test(arena, hold_and_claim)
{
	static const uint64_t ages[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	_cleanup_source_ struct source s = {0};
	_cleanup_(evictions_fini) struct evictions e = {0};
	struct arena_hold h = {0}, other = {0};
	struct arena_block b;

	evictions_init(&e, &s, ages);
	cr_assert_eq(hold(&e, 3 * EIGHTH - 640, &h), 0);
	cr_expect_eq(e.n, 3);
	cr_expect_eq(arena_claim(e.arena, &h, 640, LIST, &b), -EAGAIN, "programs may be reading it");
	cr_assert_eq(hold(&e, EIGHTH, &other), 0);
	cr_expect_eq(e.n, 1);
	cr_expect_eq(e.evicted[0], 4, "others look elsewhere");
	grace(e.arena);
	cr_expect_eq(stats_of(e.arena).held_bytes, 4 * EIGHTH);
	cr_expect_eq(arena_alloc(e.arena, 64, TABLE, &b), -ENOSPC, "held");
	cr_expect_eq(arena_claim(e.arena, &h, 3 * EIGHTH + 64, LIST, &b), -ENOSPC, "more than it asked for");
	cr_expect_neq(h.id, 0);
	cr_assert_eq(arena_claim(e.arena, &h, 2 * EIGHTH, LIST, &b), 0);
	cr_expect_eq(h.id, 0);
	cr_expect_eq(stats_of(e.arena).held_bytes, EIGHTH);
	cr_assert_eq(arena_alloc(e.arena, EIGHTH, TABLE, &b), 0, "what it did not need");
	cr_expect_eq(arena_alloc(e.arena, 64, TABLE, &b), -ENOSPC);
	arena_unhold(e.arena, &other);
	arena_unhold(e.arena, &other);
	cr_expect_eq(stats_of(e.arena).held_bytes, 0);
	cr_assert_eq(arena_alloc(e.arena, EIGHTH, TABLE, &b), 0, "given up");
}

/* Free and retired bytes are part of the room: less has to go. Lists do not. */
Test(arena, room_beside_free_space)
{
	_cleanup_source_ struct source s = {0};
	_cleanup_(evictions_fini) struct evictions e = {0};
	struct arena_hold h = {0};
	struct arena_block list;

	cr_assert_eq(arena_new(&e.arena, SEGMENT_BYTES, make_segment, &s), 0);
	cr_assert_eq(arena_alloc(e.arena, 4 * EIGHTH, LIST, &list), 0);
	table_alloc(&e, 1, EIGHTH);
	table_alloc(&e, 9, EIGHTH);
	table_alloc(&e, 8, EIGHTH); /* and one eighth is free, before the list */
	arena_retire(e.arena, e.blocks[9]);
	cr_assert_eq(hold(&e, EIGHTH + 640, &h), 0);
	cr_expect_eq(e.n, 1);
	cr_expect_eq(e.evicted[0], 1, "with the retired one beside it");
	arena_unhold(e.arena, &h);
	cr_assert_eq(hold(&e, 3 * EIGHTH, &h), 0);
	cr_expect_eq(e.n, 1);
	cr_expect_eq(e.evicted[0], 8);
	arena_unhold(e.arena, &h);
	cr_expect_eq(hold(&e, 4 * EIGHTH + 64, &h), -ENOSPC, "the list stays");
	grace(e.arena);
	cr_expect_eq(stats_of(e.arena).free_bytes, 4 * EIGHTH);
}

/* ---- against a shadow: one state for every 64 bytes of the arena */

enum state { FREE, USED, RETIRED, WAITING };

struct shadow {
	uint8_t state[SEGMENTS][SEGMENT_BYTES / REF_ALIGN];
	struct arena_block blocks[512];
	size_t n;
	size_t used, retired;
};

static void shadow_set(struct shadow *w, struct arena_block b, enum state from, enum state to)
{
	uint8_t *at = &w->state[b.ref >> REF_OFFSET_BITS][b.ref & ((1u << REF_OFFSET_BITS) - 1)];

	for (uint32_t i = 0; i < b.len / REF_ALIGN; i++) {
		cr_assert_eq(at[i], from, "block %#x+%u: cell %u is %d, not %d", b.ref, b.len, i, at[i],
			     from);
		at[i] = (uint8_t)to;
	}
}

static void shadow_turn(struct shadow *w, enum state from, enum state to)
{
	uint8_t *at = w->state[0];

	for (size_t i = 0; i < sizeof w->state; i++)
		if (at[i] == from)
			at[i] = (uint8_t)to;
}

static void shadow_alloc(struct shadow *w, struct arena *a, size_t len)
{
	struct arena_block b;

	if (w->n == ARRAY_SIZE(w->blocks) || arena_alloc(a, len, TABLE, &b) < 0)
		return;
	cr_assert(b.ref != 0 && b.len >= len && b.len < len + REF_ALIGN);
	cr_assert_leq((b.ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN + b.len, SEGMENT_BYTES);
	shadow_set(w, b, FREE, USED);
	memset(arena_at(a, b.ref), (int)w->n, b.len);
	w->blocks[w->n++] = b;
	w->used += b.len;
}

static void shadow_retire(struct shadow *w, struct arena *a, size_t i)
{
	shadow_set(w, w->blocks[i], USED, RETIRED);
	arena_retire(a, w->blocks[i]);
	w->retired += w->blocks[i].len;
	w->used -= w->blocks[i].len;
	w->blocks[i] = w->blocks[--w->n];
}

/* The bytes that the end of the period gives back. */
static size_t waiting_bytes(const struct shadow *w)
{
	const uint8_t *at = w->state[0];
	size_t n = 0;

	for (size_t i = 0; i < sizeof w->state; i++)
		n += at[i] == WAITING;
	return n * REF_ALIGN;
}

static void shadow_step(struct shadow *w, struct arena *a, unsigned *seed, bool *in_grace)
{
	unsigned what = (unsigned)rand_r(seed) % 100;

	if (what < 55) {
		shadow_alloc(w, a, 1 + (size_t)rand_r(seed) % (what < 5 ? SEGMENT_BYTES : 40000));
	} else if (what < 95) {
		if (w->n)
			shadow_retire(w, a, (size_t)rand_r(seed) % w->n);
	} else if (!*in_grace) {
		*in_grace = arena_grace_begin(a);
		cr_assert_eq(*in_grace, w->retired > 0);
		shadow_turn(w, RETIRED, WAITING);
	} else {
		size_t bytes = waiting_bytes(w);

		arena_grace_end(a);
		*in_grace = false;
		w->retired -= bytes;
		shadow_turn(w, WAITING, FREE);
	}
}

Test(arena, random)
{
	_cleanup_source_ struct source s = {0};
	_cleanup_arena_ struct arena *a = NULL;
	_cleanup_free_ struct shadow *w = calloc(1, sizeof *w);
	unsigned seed = 20260304;
	bool in_grace = false;
	struct arena_block b;

	cr_assert_not_null(w);
	cr_assert_eq(arena_new(&a, SEGMENTS * SEGMENT_BYTES, make_segment, &s), 0);
	memset(w->state[0], USED, PROCESS_TABLE_BYTES / REF_ALIGN);
	for (int i = 0; i < 20000; i++) {
		shadow_step(w, a, &seed, &in_grace);
		cr_assert_eq(stats_of(a).used_bytes, w->used);
		cr_assert_eq(stats_of(a).retired_bytes, w->retired);
		cr_assert_eq(stats_of(a).free_bytes, stats_of(a).total_bytes - w->used - w->retired);
	}
	while (w->n)
		shadow_retire(w, a, 0);
	if (in_grace)
		arena_grace_end(a);
	grace(a);
	cr_expect_eq(stats_of(a).used_bytes, 0);
	for (int i = 1; i < SEGMENTS; i++) /* nothing is fragmented that is free */
		cr_expect_eq(arena_alloc(a, SEGMENT_BYTES, TABLE, &b), 0, "segment %d", i);
	cr_expect_eq(arena_alloc(a, FIRST_FREE, TABLE, &b), 0);
}
