// SPDX-License-Identifier: Apache-2.0
/*
 * Stacks deeper than the limit: the innermost and the outermost frames, and between them how many were
 * omitted. Every frame has an address of its own, so that each one in the record is known by its depth.
 */
#include "tests/bpf/machine.h"

#define STACK 0x70000000ull
#define BIAS 0x400000ull
#define FILE_INDEX 9
#define CODE (BIAS + 0x1000)
#define CODE_BYTES 0x40000ull
#define ROOT (CODE + CODE_BYTES) /* outermost */
#define HARD (ROOT + 64)	 /* with a rule that a table cannot hold */
#define TRAMPOLINE (ROOT + 128)	 /* out of a signal handler */
#define FRAME 16

static struct machine *machine_with_code(uint32_t frames)
{
	struct machine *m = machine_new();
	const struct machine_row rows[] = {{CODE - BIAS, RULE_SP(FRAME)},
					   {ROOT - BIAS, RULE_ROOT},
					   {HARD - BIAS, {.cfa_kind = CFA_UNSUPPORTED}},
					   {TRAMPOLINE - BIAS - 1, {.cfa_kind = CFA_SIGNAL}},
					   {TRAMPOLINE - BIAS + 9, RULE_NONE}};

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, ((uint64_t)frames + 64) * FRAME + MACHINE_PAGE);
	return m;
}

/* The code of the frame at a depth, the leaf's being 0. */
static uint64_t code_of(uint32_t depth)
{
	return CODE + depth % CODE_BYTES;
}

/*
 * Writes the return addresses of frames `from` to `to` - 1 in front of the stack pointer that frame `from` -
 * 1 has; the last one is `outermost`. Returns the stack pointer of the last.
 */
static uint64_t stack_write(struct machine *m, uint64_t sp, uint32_t from, uint32_t to, uint64_t outermost)
{
	for (uint32_t i = from; i < to; i++) {
		sp += FRAME;
		machine_poke(m, sp - 8, (i + 1 == to ? outermost : code_of(i)) + 1);
	}
	return sp;
}

static uint64_t word_of(uint64_t ip)
{
	return frame_native(FILE_INDEX, ip - BIAS);
}

/* Starts behind so many words of the kernel. */
static void start(struct machine *m, uint64_t ip, uint32_t n_kernel, uint32_t limit)
{
	machine_start(m, machine_list(m, 0), ip, STACK, 0, n_kernel + limit);
	for (uint32_t i = 0; i < n_kernel; i++)
		m->area.frames[i] = frame_native(FRAME_TAG_KERNEL, i);
	m->area.state.n = m->area.state.n_before = n_kernel;
	m->area.record.n_kernel = (uint8_t)n_kernel;
}

/* The record has of `n` frames those that it can have, the outermost of which is `outermost`. */
static void expect_frames(const struct machine *m, uint32_t n, uint32_t n_kernel, uint32_t limit,
			  uint64_t outermost)
{
	const uint64_t *words = (const uint64_t *)m->area.frames;
	uint32_t inner = n > limit ? limit / 2 : n, outer = n > limit ? limit - inner - 1 : 0, wrong = 0;

	cr_assert_eq(m->area.state.n, n_kernel + (n > limit ? limit : n), "%u of %u: %u words", limit, n,
		     m->area.state.n);
	for (uint32_t i = 0; i < n_kernel; i++)
		wrong += words[i] != frame_native(FRAME_TAG_KERNEL, i);
	for (uint32_t i = 0; i < inner; i++)
		wrong += words[n_kernel + i] != word_of(i + 1 == n ? outermost : code_of(i));
	for (uint32_t i = n - outer; i < n; i++)
		wrong += words[n_kernel + limit + i - n] != word_of(i + 1 == n ? outermost : code_of(i));
	cr_expect_eq(wrong, 0, "%u of %u, behind %u: %u wrong", limit, n, n_kernel, wrong);
	cr_expect_eq(m->area.record.flags, n > limit ? SAMPLE_OMITTED : 0);
	if (n > limit)
		cr_expect_eq(words[n_kernel + inner], frame_omitted(n - inner - outer), "%u of %u: %#llx",
			     limit, n, (unsigned long long)words[n_kernel + inner]);
}

static void check_depth(uint32_t n, uint32_t n_kernel, uint32_t limit)
{
	_cleanup_machine_ struct machine *m = machine_with_code(n);

	stack_write(m, STACK, 1, n, ROOT);
	start(m, CODE, n_kernel, limit);
	expect_ending(machine_walk_deep(m), ENDING_ROOT);
	expect_frames(m, n, n_kernel, limit, ROOT);
}

/* Around every place where something changes: the limit, the first lap and its end, those after it. */
Test(deep, every_depth)
{
	static const uint32_t limits[] = {16, 17, 64, 512, 1023, 1024};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const uint32_t limit = limits[i], half = limit / 2;
		const uint32_t around[] = {limit,
					   limit + half,
					   limit + RING_FRAMES,
					   limit + RING_FRAMES + half,
					   limit + 2 * RING_FRAMES,
					   5000};

		for (size_t k = 0; k < ARRAY_SIZE(around); k++)
			for (uint32_t n = around[k] - 2; n <= around[k] + 2; n++) {
				check_depth(n, 0, limit);
				check_depth(n, KERNEL_FRAMES_MAX, limit);
			}
	}
}

Test(deep, very_deep)
{
	check_depth(100000, 3, 512);
	check_depth(MACHINE_LAPS * RING_FRAMES + 512, 0, 512);
}

/* Where a walk is given up, the outermost frames are not known: the innermost ones are all there is. */
Test(deep, too_deep)
{
	const uint32_t n = MACHINE_LAPS * RING_FRAMES + 512 + 1;
	_cleanup_machine_ struct machine *m = machine_with_code(n);

	stack_write(m, STACK, 1, n, ROOT);
	start(m, CODE, 5, 512);
	expect_ending(machine_walk_deep(m), ENDING_DEPTH_LIMIT);
	expect_frames(m, 512, 5, 512, code_of(511));
}

/* The ending is that of the outermost frame. */
Test(deep, incomplete)
{
	for (uint32_t n = 510; n < 1100; n++) {
		_cleanup_machine_ struct machine *m = machine_with_code(n);

		stack_write(m, STACK, 1, n, HARD);
		start(m, CODE, 2, 512);
		expect_ending(machine_walk_deep(m), ENDING_UNSUPPORTED_RULE);
		expect_frames(m, n, 2, 512, HARD);
		cr_expect_eq(m->area.state.ip, HARD, "where user space goes on");
		cr_expect_eq(m->area.state.n_before, n > 512 ? N_BEFORE_NONE : 2u, "%u", n);
	}
}

/*
 * A handler interrupted a recursion. The registers at the interrupted frame are of use only if all frames
 * from there on are in the record.
 */
Test(deep, signal)
{
	const uint32_t limit = 512, outer = limit - limit / 2 - 1;
	unsigned of_use = 0;

	for (uint32_t handlers = 1; handlers < 1600; handlers += 533) {
		for (uint32_t n = handlers + 3; n < 2000; n += 37) {
			_cleanup_machine_ struct machine *m = machine_with_code(n + 64);
			uint64_t sp = stack_write(m, STACK, 1, handlers, code_of(handlers - 1));

			/* frame `handlers` is the trampoline, the next one was interrupted */
			machine_poke(m, sp + 8, TRAMPOLINE);
			sp += FRAME;
			machine_poke(m, sp + FRAME_SP, sp + 1024);
			machine_poke(m, sp + FRAME_IP, code_of(handlers + 1));
			stack_write(m, sp + 1024, handlers + 2, n, HARD);
			start(m, CODE, 0, limit);
			expect_ending(machine_walk_deep(m), ENDING_UNSUPPORTED_RULE);
			cr_assert_eq(m->area.state.n, n < limit ? n : limit);
			if (n <= limit)
				cr_expect_eq(m->area.state.n_before, handlers + 1);
			else if (m->area.state.n_before != N_BEFORE_NONE && ++of_use)
				cr_expect(n - (handlers + 1) <= outer &&
						  m->area.state.n_before == limit - (n - (handlers + 1)) &&
						  m->area.frames[m->area.state.n_before] ==
							  word_of(code_of(handlers + 1)),
					  "%u, %u: %u", handlers, n, m->area.state.n_before);
		}
	}
	cr_expect_gt(of_use, 5);
}

/* User space goes on with a record whose middle is omitted; what it omits comes on top. */
Test(deep, continued)
{
	const uint32_t limit = 64, first = 700;

	for (uint32_t n = first + 2; n < first + 2000; n += 61) {
		_cleanup_machine_ struct machine *m = machine_with_code(n);
		struct unwind_state *t = &m->area.state;

		stack_write(m, STACK, 1, n, ROOT);
		machine_fault_at(m, STACK + (uint64_t)first * FRAME, FRAME);
		start(m, CODE, 1, limit);
		expect_ending(machine_walk_deep(m), ENDING_READ_FAULT);
		cr_assert_eq(t->n, limit + 1);
		m->faults[0].start = m->faults[0].end = 0; /* it can be read now */
		*t = (struct unwind_state){.ip = t->ip,
					   .sp = t->sp,
					   .list = t->list,
					   .n = t->n - 1, /* the last frame once more */
					   .n_before = N_BEFORE_NONE,
					   .limit = limit + 1};
		expect_ending(machine_walk_deep(m), ENDING_ROOT);
		expect_frames(m, n, 1, limit, ROOT);
	}
}

Test(deep, no_area)
{
	_cleanup_machine_ struct machine *m = machine_new();

	m->env.area = NULL;
	unwind_beyond_limit();
	unwind_unroll(0);
	cr_expect_eq(unwind_omit(ENDING_ROOT), ENDING_ROOT);
}
