// SPDX-License-Identifier: Apache-2.0
/* Methods that HotSpot has compiled (bpf/hotspot.h): in a heap made by hand, with and without rows. */
#include "tests/bpf/machine.h"

#define STACK 0x70000000ull
#define SP (STACK + 0x800)
#define BIAS 0x400000ull
#define LEAF (BIAS + 0x1000) /* CFA sp + 8 */
#define ROOT (BIAS + 0x1400)
#define RA (ROOT + 0x20)
#define HEAP 0x10000000ull
#define HEAP_BYTES 0x40000ull
#define SEGMENTS_AT 0x20000000ull
#define SHIFT 7
#define BLOCK (HEAP + 0x1000)
#define BEGIN (BLOCK + 0x100)
#define COMPLETE 0x20 /* bytes of a prologue */
#define BODY (BEGIN + 0x40)
#define CODE_END (BLOCK + 0x400)
#define GENERATED_FILE 5
#define METHOD_NAME 0x11110
#define NATIVE_NAME 0x22220
#define STUB_NAME 0x33330
#define WORDS 6 /* of the frame */
#define ID 4711
#define UNLOADED (HEAP + 0x100)

static const struct code_heaps heaps = {
	.heaps = {{0x5000, 0x1000, 0x6000}, {HEAP, HEAP_BYTES, SEGMENTS_AT}},
	.method = METHOD_NAME,
	.native = NATIVE_NAME,
	.unloaded = {UNLOADED, UNLOADED + 8},
	.bytes = 0xd0,
	.used = 8,
	.name = 16,
	.compile_id = 0xc8,
	.frame_words = 24,
	.complete = 28,
	.begin = 32,
	.shift = SHIFT,
};

static const struct elf_rule leaf_rule = {
	.cfa_kind = CFA_REG_OFF, .cfa_reg = DWARF_SP, .cfa_off = 16, .ra = RA_AT_CFA};

static void poke_byte(struct machine *m, uint64_t address, uint8_t byte)
{
	for (unsigned i = 0; i < m->n_ranges; i++)
		if (address - m->ranges[i].start < m->ranges[i].len)
			m->ranges[i].bytes[address - m->ranges[i].start] = byte;
}

static void set_segments(struct machine *m)
{
	for (uint64_t at = HEAP; at < HEAP + HEAP_BYTES; at += 1 << SHIFT) {
		const uint64_t i = (at - HEAP) >> SHIFT, first = (BLOCK - HEAP) >> SHIFT;

		poke_byte(m, SEGMENTS_AT + i, at >= BLOCK && at < CODE_END ? (uint8_t)(i - first) : 0xff);
	}
}

static void set_header(struct machine *m, uint64_t name)
{
	machine_poke(m, BLOCK + 8, 0xfffffffffffffe01);
	machine_poke(m, BLOCK + 16, name);
	machine_poke(m, BLOCK + 24, (uint64_t)COMPLETE << 32 | WORDS);
	machine_poke(m, BLOCK + 32, BEGIN);
	machine_poke(m, BLOCK + 0xc8, 0xffffffff00000000ull | ID);
}

/*
 * A method's code, in which every instruction is one of its body. `rule` of the code; kind CFA_NONE: no
 * table.
 */
static struct machine *machine_with_method(struct elf_rule rule)
{
	const struct machine_row native[] = {
		{LEAF - BIAS, leaf_rule}, {ROOT - BIAS, RULE_ROOT}, {ROOT + 0x100 - BIAS, RULE_NONE}};
	const struct machine_row rows[] = {{BEGIN, rule}, {CODE_END, RULE_NONE}};
	struct machine *m = machine_new();

	machine_map_table(m, BIAS, 3, native, ARRAY_SIZE(native));
	if (rule.cfa_kind == CFA_NONE)
		machine_map(m, HEAP, HEAP + HEAP_BYTES, 0, GENERATED_FILE, TABLE_PENDING);
	else
		machine_map_table(m, 0, GENERATED_FILE, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, MACHINE_PAGE);
	machine_memory(m, ROOT, 64);
	machine_memory(m, HEAP, HEAP_BYTES);
	machine_memory(m, SEGMENTS_AT, HEAP_BYTES >> SHIFT);
	machine_poke(m, RA - 8, calls[0].words[0]);
	set_segments(m);
	set_header(m, METHOD_NAME);
	for (uint64_t at = BEGIN; at < CODE_END; at += 8)
		machine_poke(m, at, INSTRUCTION_OF_BODY);
	machine_poke(m, SP + WORDS * 8 - 8, RA);
	machine_poke(m, SP + WORDS * 8 - 16, 0x1234);
	return m;
}

/* As machine_unwind(), of a process with such heaps. */
static int unwind_with(struct machine *m, const struct code_heaps *with, uint64_t ip, uint64_t sp)
{
	void *mem;
	const uint32_t ref = machine_block(m, 0, list_bytes(m->n_mappings) + sizeof *with, &mem);

	list_write(mem, m->mappings, m->n_mappings, 1, 0);
	list_write_heaps(mem, with);
	machine_start(m, ref, ip, sp, 0, 64);
	m->area.state.heaps_at = ref_offset(ref) + ((struct mapping_list *)mem)->heaps;
	m->area.record.flags = 0;
	m->area.record.n_kernel = 0;
	return machine_walk(m);
}

static int unwind(struct machine *m, uint64_t ip, uint64_t sp)
{
	return unwind_with(m, &heaps, ip, sp);
}

static uint64_t word_of(uint64_t words, uint64_t flags)
{
	return frame_native(FRAME_TAG_CODE, words << FRAME_CODE_ID_BITS | ID | flags);
}

#define expect_frames(m, ...)                                                                               \
	do {                                                                                                \
		const uint64_t _wanted[] = {__VA_ARGS__};                                                   \
		cr_expect_eq((m)->area.state.n, ARRAY_SIZE(_wanted), "%u words", (m)->area.state.n);        \
		for (size_t _i = 0; _i < ARRAY_SIZE(_wanted); _i++)                                         \
			cr_expect_eq((m)->area.frames[_i], _wanted[_i], "word %zu is %#llx, not %#llx", _i, \
				     (unsigned long long)(m)->area.frames[_i],                              \
				     (unsigned long long)_wanted[_i]);                                      \
	} while (0)

#define NATIVE(address) frame_native(3, (address) - BIAS)
#define METHOD(address) frame_native(GENERATED_FILE, address)

Test(hotspot, the_frame_of_a_caller_has_the_size_that_its_header_says)
{
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

	machine_poke(m, SP - 8, BODY + 1);
	expect_ending(unwind(m, LEAF, SP - 16), ENDING_ROOT);
	expect_frames(m, NATIVE(LEAF), METHOD(BODY), word_of(WORDS, FRAME_CODE_BY_SIZE), NATIVE(RA - 1));
	cr_expect_eq(m->area.state.fp, 0x1234, "the caller's frame pointer is below the return address");
	cr_expect_eq(m->area.record.flags, 0);
}

/* For a stub, words may have been pushed: a row knows. */
Test(hotspot, the_frame_of_a_caller_of_a_stub)
{
	struct elf_rule rule = RULE_SP(8 * WORDS + 16);

	rule.flags = RULE_COMPILED;
	_cleanup_machine_ struct machine *m = machine_with_method(rule);

	machine_poke(m, SP - 8, BODY + 1);
	machine_poke(m, SP + 8 * WORDS + 8, RA);
	machine_poke(m, SP + 8 * WORDS - 8, 0);
	expect_ending(unwind(m, LEAF, SP - 16), ENDING_ROOT);
	expect_frames(m, NATIVE(LEAF), METHOD(BODY), word_of(WORDS, 0), NATIVE(RA - 1));
	cr_expect_eq(m->area.record.flags, 0, "its stack would be of no use");
}

/* A walk, with the cache, from a leaf that a method has called, of the list of such a number. Its reads. */
static unsigned reads_of_walk(struct machine *m, uint32_t list)
{
	const unsigned before = m->n_reads;

	m->area.record.generation = list;
	expect_ending(unwind(m, LEAF, SP - 16), ENDING_ROOT);
	return m->n_reads - before;
}

#define expect_words(m, words) \
	expect_frames(m, NATIVE(LEAF), METHOD(BODY), word_of(words, FRAME_CODE_BY_SIZE), NATIVE(RA - 1))

Test(hotspot, what_is_known_of_a_method_is_read_once)
{
	struct code_cache cache = {0};
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);
	unsigned first, again;

	m->env.codes = &cache;
	machine_poke(m, SP - 8, BODY + 1);
	first = reads_of_walk(m, 21);
	expect_words(m, WORDS);
	again = reads_of_walk(m, 21);
	expect_words(m, WORDS);
	cr_expect_eq(first - again, 2, "%u reads, then %u", first, again); /* the segment map's */
	cr_expect_eq(reads_of_walk(m, 37), first, "it may be another process");
	expect_words(m, WORDS);
}

/* Its memory is part of a larger free block, of which other code got the end: the header is still there. */
Test(hotspot, a_header_that_nobody_has_overwritten)
{
	const uint64_t other = BLOCK + (2 << SHIFT);
	struct code_cache cache = {0};
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

	m->env.codes = &cache;
	machine_poke(m, SP - 8, BODY + (2 << SHIFT) + 1);
	(void)reads_of_walk(m, 21);
	cr_expect_eq(m->area.frames[2], word_of(WORDS, FRAME_CODE_BY_SIZE));
	machine_poke(m, BLOCK + 8, 0xfffffffffffffe00);
	for (uint64_t at = other; at < CODE_END; at += 1 << SHIFT)
		poke_byte(m, SEGMENTS_AT + ((at - HEAP) >> SHIFT), (uint8_t)((at - other) >> SHIFT));
	machine_poke(m, other + 8, 1);
	machine_poke(m, other + 16, METHOD_NAME);
	machine_poke(m, other + 24, (uint64_t)COMPLETE << 32 | (WORDS + 1));
	machine_poke(m, other + 0xc8, ID + 1);
	machine_poke(m, SP + WORDS * 8, RA);
	(void)reads_of_walk(m, 21);
	cr_expect_eq(m->area.frames[2], word_of(WORDS + 1, FRAME_CODE_BY_SIZE) + 1);
}

/* Its memory was given to another method. */
Test(hotspot, other_code_than_is_known)
{
	struct code_cache cache = {0};
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

	m->env.codes = &cache;
	machine_poke(m, SP - 8, BODY + 1);
	(void)reads_of_walk(m, 21);
	machine_poke(m, BLOCK + 24, (uint64_t)COMPLETE << 32 | (WORDS + 1));
	machine_poke(m, BLOCK + 0xc8, ID + 1);
	machine_poke(m, SP + WORDS * 8, RA);
	(void)reads_of_walk(m, 21);
	cr_expect_eq(m->area.frames[2], word_of(WORDS + 1, FRAME_CODE_BY_SIZE) + 1);
	machine_poke(m, BLOCK + 0xc8, ID);
	set_header(m, STUB_NAME);
	m->area.record.generation = 21;
	expect_ending(unwind(m, LEAF, SP - 16), ENDING_NO_TABLE);
}

/* The cache has no room for the distance to the beginning of such a block. */
Test(hotspot, a_block_that_is_too_large_to_be_kept)
{
	struct code_cache cache = {0};
	struct code_heaps large = heaps;
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);
	const uint64_t end = BLOCK + (2ull << 18);

	large.shift = 18;
	large.heaps[1].low = BLOCK;
	large.heaps[1].bytes = 1ull << 20;
	m->env.codes = &cache;
	m->area.record.generation = 21;
	machine_map(m, HEAP + HEAP_BYTES, BLOCK + (3ull << 18), 0, GENERATED_FILE, TABLE_PENDING);
	for (uint64_t i = 0; i < 3; i++)
		poke_byte(m, SEGMENTS_AT + i, (uint8_t)i);
	machine_poke(m, SP - 8, end + 1);
	expect_ending(unwind_with(m, &large, LEAF, SP - 16), ENDING_ROOT);
	expect_frames(m, NATIVE(LEAF), METHOD(end), word_of(WORDS, FRAME_CODE_BY_SIZE), NATIVE(RA - 1));
	for (size_t i = 0; i < ARRAY_SIZE(cache.entries); i++)
		cr_expect_eq(cache.entries[i].code, 0);
}

/* Rows may be those of the code that was there before: between methods, the size is certain. */
Test(hotspot, the_frame_of_a_caller_of_a_method)
{
	struct elf_rule rule = RULE_SP(8 * WORDS + 64);
	const uint64_t below = SP - 8 * WORDS;

	rule.flags = RULE_COMPILED;
	_cleanup_machine_ struct machine *m = machine_with_method(rule);

	machine_poke(m, below - 8, BODY + 1);
	machine_poke(m, below + 8 * WORDS + 64 - 8, BODY + 9); /* by its row, as of a stub's caller */
	machine_poke(m, SP + 64 + 8 * WORDS - 8, RA);
	expect_ending(unwind(m, LEAF, below - 16), ENDING_ROOT);
	expect_frames(m, NATIVE(LEAF), METHOD(BODY), word_of(WORDS, 0), METHOD(BODY + 8),
		      word_of(WORDS, FRAME_CODE_BY_SIZE | FRAME_CODE_SURE), NATIVE(RA - 1));
}

Test(hotspot, the_own_frame_stands_behind_the_prologue)
{
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

	machine_poke(m, RA - 8, not_calls[0].words[0]); /* as of the interpreter, which calls in other ways */
	expect_ending(unwind(m, BODY, SP), ENDING_ROOT);
	expect_frames(m, METHOD(BODY), word_of(WORDS, FRAME_CODE_BY_SIZE | FRAME_CODE_SURE), NATIVE(RA - 1));
	cr_expect_eq(m->area.record.flags, 0);
}

Test(hotspot, the_own_frame_may_not_stand_in_the_prologue)
{
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

	expect_ending(unwind(m, BEGIN + COMPLETE - 1, SP), ENDING_ROOT);
	expect_frames(m, METHOD(BEGIN + COMPLETE - 1), word_of(WORDS, FRAME_CODE_BY_SIZE), NATIVE(RA - 1));
	cr_expect_eq(m->area.record.flags, SAMPLE_FROM_START, "it was tried");
	cr_expect_eq(m->area.state.first_ip, BEGIN + COMPLETE - 1);
	cr_expect_eq(m->area.state.first_sp, SP);
	machine_poke(m, RA - 8, not_calls[0].words[0]);
	expect_ending(unwind(m, BEGIN + COMPLETE - 1, SP), ENDING_NO_TABLE);
	expect_frames(m, METHOD(BEGIN + COMPLETE - 1));
	cr_expect_eq(m->area.state.pending, TABLE_PENDING);
	cr_expect_eq(m->area.record.flags, 0);
}

Test(hotspot, a_row_for_the_own_frame_counts)
{
	struct elf_rule rule = RULE_SP(16);

	rule.flags = RULE_COMPILED;
	_cleanup_machine_ struct machine *m = machine_with_method(rule);

	machine_poke(m, SP + 8, RA);
	expect_ending(unwind(m, BODY, SP), ENDING_ROOT);
	expect_frames(m, METHOD(BODY), word_of(WORDS, 0), NATIVE(RA - 1));
	cr_expect_eq(m->area.record.flags, SAMPLE_FROM_START, "it may be a row of other code");
}

Test(hotspot, a_row_that_agrees)
{
	struct elf_rule rule = RULE_SP(8 * WORDS);

	rule.flags = RULE_COMPILED;
	rule.fp = (struct elf_reg_rule){.kind = REG_CFA_OFF, .off = -16};
	_cleanup_machine_ struct machine *m = machine_with_method(rule);

	expect_ending(unwind(m, BODY, SP), ENDING_ROOT);
	expect_frames(m, METHOD(BODY), word_of(WORDS, FRAME_CODE_BY_SIZE | FRAME_CODE_SURE), NATIVE(RA - 1));
	expect_ending(unwind(m, BEGIN + 8, SP), ENDING_ROOT);
	expect_frames(m, METHOD(BEGIN + 8), word_of(WORDS, FRAME_CODE_BY_SIZE), NATIVE(RA - 1));
	cr_expect_eq(m->area.record.flags, 0);
}

/* Without heaps, rows of methods are right as they are: their callers may be interpreted. */
Test(hotspot, rows_alone)
{
	struct elf_rule rule = RULE_SP(8 * WORDS);

	rule.flags = RULE_COMPILED;
	_cleanup_machine_ struct machine *m = machine_with_method(rule);

	machine_poke(m, RA - 8, not_calls[0].words[0]);
	expect_ending(machine_unwind(m, BODY, SP, 0, 64), ENDING_ROOT);
	expect_frames(m, METHOD(BODY), NATIVE(RA - 1));
}

Test(hotspot, what_calls_a_native_method_is_stepped_by_its_row)
{
	struct elf_rule rule = RULE_SP(32);

	rule.flags = RULE_COMPILED;
	_cleanup_machine_ struct machine *m = machine_with_method(rule);

	set_header(m, NATIVE_NAME);
	machine_poke(m, SP + 24, RA);
	machine_poke(m, SP - 8, BODY + 1);
	expect_ending(unwind(m, LEAF, SP - 16), ENDING_ROOT);
	expect_frames(m, NATIVE(LEAF), METHOD(BODY), word_of(0, 0), NATIVE(RA - 1));
}

/* As JDK 25 has it: 16 bits, and where the code begins is an offset. */
Test(hotspot, another_header)
{
	struct code_heaps other = heaps;
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

	other.complete = 30 | CODE_SHORT;
	other.origin = 16;
	machine_poke(m, BLOCK + 24, (uint64_t)COMPLETE << 48 | 0x1234ull << 32 | WORDS);
	machine_poke(m, BLOCK + 32, 0xffffffff00000000ull | (BEGIN - BLOCK - 16));
	expect_ending(unwind_with(m, &other, BODY, SP), ENDING_ROOT);
	expect_frames(m, METHOD(BODY), word_of(WORDS, FRAME_CODE_BY_SIZE | FRAME_CODE_SURE), NATIVE(RA - 1));
	expect_ending(unwind_with(m, &other, BEGIN + COMPLETE - 1, SP), ENDING_ROOT);
	cr_expect_eq(m->area.frames[1], word_of(WORDS, FRAME_CODE_BY_SIZE));
	/* a method that is entered in a loop has no such place */
	machine_poke(m, BLOCK + 24, 0x1234ull << 32 | WORDS);
	expect_ending(unwind_with(m, &other, BODY, SP), ENDING_ROOT);
	cr_expect_eq(m->area.frames[1], word_of(WORDS, FRAME_CODE_BY_SIZE));
}

static void no_code(struct machine *m)
{
	poke_byte(m, SEGMENTS_AT + ((BODY - HEAP) >> SHIFT), 0xff);
}

static void a_stub(struct machine *m)
{
	set_header(m, STUB_NAME);
}

static void no_name(struct machine *m)
{
	set_header(m, 0);
}

static void before_the_heap(struct machine *m)
{
	poke_byte(m, SEGMENTS_AT + ((BODY - HEAP) >> SHIFT), 0xfe);
}

static void not_in_use(struct machine *m)
{
	machine_poke(m, BLOCK + 8, 2);
}

static void no_frame(struct machine *m)
{
	machine_poke(m, BLOCK + 24, (uint64_t)COMPLETE << 32);
}

static void a_huge_frame(struct machine *m)
{
	machine_poke(m, BLOCK + 24, (uint64_t)COMPLETE << 32 | 1u << FRAME_CODE_WORDS_BITS);
}

static void in_a_circle(struct machine *m)
{
	for (uint64_t i = 0; i < HEAP_BYTES >> SHIFT; i++)
		poke_byte(m, SEGMENTS_AT + i, 1);
}

Test(hotspot, other_code_waits_for_its_rows)
{
	static void (*const cases[])(struct machine *m) = {
		no_code, a_stub, no_name, before_the_heap, not_in_use, no_frame, a_huge_frame, in_a_circle};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

		cases[i](m);
		expect_ending(unwind(m, BODY, SP), ENDING_NO_TABLE);
		expect_frames(m, METHOD(BODY));
		cr_expect_eq(m->area.state.pending, TABLE_PENDING, "case %zu", i);
	}
}

/* The map has at most 254 in a byte, so that it takes more than one hop to the beginning of a large block. */
Test(hotspot, a_large_block)
{
	const uint64_t ip = BLOCK + (600ull << SHIFT) + 0x10;
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

	for (uint64_t i = 0; i <= 600; i++)
		poke_byte(m, SEGMENTS_AT + ((BLOCK - HEAP) >> SHIFT) + i,
			  (uint8_t)(i ? (i - 1) % 254 + 1 : 0));
	machine_poke(m, SP - 8, ip + 1);
	expect_ending(unwind(m, LEAF, SP - 16), ENDING_ROOT);
	expect_frames(m, NATIVE(LEAF), METHOD(ip), word_of(WORDS, FRAME_CODE_BY_SIZE), NATIVE(RA - 1));
}

Test(hotspot, a_header_that_cannot_be_read)
{
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

	machine_fault_at(m, BLOCK + 0x80, 8);
	expect_ending(unwind(m, BODY, SP), ENDING_NO_TABLE);
}

Test(hotspot, what_is_left_of_a_frame_in_its_epilogue)
{
	for (size_t i = 0; i < ARRAY_SIZE(epilogues); i++) {
		_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

		machine_poke(m, BODY, epilogues[i].code);
		machine_poke(m, SP + epilogues[i].words * 8 - 8, RA);
		expect_ending(unwind(m, BODY, SP), ENDING_ROOT);
		cr_expect_eq(m->area.frames[1],
			     word_of(epilogues[i].words,
				     FRAME_CODE_BY_SIZE | (epilogues[i].is_sure ? FRAME_CODE_SURE : 0)),
			     "%s: %#llx", epilogues[i].name, (unsigned long long)m->area.frames[1]);
	}
}

Test(hotspot, classes_that_were_unloaded)
{
	_cleanup_machine_ struct machine *m = machine_with_method(RULE_NONE);

	machine_poke(m, UNLOADED, 17);
	machine_poke(m, UNLOADED + 8, 3);
	expect_ending(unwind(m, BODY, SP), ENDING_ROOT);
	cr_expect_eq(hotspot_unloaded(), 21);
	machine_fault_at(m, UNLOADED + 8, 8);
	cr_expect_eq(hotspot_unloaded(), 0, "not known");
	m->area.state.heaps_at = 0;
	cr_expect_eq(hotspot_unloaded(), 0, "it has no heaps");
}
