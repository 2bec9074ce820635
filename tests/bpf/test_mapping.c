// SPDX-License-Identifier: Apache-2.0
/* The search for a mapping, against a linear one. */
#include "tests/bpf/machine.h"

/* n mappings at random, with and without gaps between them. Files are numbered from 1. */
static void map_random(struct machine *m, unsigned n, unsigned *seed)
{
	uint64_t at = 0x1000 * (1 + (uint64_t)rand_r(seed) % 1000);

	for (unsigned i = 0; i < n; i++) {
		uint64_t len = 0x1000 * (1 + (uint64_t)rand_r(seed) % 50);

		machine_map(m, at, at + len, 0x1000 * ((uint64_t)rand_r(seed) % 100), i + 1, 0);
		at += len + (rand_r(seed) % 2 ? 0x1000 * (uint64_t)(rand_r(seed) % 20) : 0);
	}
}

static const struct mapping_entry *naive(const struct machine *m, uint64_t address)
{
	for (uint32_t i = 0; i < m->n_mappings; i++)
		if (address >= m->mappings[i].start && address < m->mappings[i].end)
			return &m->mappings[i];
	return NULL;
}

static bool agrees(struct machine *m, uint32_t list, uint64_t ip)
{
	const struct mapping_entry *e = naive(m, ip);
	const struct unwind_state *t = &m->area.state;
	int next;

	machine_start(m, list, ip, 0, 0, 512);
	next = unwind_mapping();
	if (!e)
		return next == ENDING_NO_MAPPING && t->length == 0;
	return next == NEXT_FRAMES && t->start == e->start && t->length == e->end - e->start &&
	       t->bias == e->bias && t->tag == (uint64_t)e->file << FRAME_VA_BITS && t->n_pages == 0;
}

static void check_list(unsigned n, unsigned n_random, unsigned *seed)
{
	_cleanup_machine_ struct machine *m = machine_new();
	unsigned wrong = 0;
	uint64_t low, high;
	uint32_t list;

	map_random(m, n, seed);
	list = machine_list(m, n % MACHINE_SEGMENTS);
	low = m->mappings[0].start - 0x1000;
	high = m->mappings[n - 1].end + 0x1000;
	for (unsigned i = 0; i < n; i++) {
		const struct mapping_entry *e = &m->mappings[i];
		const uint64_t ips[] = {e->start - 1, e->start, e->start + 1, e->end - 1, e->end};

		for (size_t k = 0; k < ARRAY_SIZE(ips); k++)
			wrong += !agrees(m, list, ips[k]);
	}
	for (unsigned i = 0; i < n_random; i++)
		wrong += !agrees(m, list,
				 low + (((uint64_t)rand_r(seed) << 31 | rand_r(seed)) % (high - low)));
	wrong += !agrees(m, list, 0) + !agrees(m, list, ~0ull - 1) + !agrees(m, list, 1ull << 63);
	cr_expect_eq(wrong, 0, "%u mappings: %u addresses found wrong", n, wrong);
}

Test(mapping, search)
{
	unsigned seed = 20260302;

	for (unsigned n = 1; n <= 70; n++)
		check_list(n, 200, &seed);
	check_list(1000, 5000, &seed);
	check_list(MACHINE_MAPPINGS, 5000, &seed);
}

/* The longest list that fits a segment: as many steps as the program takes. */
Test(mapping, longest_list)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const uint32_t n = (uint32_t)list_capacity(SEGMENT_BYTES);
	_cleanup_free_ struct mapping_entry *entries = calloc(n, sizeof *entries);
	unsigned wrong = 0;
	uint32_t list;
	void *mem;

	cr_assert_geq(n, 20000);
	cr_assert_leq(list_bytes(n), SEGMENT_BYTES);
	for (uint32_t i = 0; i < n; i++)
		entries[i] = (struct mapping_entry){.start = 0x10000ull + i * 0x1000ull,
						    .end = 0x10800ull + i * 0x1000ull,
						    .bias = i,
						    .file = 1};
	list = machine_block(m, 1, list_bytes(n), &mem);
	list_write(mem, entries, n, 1, 0);
	for (uint32_t i = 0; i < n; i++) {
		machine_start(m, list, entries[i].start + 0x7ff, 0, 0, 512);
		wrong += unwind_mapping() != NEXT_FRAMES || m->area.state.bias != i;
		machine_start(m, list, entries[i].end, 0, 0, 512);
		wrong += unwind_mapping() != ENDING_NO_MAPPING;
	}
	cr_expect_eq(wrong, 0, "%u of %u", wrong, n);
}

/* What a mapping brings with it: its table's place, and nothing of the mapping before. */
Test(mapping, table)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {{0x1000, RULE_SP(8)}, {0x1400, RULE_NONE}};
	struct unwind_blocks blocks = machine_encode(rows, ARRAY_SIZE(rows));
	uint32_t list;

	machine_map(m, 0x5000, 0x6000, 0x4000, 1, machine_place(m, 2, &blocks.blocks[0]));
	machine_map(m, 0x6000, 0x7000, 0, 2, 0);
	unwind_blocks_fini(&blocks);
	list = machine_list(m, 3);
	machine_start(m, list, 0x5100, 0, 0, 512);
	cr_assert_eq(unwind_mapping(), NEXT_FRAMES);
	cr_expect_eq(m->area.state.segment, 2);
	cr_expect_eq(m->area.state.table_va, 0x1000);
	cr_expect_eq(m->area.state.n_pages, 8);
	m->area.state.ip = 0x6100;
	cr_assert_eq(unwind_mapping(), NEXT_FRAMES);
	cr_expect_eq(m->area.state.segment, 0);
	cr_expect_eq(m->area.state.n_pages, 0);
}

/* A mapping that expects another generation than the block has: the block is not read, and the unwind ends
 * where a rule is needed, as if the table were still to come. */
Test(mapping, other_table)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {{0x1000, RULE_SP(8)}, {0x1400, RULE_NONE}};
	struct unwind_blocks blocks = machine_encode(rows, ARRAY_SIZE(rows));
	struct unwind_table *table;
	uint32_t list, ref = machine_place(m, 2, &blocks.blocks[0]);

	unwind_blocks_fini(&blocks);
	table = (struct unwind_table *)(m->segments[ref_segment(ref)]->bytes + ref_offset(ref));
	machine_map(m, 0x5000, 0x6000, 0x4000, 1, ref);
	list = machine_list(m, 3);
	for (unsigned i = 0; i < 3; i++) {
		table->generation =
			(const uint32_t[]){0, MACHINE_GENERATION + 1, MACHINE_GENERATION << 16}[i];
		machine_start(m, list, 0x5100, 0x1000, 0x2000, 512);
		cr_assert_eq(unwind_mapping(), NEXT_FRAMES);
		cr_expect_eq(m->area.state.n_pages, 0);
		cr_expect_eq(unwind_frames(), ENDING_NO_TABLE);
		cr_expect_eq(m->area.state.n, 1, "the frame is known all the same");
		cr_expect_eq(m->area.state.fallback, 0, "it can be finished");
	}
	table->generation = MACHINE_GENERATION | 0x50000;
	machine_start(m, list, 0x5100, 0, 0, 512);
	cr_assert_eq(unwind_mapping(), NEXT_FRAMES);
	cr_expect_eq(m->area.state.n_pages, 8, "only the low bits are compared");
}

/* The same for the list that a process slot names. */
Test(mapping, other_list)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const uint32_t generation = 1u << SLOT_GENERATION_SHIFT; /* of machine_list() */
	uint32_t list;

	machine_map(m, 0x5000, 0x6000, 0, 1, 0);
	list = machine_list(m, 3);
	cr_expect_eq(slot_segment(list | generation), m->segments[3]);
	cr_expect_eq(slot_segment(list | generation | PROCESS_STACK), m->segments[3]);
	cr_expect_null(slot_segment(list));
	cr_expect_null(slot_segment(list | 2 * generation | PROCESS_STACK));
	cr_expect_null(slot_segment(0));
	cr_expect_null(slot_segment(PROCESS_STACK));
	cr_expect_null(slot_segment(SLOT_LIST_MASK | generation), "no such segment");
}
