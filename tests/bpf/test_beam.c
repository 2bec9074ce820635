// SPDX-License-Identifier: Apache-2.0
/* Code of Erlang's virtual machine that has gone over to its thread's stack, to run C code or none. */
#include "tests/bpf/machine.h"

#define STACK 0x70000000ull /* of the thread */
#define SP (STACK + 0x400)
#define ERLANG 0x71000000ull /* of the process */
#define TOP (ERLANG + 0x800)
#define OTHER (ERLANG + 0x900) /* of another process */
#define PROCESS 0x72000000ull
#define SECOND 0x72000800ull
#define BIAS 0x400000ull
#define FILE_INDEX 3
#define KEPT (BIAS + 0x1000)	/* CFA *(r13 + 88) + 24; a C function has saved r13 at the second word */
#define SEARCH (BIAS + 0x1100)	/* the same, by a C function that is not known */
#define ALIGNED (BIAS + 0x1200) /* sp + 128 and up to 48 more */
#define C_CODE (BIAS + 0x1300)	/* CFA sp + 64 */
#define LEAF (BIAS + 0x1400)	/* CFA sp + 8 */
#define ROOT (BIAS + 0x1500)
#define STUB (BIAS + 0x1600)
#define RECORD (BIAS + 0x1700)	/* as SEARCH, with a frame record 16 bytes below the CFA */
#define UNKNOWN (BIAS + 0x1780) /* as SEARCH, of which it is not known where it begins */
#define PID 0x3c3ull
#define DEPTH 24
#define INTO_C (SP + 64) /* the stack pointer at a call of C code */
#define CALL 0xe8ull

struct beam_case {
	const char *name;
	uint64_t ip;
	struct {
		uint64_t address, value;
	} words[8];
	uint64_t r13, fp;
	int ending;
	unsigned n;
};

/* A process with a frame on top whose return address is `ra`. */
#define RUNS(process, top, ra)                                    \
	{(process), PID}, {(process) + BEAM_PROCESS_STOP, (top)}, \
	{                                                         \
		(top) + DEPTH - 8, (ra)                           \
	}

static uint64_t call_of(uint64_t from, uint64_t to)
{
	return CALL << 24 | (uint64_t)(uint32_t)(to - from) << 32;
}

/*
 * Return addresses behind a call of SEARCH, of a jump to it, of something else; behind no call; behind a call
 * of what begins little before it, and of UNKNOWN.
 */
#define HERE (ROOT + 0x20)
#define BY_STUB (ROOT + 0x40)
#define ELSE (ROOT + 0x60)
#define NO_CALL (ROOT + 0x80)
#define NEAR (ROOT + 0xa0)
#define OF_UNKNOWN (ROOT + 0xc0)

static const struct beam_case cases[] = {
	{"the innermost frame: the register", .ip = KEPT, .r13 = PROCESS, .words = {RUNS(PROCESS, TOP, ELSE)},
	 .ending = ENDING_ROOT, .n = 2},
	{"the register is no process", .ip = KEPT, .r13 = PROCESS + 8, .words = {RUNS(PROCESS, TOP, ELSE)},
	 .ending = ENDING_NO_ROW, .n = 1},
	{"no process runs", .ip = KEPT, .ending = ENDING_NO_ROW, .n = 1},
	{"its number is another term", .ip = KEPT, .r13 = PROCESS,
	 .words = {RUNS(PROCESS, TOP, ELSE), {PROCESS, PID + 1}}, .ending = ENDING_NO_ROW, .n = 1},
	{"a return address behind no call", .ip = KEPT, .r13 = PROCESS,
	 .words = {RUNS(PROCESS, TOP, NO_CALL)}, .ending = ENDING_NO_CALL, .n = 1},
	{"a stack pointer that is none", .ip = KEPT, .r13 = PROCESS, .words = {RUNS(PROCESS, TOP + 4, ELSE)},
	 .ending = ENDING_NO_ROW, .n = 1},

	{"C code has saved the register", .ip = C_CODE, .r13 = SECOND,
	 .words = {RUNS(PROCESS, TOP, ELSE), {INTO_C - 8, KEPT + 1}, {INTO_C - 16, PROCESS}},
	 .ending = ENDING_ROOT, .n = 3},
	{"it has not saved it yet", .ip = LEAF, .r13 = PROCESS,
	 .words = {RUNS(PROCESS, TOP, ELSE), {SP, KEPT + 1}, {SP - 8, SECOND}}, .ending = ENDING_ROOT,
	 .n = 3},

	{"what C code calls has saved it", .ip = C_CODE, .r13 = SECOND,
	 .words = {RUNS(PROCESS, TOP, HERE), {INTO_C - 8, SEARCH + 1}, {INTO_C - 56, PROCESS}},
	 .ending = ENDING_ROOT, .n = 3},
	{"another process is at hand, too", .ip = C_CODE,
	 .words = {RUNS(PROCESS, TOP, BY_STUB),
		   RUNS(SECOND, OTHER, ELSE),
		   {INTO_C - 8, SEARCH + 1},
		   {INTO_C - 24, SECOND}},
	 .r13 = PROCESS, .ending = ENDING_ROOT, .n = 3},
	{"the call is by way of a jump", .ip = C_CODE, .r13 = 1,
	 .words = {RUNS(PROCESS, TOP, BY_STUB), {INTO_C - 8, SEARCH + 1}, {INTO_C - 64, PROCESS}},
	 .ending = ENDING_ROOT, .n = 3},
	{"only another process is found", .ip = C_CODE, .r13 = 1,
	 .words = {RUNS(SECOND, OTHER, ELSE), {INTO_C - 8, SEARCH + 1}, {INTO_C - 24, SECOND}},
	 .ending = ENDING_NO_ROW, .n = 2},
	{"another process has called a function beside it", .ip = C_CODE, .r13 = 1,
	 .words = {RUNS(SECOND, OTHER, NEAR), {INTO_C - 8, SEARCH + 1}, {INTO_C - 24, SECOND}},
	 .ending = ENDING_NO_ROW, .n = 2},
	{"where it begins is not known", .ip = C_CODE, .r13 = 1,
	 .words = {RUNS(PROCESS, TOP, OF_UNKNOWN), {INTO_C - 8, UNKNOWN + 1}, {INTO_C - 24, PROCESS}},
	 .ending = ENDING_NO_ROW, .n = 2},
	{"a record is where the frame pointer is", .ip = C_CODE, .r13 = 1, .fp = TOP + DEPTH - 16,
	 .words = {RUNS(PROCESS, TOP, ELSE), {INTO_C - 8, RECORD + 1}, {INTO_C - 24, PROCESS}},
	 .ending = ENDING_ROOT, .n = 3},
	{"the record is another process's", .ip = C_CODE, .r13 = 1, .fp = TOP + DEPTH - 16,
	 .words = {RUNS(SECOND, OTHER, HERE), {INTO_C - 8, RECORD + 1}, {INTO_C - 24, SECOND}},
	 .ending = ENDING_NO_ROW, .n = 2},
	{"a leaf of C code has it in the register", .ip = LEAF, .r13 = PROCESS,
	 .words = {RUNS(PROCESS, TOP, HERE), {SP, SEARCH + 1}}, .ending = ENDING_ROOT, .n = 3},

	{"no process runs, the stack was aligned by 8 bytes", .ip = ALIGNED, .words = {{SP + 120, ELSE}},
	 .ending = ENDING_ROOT, .n = 2},
	{"by 56 bytes, and a return address was left in the gap", .ip = ALIGNED,
	 .words = {{SP + 136, KEPT + 1}, {SP + 168, ELSE}}, .ending = ENDING_ROOT, .n = 2},
	{"no return address", .ip = ALIGNED, .words = {{SP + 120, NO_CALL}}, .ending = ENDING_NO_ROW, .n = 1},
};

static struct machine *machine_of(const struct beam_case *c)
{
	const struct machine_row rows[] = {
		{KEPT - BIAS, {.cfa_kind = CFA_KEPT, .cfa_reg = 13, .cfa_off = -16, .cfa_add = DEPTH}},
		{SEARCH - BIAS, {.cfa_kind = CFA_KEPT, .cfa_reg = 13, .cfa_add = DEPTH, .fp = {.off = 4}}},
		{ALIGNED - BIAS, {.cfa_kind = CFA_ALIGNED, .cfa_reg = DWARF_SP, .cfa_off = 128}},
		{C_CODE - BIAS, RULE_SP(64)},
		{LEAF - BIAS, RULE_SP(8)},
		{ROOT - BIAS, RULE_ROOT},
		{ROOT + 0x100 - BIAS, RULE_NONE},
		{RECORD - BIAS,
		 {.cfa_kind = CFA_KEPT,
		  .cfa_reg = 13,
		  .cfa_add = DEPTH,
		  .fp = {.kind = REG_CFA_OFF, .off = -16}}},
		{UNKNOWN - BIAS, {.cfa_kind = CFA_KEPT, .cfa_reg = 13, .cfa_add = DEPTH}},
		{UNKNOWN + 0x40 - BIAS, RULE_NONE},
	};
	struct machine *m = machine_new();

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	machine_memory(m, STACK, MACHINE_PAGE);
	machine_memory(m, ERLANG, MACHINE_PAGE);
	machine_memory(m, PROCESS, MACHINE_PAGE);
	machine_memory(m, ROOT, 0x200);
	machine_poke(m, HERE - 8, call_of(HERE, SEARCH));
	machine_poke(m, BY_STUB - 8, call_of(BY_STUB, STUB));
	machine_poke(m, ELSE - 8, call_of(ELSE, ROOT));
	machine_poke(m, NEAR - 8, call_of(NEAR, SEARCH - 0x40));
	machine_poke(m, OF_UNKNOWN - 8, call_of(OF_UNKNOWN, UNKNOWN));
	machine_poke(m, STUB, 0xe940 | (uint64_t)(uint32_t)(SEARCH - STUB - 6) << 16);
	for (size_t k = 0; k < ARRAY_SIZE(c->words) && c->words[k].address; k++)
		machine_poke(m, c->words[k].address, c->words[k].value);
	m->regs[REGISTER_SP] = SP;
	return m;
}

static void check(const struct beam_case *c)
{
	_cleanup_machine_ struct machine *m = machine_of(c);
	int ending;

	m->regs[BEAM_PROCESS_REGISTER] = c->r13;
	m->area.record.flags = SAMPLE_FROM_START;
	ending = machine_unwind(m, c->ip, SP, c->fp, 64);
	cr_expect_eq(ending, c->ending, "%s: ended \"%s\", not \"%s\"", c->name, ending_text(ending),
		     ending_text(c->ending));
	cr_expect_eq(m->area.state.n, c->n, "%s: %u frames", c->name, m->area.state.n);
	cr_expect_eq(!(m->area.record.flags & SAMPLE_FROM_START), ending == ENDING_ROOT && c->ip != ALIGNED,
		     "%s: which stack the sample needs", c->name);
}

#if defined(__TARGET_ARCH_arm64)
Test(beam, is_not_known_on_this_architecture)
{
	_cleanup_machine_ struct machine *m = machine_of(&cases[0]);

	cr_expect_eq(machine_unwind(m, KEPT, SP, 0, 64), ENDING_UNSUPPORTED_RULE);
	(void)check;
}
#else
Test(beam, steps)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(&cases[i]);
}
#endif
