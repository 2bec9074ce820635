// SPDX-License-Identifier: Apache-2.0
/* Whole stacks: windows over pages that are there or not, depths, changes of mapping, and every ending. */
#include "tests/bpf/machine.h"

#define STACK 0x70000000ull
#define BIAS 0x400000ull
#define FILE_INDEX 9
#define CODE (BIAS + 0x1000)
#define ROOT (BIAS + 0x2000)
#define OTHER_BIAS 0x800000ull
#define OTHER_FILE 10
#define OTHER (OTHER_BIAS + 0x5000)
#define NOWHERE 0x123000ull

/* Code with frames of `frame` bytes in two files, and a root. */
static struct machine *machine_with_frames(int32_t frame)
{
	struct machine *m = machine_new();
	const struct machine_row rows[] = {
		{CODE - BIAS, RULE_SP(frame)}, {ROOT - BIAS, RULE_ROOT}, {ROOT - BIAS + 64, RULE_NONE}};
	const struct machine_row other[] = {{OTHER - OTHER_BIAS, RULE_SP(frame)},
					    {OTHER - OTHER_BIAS + 64, RULE_NONE}};

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_map_table(m, OTHER_BIAS, OTHER_FILE, other, ARRAY_SIZE(other));
	return m;
}

/* Writes `n` - 1 return addresses, `frame` bytes apart, the last one the root's. n frames with the leaf. */
static void stack_write(struct machine *m, uint64_t sp, int32_t frame, unsigned n, bool alternate)
{
	for (unsigned i = 1; i < n; i++) {
		uint64_t caller = alternate && i % 2 ? OTHER : CODE;

		machine_poke(m, sp + (uint64_t)frame * i - 8, (i + 1 == n ? ROOT : caller + i % 32) + 1);
	}
}

/* ---- depth */

struct depth_case {
	unsigned n, limit;
	bool alternate; /* every frame in another mapping than the one before */
	int ending;
	unsigned frames;
};

static const struct depth_case depths[] = {
	{1, 512, false, ENDING_ROOT, 1},
	{2, 512, false, ENDING_ROOT, 2},
	{5, 512, false, ENDING_ROOT, 5},
	{20, 512, false, ENDING_ROOT, 20},
	{140, 512, false, ENDING_ROOT, 140},
	{400, 512, false, ENDING_ROOT, 400},
	{512, 512, false, ENDING_ROOT, 512},
	{513, 512, false, ENDING_DEPTH_LIMIT, 512},
	{600, 512, false, ENDING_DEPTH_LIMIT, 512},
	{1024, 1024, false, ENDING_ROOT, 1024},
	{400, 512, true, ENDING_ROOT, 400},
	{1024, 1024, true, ENDING_ROOT, 1024},
	{1025, 1024, true, ENDING_DEPTH_LIMIT, 1024},
};

Test(walk, depth)
{
	for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
		const struct depth_case *c = &depths[i];
		_cleanup_machine_ struct machine *m = machine_with_frames(48);
		uint64_t sp = STACK + 0x100;

		machine_memory(m, STACK, 64 * 1024);
		stack_write(m, sp, 48, c->n, c->alternate);
		expect_ending(machine_unwind(m, c->n == 1 ? ROOT : CODE, sp, 0, c->limit), c->ending);
		cr_expect_eq(m->area.state.n, c->frames, "%u deep: %u frames", c->n, m->area.state.n);
		for (unsigned k = 1; k + 1 < c->frames; k++) {
			if (c->alternate && k % 2)
				expect_frame(m, k, OTHER_FILE, OTHER - OTHER_BIAS + k % 32);
			else
				expect_frame(m, k, FILE_INDEX, CODE - BIAS + k % 32);
		}
	}
}

/* ---- windows */

/* The stack is read in windows, not word by word: about one read for each 1024 - 56 bytes. */
Test(walk, reads_are_few)
{
	_cleanup_machine_ struct machine *m = machine_with_frames(64);
	unsigned n = 400;

	machine_memory(m, STACK, 16 * MACHINE_PAGE);
	stack_write(m, STACK, 64, n, false);
	expect_ending(machine_unwind(m, CODE, STACK, 0, 512), ENDING_ROOT);
	cr_expect_eq(m->area.state.n, n);
	cr_expect_leq(m->n_reads, n * 64 / (WINDOW_BYTES - 64) + 2, "%u reads", m->n_reads);
}

struct window_case {
	const char *name;
	uint64_t sp; /* from STACK on; pages 0 to 3 */
	int32_t frame;
	unsigned n;	/* frames on the stack */
	uint64_t fault; /* the page that cannot be read; 0: none */
	int ending;
	unsigned frames;
};

static const struct window_case windows[] = {
	{"a stack over three pages", 0x10, 256, 40, 0, ENDING_ROOT, 40},
	{"frames larger than the window", 0x10, 2048, 6, 0, ENDING_ROOT, 6},
	{"frames as large as a page", 0x10, 4096, 3, 0, ENDING_ROOT, 3},
	/* 16 frames of 256 bytes from 0x1000 on: return addresses at 0x10f8 … 0x1ff8 */
	{"the next page is not there, frames go on", 0x1000, 256, 40, 0x2000, ENDING_READ_FAULT, 17},
	{"the next page is not there, the last word holds the root", 0x1000, 256, 17, 0x2000, ENDING_ROOT,
	 17},
	{"the last word is all there is of the page", 0x1ff8, 8, 2, 0x2000, ENDING_ROOT, 2},
	{"the page before is not there", 0x2000, 16, 3, 0x1000, ENDING_ROOT, 3},
	{"the page before is not there, 56 bytes in", 0x2000, 64, 3, 0x1000, ENDING_ROOT, 3},
	{"the return address is past the page that is there", 0x1ff0, 32, 3, 0x2000, ENDING_READ_FAULT, 1},
	{"the page is not there at all", 0x1000, 32, 3, 0x1000, ENDING_READ_FAULT, 1},
};

Test(walk, windows)
{
	for (size_t i = 0; i < ARRAY_SIZE(windows); i++) {
		const struct window_case *c = &windows[i];
		_cleanup_machine_ struct machine *m = machine_with_frames(c->frame);
		int ending;

		machine_memory(m, STACK, 4 * MACHINE_PAGE);
		stack_write(m, STACK + c->sp, c->frame, c->n, false);
		/* what a window held before must not be taken for what it holds now */
		for (size_t k = 0; k < WINDOW_BYTES; k += 8)
			memcpy(m->area.window + k, &(uint64_t){CODE + 0x11}, 8);
		if (c->fault)
			machine_fault_at(m, STACK + c->fault, MACHINE_PAGE);
		ending = machine_unwind(m, CODE, STACK + c->sp, 0, 512);
		cr_expect_eq(ending, c->ending, "%s: ended \"%s\", not \"%s\"", c->name, ending_text(ending),
			     ending_text(c->ending));
		cr_expect_eq(m->area.state.n, c->frames, "%s: %u frames", c->name, m->area.state.n);
		if (c->fault &&
		    c->fault < (c->sp & ~4095ull)) { /* a page below the stack is nobody's business */
			cr_expect_eq(m->faults[0].hits, 0, "%s: touched", c->name);
			m->n_faults = 0;
		}
	}
}

/* ---- endings */

Test(walk, no_area)
{
	_cleanup_machine_ struct machine *m = machine_new();

	m->env.area = NULL;
	cr_expect_eq(unwind_mapping(), ENDING_NO_PROCESS);
	cr_expect_eq(unwind_frames(), ENDING_NO_PROCESS);
	cr_expect_eq(unwind_rare(), ENDING_NO_PROCESS);
	cr_expect_eq(unwind_rare_registers(), ENDING_NO_PROCESS);
}

Test(walk, segments_missing)
{
	_cleanup_machine_ struct machine *m = machine_with_frames(32);

	machine_start(m, MACHINE_SEGMENTS << REF_OFFSET_BITS, CODE, STACK, 0, 512);
	expect_ending(machine_walk(m), ENDING_NO_PROCESS);
	m->mappings[0].table = MACHINE_SEGMENTS << REF_OFFSET_BITS;
	expect_ending(machine_unwind(m, CODE, STACK, 0, 512), ENDING_NO_TABLE);
	m->area.state.segment = MACHINE_SEGMENTS;
	cr_expect_eq(unwind_frames(), ENDING_NO_TABLE);
}

Test(walk, no_mapping)
{
	static const uint64_t ips[] = {0, NOWHERE, CODE - 1, ROOT + 64, OTHER - 1, OTHER + 64, ~0ull - 1};

	for (size_t i = 0; i < ARRAY_SIZE(ips); i++) {
		_cleanup_machine_ struct machine *m = machine_with_frames(32);

		expect_ending(machine_unwind(m, ips[i], STACK, 0, 512), ENDING_NO_MAPPING);
		cr_expect_eq(m->area.state.n, 0);
	}
}

/* The list's padding is ~0: an ip of ~0 must not find it. */
Test(walk, highest_address)
{
	_cleanup_machine_ struct machine *m = machine_with_frames(32);

	expect_ending(machine_unwind(m, ~0ull, STACK, 0, 512), ENDING_NO_ROOT);
	cr_expect_eq(m->area.state.n, 0);
}

Test(walk, caller_in_no_mapping)
{
	_cleanup_machine_ struct machine *m = machine_with_frames(32);

	machine_memory(m, STACK, MACHINE_PAGE);
	machine_poke(m, STACK + 24, NOWHERE);
	expect_ending(machine_unwind(m, CODE, STACK, 0, 512), ENDING_NO_MAPPING);
	cr_expect_eq(m->area.state.n, 1);
}

/* Kernel frames stand before the user's: the walk goes on behind them, and its limit counts from there. */
Test(walk, behind_kernel_frames)
{
	_cleanup_machine_ struct machine *m = machine_with_frames(32);
	uint64_t kernel = 0xffffffff81000000ull;

	machine_memory(m, STACK, 16 * MACHINE_PAGE);
	stack_write(m, STACK, 32, 40, false);
	machine_start(m, machine_list(m, 0), CODE, STACK, 0, KERNEL_FRAMES_MAX + 20);
	for (unsigned i = 0; i < KERNEL_FRAMES_MAX; i++)
		m->area.frames[i] = kernel + i;
	m->area.state.n = KERNEL_FRAMES_MAX;
	expect_ending(machine_walk(m), ENDING_DEPTH_LIMIT);
	cr_expect_eq(m->area.state.n, KERNEL_FRAMES_MAX + 20);
	cr_expect_eq(m->area.frames[KERNEL_FRAMES_MAX - 1], kernel + KERNEL_FRAMES_MAX - 1);
	expect_frame(m, KERNEL_FRAMES_MAX, FILE_INDEX, CODE - BIAS);
}

/* A handler on a signal stack, over code on the thread's stack, which lies lower. */
Test(walk, through_a_signal_handler)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const uint64_t alt = STACK + 0x8000, trampoline = BIAS + 0x3000;
	const struct machine_row rows[] = {{CODE - BIAS, RULE_SP(16)},
					   {ROOT - BIAS, RULE_ROOT},
					   {trampoline - BIAS - 1, {.cfa_kind = CFA_SIGNAL}},
					   {trampoline - BIAS + 9, RULE_NONE}};

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, 16 * MACHINE_PAGE);
	machine_poke(m, alt + 8, trampoline); /* the handler returns to the trampoline */
	machine_poke(m, alt + 16 + FRAME_SP, STACK + 0x100);
	machine_poke(m, alt + 16 + FRAME_IP, CODE + 0x40);
	machine_poke(m, STACK + 0x108, ROOT + 1);
	expect_ending(machine_unwind(m, CODE + 0x80, alt, 0, 512), ENDING_ROOT);
	cr_assert_eq(m->area.state.n, 4);
	expect_frame(m, 0, FILE_INDEX, CODE - BIAS + 0x80);
	expect_frame(m, 1, FILE_INDEX, trampoline - BIAS - 1);
	expect_frame(m, 2, FILE_INDEX, CODE - BIAS + 0x40); /* not a return address: not minus 1 */
	expect_frame(m, 3, FILE_INDEX, ROOT - BIAS);
}

/* Two stacks, between which frames lead to and fro by the frame pointer: once is a switch, twice is none. */
Test(walk, another_stack_once)
{
	static const int endings[] = {ENDING_ROOT, ENDING_BAD_CFA};

	for (unsigned again = 0; again < 2; again++) {
		_cleanup_machine_ struct machine *m = machine_new();
		const uint64_t low = STACK, high = STACK + 0x8000;
		const struct machine_row rows[] = {
			{CODE - BIAS, RULE_FP(16)}, {ROOT - BIAS, RULE_ROOT}, {ROOT - BIAS + 64, RULE_NONE}};

		machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
		machine_memory(m, STACK, 16 * MACHINE_PAGE);
		machine_poke(m, high + 0x10, low + 0x10); /* fp and return address of the first frame: down */
		machine_poke(m, high + 0x18, CODE + 1);
		machine_poke(m, low + 0x10, high + 0x40); /* ... of the second: up again, less than a leap */
		machine_poke(m, low + 0x18, CODE + 2);
		machine_poke(m, high + 0x40, low + 0x80); /* ... of the third: down a second time */
		machine_poke(m, high + 0x48, again ? CODE + 3 : ROOT + 1);
		expect_ending(machine_unwind(m, CODE, high, high + 0x10, 512), endings[again]);
		cr_expect_eq(m->area.state.n, 4);
	}
}

/* A switch that leads to no code was none. */
Test(walk, another_stack_that_is_none)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {{CODE - BIAS, RULE_FP(16)}, {CODE - BIAS + 64, RULE_NONE}};

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, 16 * MACHINE_PAGE);
	machine_poke(m, STACK + 0x18, NOWHERE);
	expect_ending(machine_unwind(m, CODE, STACK + 0x8000, STACK + 0x10, 512), ENDING_BAD_CFA);
	cr_expect_eq(m->area.state.n, 1);
}

/* Where registers are all known last: what user space walks from again when a rule is unsupported. */
Test(walk, the_frame_with_all_registers)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const uint64_t trampoline = BIAS + 0x3000, frame = STACK + 16;
	const struct machine_row rows[] = {{CODE - BIAS, RULE_SP(16)},
					   {ROOT - BIAS, {.cfa_kind = CFA_UNSUPPORTED}},
					   {trampoline - BIAS - 1, {.cfa_kind = CFA_SIGNAL}},
					   {trampoline - BIAS + 9, RULE_NONE}};

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, 16 * MACHINE_PAGE);
	machine_poke(m, STACK + 8, trampoline);
	machine_poke(m, frame + FRAME_PRESERVED, 0xb0b);
	machine_poke(m, frame + FRAME_SP, STACK + 0x800);
	machine_poke(m, frame + FRAME_IP, CODE + 0x40);
	machine_poke(m, STACK + 0x808, ROOT + 1);
	expect_ending(machine_unwind(m, CODE, STACK, 0, 512), ENDING_UNSUPPORTED_RULE);
	cr_expect_eq(m->area.state.n, 4);
	cr_expect_eq(m->area.state.n_before, 2, "handler and trampoline");
	cr_expect_eq(m->area.state.regs[DWARF_PRESERVED], 0xb0b);
	cr_expect_eq(m->area.state.regs[REGISTER_SP], STACK + 0x800);
	cr_expect_eq(m->area.state.regs[REGISTER_IP], CODE + 0x40);
	cr_expect_eq(m->area.state.ip, ROOT, "the frame to step from");
	cr_expect_eq(m->area.state.sp, STACK + 0x810);
}
