// SPDX-License-Identifier: Apache-2.0
/*
 * A process to unwind, made by hand: segments with tables and a mapping list, stack memory with injected read
 * faults, registers. The unwinder of bpf/unwind.h runs on it in the loop that bpf/profiler.bpf.c has.
 *
 * Every fault that a test injects must be hit: machine_free() asserts it, so that no test passes because the
 * unwinder never came there.
 *
 * The tests are built once for each architecture of bpf/arch.h.
 */
#ifndef PROFLET_TESTS_BPF_MACHINE_H
#define PROFLET_TESTS_BPF_MACHINE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/cfi/rows.h"
#include "agent/unwind/block.h"
#include "agent/unwind/list.h"
#include "bpf/unwind.h"

#if defined(__TARGET_ARCH_arm64)
#include "tests/bpf/machine_arm64.h"
#else
#include "tests/bpf/machine_x86.h"
#endif

#define MACHINE_SEGMENTS 4
#define MACHINE_RANGES 4
#define MACHINE_FAULTS 4
#define MACHINE_MAPPINGS 2048
#define MACHINE_GENERATION 7u /* of every table */
#define MACHINE_PAGE 4096ull

struct machine_fault {
	uint64_t start, end; /* process addresses; a read that touches them fails */
	unsigned hits;
};

struct machine {
	struct unwind_area area;
	struct env env;
	struct segment *segments[MACHINE_SEGMENTS];
	uint32_t used[MACHINE_SEGMENTS]; /* bytes */
	struct mapping_entry mappings[MACHINE_MAPPINGS];
	uint32_t n_mappings;
	struct {
		uint64_t start;
		size_t len;
		uint8_t *bytes;
	} ranges[MACHINE_RANGES];
	unsigned n_ranges;
	struct machine_fault faults[MACHINE_FAULTS];
	unsigned n_faults;
	unsigned n_reads, n_register_requests;
	uint64_t regs[REGISTER_SLOTS];
};

/* A row of a table: the rule from `va` on. */
struct machine_row {
	uint64_t va;
	struct elf_rule rule;
};

/* Rules in the words of the call-frame information. The return address lies at CFA - 8. */
#define RA_AT_CFA {.kind = REG_CFA_OFF, .off = -8}
#define RULE_NONE ((struct elf_rule){.cfa_kind = CFA_NONE})
#define RULE_ROOT ((struct elf_rule){.cfa_kind = CFA_UNDEFINED, .ra = {.kind = REG_UNDEFINED}})
#define RULE_SP(offset)     \
	((struct elf_rule){ \
		.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = (offset), .ra = RA_AT_CFA})
#define RULE_FP(offset)                                             \
	((struct elf_rule){.cfa_kind = CFA_REG_OFF,                 \
			   .cfa_reg = DWARF_FP,                     \
			   .cfa_off = (offset),                     \
			   .fp = {.kind = REG_CFA_OFF, .off = -16}, \
			   .ra = RA_AT_CFA})

static inline struct segment *machine_segment(void *data, __u32 index)
{
	struct machine *m = data;

	return index < MACHINE_SEGMENTS ? m->segments[index] : NULL;
}

static inline int machine_read(void *data, void *to, __u32 bytes, __u64 address)
{
	struct machine *m = data;

	m->n_reads++;
	for (unsigned i = 0; i < m->n_faults; i++) {
		struct machine_fault *f = &m->faults[i];

		if (address < f->end && address + bytes > f->start) {
			f->hits++;
			return -1;
		}
	}
	for (unsigned i = 0; i < m->n_ranges; i++) {
		uint64_t offset = address - m->ranges[i].start;

		if (offset < m->ranges[i].len && bytes <= m->ranges[i].len - offset) {
			memcpy(to, m->ranges[i].bytes + offset, bytes);
			return 0;
		}
	}
	return -1;
}

static inline struct machine *machine_new(void)
{
	struct machine *m = calloc(1, sizeof *m);

	cr_assert_not_null(m);
	for (int i = 0; i < MACHINE_SEGMENTS; i++) {
		m->segments[i] = calloc(1, sizeof(struct segment));
		cr_assert_not_null(m->segments[i]);
	}
	m->used[0] = PROCESS_TABLE_BYTES;
	m->env = (struct env){
		.area = &m->area, .segment = machine_segment, .read_user = machine_read, .data = m};
	env_current = &m->env;
	return m;
}

static inline void machine_free(struct machine *m)
{
	for (unsigned i = 0; i < m->n_faults; i++)
		cr_expect(m->faults[i].hits > 0, "the fault at %#llx was never hit",
			  (unsigned long long)m->faults[i].start);
	for (int i = 0; i < MACHINE_SEGMENTS; i++)
		free(m->segments[i]);
	for (unsigned i = 0; i < m->n_ranges; i++)
		free(m->ranges[i].bytes);
	free(m);
	env_current = NULL;
}

DEFINE_CLEANUP(struct machine *, machine_free)
#define _cleanup_machine_ _cleanup_(machine_free_p)

/* Memory of `len` bytes, all zero. */
static inline void machine_memory(struct machine *m, uint64_t start, size_t len)
{
	cr_assert_lt(m->n_ranges, MACHINE_RANGES);
	m->ranges[m->n_ranges].start = start;
	m->ranges[m->n_ranges].len = len;
	m->ranges[m->n_ranges].bytes = calloc(1, len);
	cr_assert_not_null(m->ranges[m->n_ranges].bytes);
	m->n_ranges++;
}

static inline void machine_poke(struct machine *m, uint64_t address, uint64_t word)
{
	for (unsigned i = 0; i < m->n_ranges; i++) {
		uint64_t offset = address - m->ranges[i].start;

		if (offset + 8 <= m->ranges[i].len) {
			memcpy(m->ranges[i].bytes + offset, &word, 8);
			return;
		}
	}
	cr_assert_fail("no memory at %#llx", (unsigned long long)address);
}

static inline void machine_fault_at(struct machine *m, uint64_t start, uint64_t len)
{
	cr_assert_lt(m->n_faults, MACHINE_FAULTS);
	m->faults[m->n_faults++] = (struct machine_fault){.start = start, .end = start + len};
}

/* A block of `len` bytes in the segment. Its ref; *ret_mem is the memory. */
static inline uint32_t machine_block(struct machine *m, uint32_t segment, size_t len, void **ret_mem)
{
	uint32_t offset = m->used[segment];

	cr_assert_leq(offset + len, SEGMENT_BYTES);
	m->used[segment] += (uint32_t)(len + REF_ALIGN - 1) / REF_ALIGN * REF_ALIGN;
	*ret_mem = m->segments[segment]->bytes + offset;
	return segment << REF_OFFSET_BITS | offset / REF_ALIGN;
}

static inline uint32_t machine_place(struct machine *m, uint32_t segment, const struct unwind_block *b)
{
	void *mem;
	uint32_t ref = machine_block(m, segment, b->len, &mem);

	memcpy(mem, b->bytes, b->len);
	unwind_block_place(mem, (ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN, MACHINE_GENERATION);
	return ref;
}

/* Mappings are given in ascending order. */
static inline void machine_map(struct machine *m, uint64_t start, uint64_t end, uint64_t bias, uint32_t file,
			       uint32_t table)
{
	cr_assert_lt(m->n_mappings, MACHINE_MAPPINGS);
	m->mappings[m->n_mappings++] =
		(struct mapping_entry){start, end, bias, (uint16_t)file, MACHINE_GENERATION, table};
}

/* The blocks of a table of the rows; the last row only ends it. */
static inline struct unwind_blocks machine_encode(const struct machine_row *rows, size_t n)
{
	_cleanup_free_ struct elf_row *elf = calloc(n, sizeof *elf);
	_cleanup_free_ struct elf_rule *rules = calloc(n, sizeof *rules);
	struct elf_rows table = {.rows = elf, .n_rows = n, .rules = rules, .n_rules = n};
	struct unwind_blocks blocks = {0};

	cr_assert(elf && rules);
	for (size_t i = 0; i < n; i++) {
		elf[i] = (struct elf_row){rows[i].va, (uint32_t)i};
		rules[i] = rows[i].rule;
	}
	cr_assert_eq(unwind_blocks_encode(&blocks, &table, MACHINE_ELF), 0);
	return blocks;
}

/* Maps a file whose table has the rows: block after block, each in the segment that follows. */
static inline void machine_map_table(struct machine *m, uint64_t bias, uint32_t file,
				     const struct machine_row *rows, size_t n)
{
	struct unwind_blocks blocks = machine_encode(rows, n);

	for (size_t i = 0; i < blocks.n; i++) {
		const struct unwind_block *b = &blocks.blocks[i];

		machine_map(m, b->va + bias, b->end + bias, bias, file,
			    machine_place(m, i % MACHINE_SEGMENTS, b));
	}
	unwind_blocks_fini(&blocks);
}

/* Writes the mapping list, as the publisher does. Its ref. */
static inline uint32_t machine_list(struct machine *m, uint32_t segment)
{
	void *mem;
	uint32_t ref = machine_block(m, segment, list_bytes(m->n_mappings), &mem);

	list_write(mem, m->mappings, m->n_mappings, 1, 0);
	return ref;
}

/* As profile() of bpf/profiler.bpf.c before a walk. */
static inline void machine_start(struct machine *m, uint32_t list, uint64_t ip, uint64_t sp, uint64_t fp,
				 uint32_t limit)
{
	m->area.state = (struct unwind_state){
		.ip = ip, .sp = sp, .fp = fp, .list = list, .limit = limit, .innermost = 1};
}

static inline void machine_registers_fill(struct machine *m)
{
	m->n_register_requests++;
	m->area.state.have_regs = 1;
	memcpy(m->area.state.regs, m->regs, sizeof m->regs);
}

#define MACHINE_ROUNDS 33

/* user_rounds() and user_part() of bpf/profiler.bpf.c. */
static inline int machine_rounds(struct machine *m, int next)
{
	for (int i = 0; i < MACHINE_ROUNDS; i++) {
		if (next == NEXT_MAPPING)
			next = unwind_mapping();
		if (next == NEXT_REGISTERS) {
			machine_registers_fill(m);
			next = NEXT_FRAMES;
		}
		if (next == NEXT_FRAMES)
			next = unwind_frames();
		if (next < ENDINGS)
			break;
	}
	return next;
}

static inline int machine_walk(struct machine *m)
{
	int next = NEXT_MAPPING;

	for (int i = 0; i < MACHINE_ROUNDS && next >= ENDINGS; i++)
		next = machine_rounds(m, next);
	return next < ENDINGS ? next : ENDING_DEPTH_LIMIT;
}

#define MACHINE_LAPS 256

/* As sample_end() of bpf/profiler.bpf.c, also beyond the limit. */
static inline int machine_walk_deep(struct machine *m)
{
	int ending = machine_walk(m);

	if (ending != ENDING_DEPTH_LIMIT)
		return ending;
	m->area.state.ring = 0;
	for (int i = 0; i < MACHINE_LAPS && ending == ENDING_DEPTH_LIMIT; i++) {
		unwind_beyond_limit();
		ending = machine_walk(m);
	}
	return unwind_omit(ending);
}

/* List, start and walk in one. */
static inline int machine_unwind(struct machine *m, uint64_t ip, uint64_t sp, uint64_t fp, uint32_t limit)
{
	machine_start(m, machine_list(m, 0), ip, sp, fp, limit);
	return machine_walk(m);
}

static inline const char *ending_text(int ending)
{
	static const char *const texts[] = {
#define X(name, text, complete) text,
		UNWIND_ENDINGS(X)
#undef X
	};

	return ending >= 0 && ending < ENDINGS ? texts[ending] : "no ending";
}

#define expect_ending(got, wanted)                                                                 \
	do {                                                                                       \
		int _got = (got), _wanted = (wanted);                                              \
		cr_expect_eq(_got, _wanted, "%s:%d: ended \"%s\", not \"%s\"", __FILE__, __LINE__, \
			     ending_text(_got), ending_text(_wanted));                             \
	} while (0)

/* Frame i of the record is `file`, `va`. */
#define expect_frame(m, i, file, va)                                                \
	cr_expect_eq((m)->area.frames[i], (uint64_t)(file) << FRAME_VA_BITS | (va), \
		     "%s:%d: frame %u is %#llx", __FILE__, __LINE__, (unsigned)(i), \
		     (unsigned long long)(m)->area.frames[i])

#endif
