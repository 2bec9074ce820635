// SPDX-License-Identifier: Apache-2.0
/*
 * Methods that HotSpot interprets are stepped by their frame records, and have the address of the method
 * as word.
 */
#include "tests/bpf/machine.h"

#define STACK 0x70000000ull
#define SP (STACK + 0x800)
#define BIAS 0x400000ull
#define FILE_INDEX 3
#define INTERPRETER (BIAS + 0x1000)
#define COMPILED (BIAS + 0x1100) /* CFA sp + 32 */
#define ROOT (BIAS + 0x1200)
#define NOWHERE 0x123000ull
#define METHOD 0x7f0012345678ull
#define OTHER 0x7f0012345000ull
#define BYTECODE 0x7f0011110002ull
#define OTHER_BYTECODE 0x7f0011110101ull
#define BYTECODE_SLOT 64

struct interpreted_case {
	const char *name;
	uint64_t fp;
	struct {
		uint64_t address, value;
	} words[16];
	uint64_t fault; /* 8 bytes; 0: none */
	int ending;
	unsigned n;	      /* words */
	uint64_t methods[2];  /* of the first frames; 0: the frame has the word of its code */
	uint64_t bytecode[2]; /* with them */
	uint32_t limit;	      /* of words; 0: there is room */
};

/* A frame whose record is at `at`: the method, its stack pointer while it calls, the caller's; the record. */
#define FRAME(at, method, last, sender, caller, ip)                                         \
	{(at) - 24, (method)}, {(at) - 16, (last)}, {(at) - 8, (sender)}, {(at), (caller)}, \
	{                                                                                   \
		(at) + 8, (ip)                                                              \
	}

static const struct interpreted_case cases[] = {
	{"called by the machine", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD, 0, SP + 96, SP + 256, ROOT + 1)}, .ending = ENDING_ROOT, .n = 3,
	 .methods = {METHOD}, .bytecode = {BYTECODE}},
	{"one by another one, which has its stack pointer", .fp = SP + 64,
	 .words = {{SP + 256 - BYTECODE_SLOT, OTHER_BYTECODE},
		   FRAME(SP + 64, METHOD, 0, SP + 96, SP + 256, INTERPRETER + 9),
		   FRAME(SP + 256, OTHER, SP + 96, SP + 300 + 4, 0, ROOT + 1)},
	 .ending = ENDING_ROOT, .n = 5, .methods = {METHOD, OTHER}, .bytecode = {BYTECODE, OTHER_BYTECODE}},
	{"the stack pointer is relative", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD, (uint64_t)-11, SP + 96, SP + 256, ROOT + 1)}, .ending = ENDING_ROOT,
	 .n = 3, .methods = {METHOD}, .bytecode = {BYTECODE}},
	{"the caller's stack pointer is that of its frame, not behind the record", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD, 0, SP + 128, SP + 256, COMPILED + 9), {SP + 152, ROOT + 1}},
	 .ending = ENDING_ROOT, .n = 4, .methods = {METHOD}, .bytecode = {BYTECODE}},
	{"a method handle has taken an argument away", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD, 0, SP + 72, SP + 256, COMPILED + 9), {SP + 104, ROOT + 1}},
	 .ending = ENDING_ROOT, .n = 4, .methods = {METHOD}, .bytecode = {BYTECODE}},
	{"no room for the bytecode", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD, 0, SP + 96, SP + 256, ROOT + 1)}, .ending = ENDING_DEPTH_LIMIT,
	 .n = 1, .methods = {METHOD}, .limit = 1},
	{"no method", .fp = SP + 64, .words = {FRAME(SP + 64, 0, 0, SP + 96, SP + 256, ROOT + 1)},
	 .ending = ENDING_NO_ROW, .n = 1},
	{"a method that is not aligned", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD + 4, 0, SP + 96, SP + 256, ROOT + 1)}, .ending = ENDING_NO_ROW,
	 .n = 1},
	{"a method in the kernel", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD | 1ull << FRAME_VA_BITS, 0, SP + 96, SP + 256, ROOT + 1)},
	 .ending = ENDING_NO_ROW, .n = 1},
	{"the caller's stack pointer is below", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD, 0, SP + 56 - JVM_SENDER_BELOW, SP + 256, ROOT + 1)},
	 .ending = ENDING_NO_ROW, .n = 1},
#if JVM_SENDER_BELOW
	{"the callee has taken the caller's room for operands", .fp = SP + 64,
	 .words = {{SP + 256 - BYTECODE_SLOT, OTHER_BYTECODE},
		   FRAME(SP + 64, METHOD, 0, SP + 32, SP + 256, INTERPRETER + 9),
		   FRAME(SP + 256, OTHER, SP + 32, SP + 304, 0, ROOT + 1)},
	 .ending = ENDING_ROOT, .n = 5, .methods = {METHOD, OTHER}, .bytecode = {BYTECODE, OTHER_BYTECODE}},
#endif
	{"the caller's stack pointer is far away", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD, 0, SP + 64 + JVM_FRAME_BYTES_MAX, SP + 256, ROOT + 1)},
	 .ending = ENDING_NO_ROW, .n = 1},
	/* as in the frame of the machine's call stub, at the beginning of the first method */
	{"its own stack pointer is above the record", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD, SP + 72, SP + 96, SP + 256, ROOT + 1)}, .ending = ENDING_NO_ROW,
	 .n = 1},
	/* at a method's beginning, what is below the record is of a frame that has gone */
	{"the method is below the stack pointer", .fp = SP + 16,
	 .words = {FRAME(SP + 16, METHOD, 0, SP + 96, SP + 256, ROOT + 1)}, .ending = ENDING_NO_ROW, .n = 1},
	{"the method is at the stack pointer", .fp = SP + 24,
	 .words = {FRAME(SP + 24, METHOD, 0, SP + 96, SP + 256, ROOT + 1)}, .ending = ENDING_ROOT, .n = 3,
	 .methods = {METHOD}, .bytecode = {BYTECODE}},
	{"the record is below the stack", .fp = SP - 64, .ending = ENDING_NO_ROW, .n = 1},
	{"rbp is data", .fp = SP + 61, .ending = ENDING_NO_ROW, .n = 1},
	{"rbp is 0", .fp = 0, .ending = ENDING_NO_ROW, .n = 1},
	{"what is below the record cannot be read", .fp = SP + 64, .fault = SP + 56, .ending = ENDING_NO_ROW,
	 .n = 1},
	{"the record cannot be read", .fp = SP + 64, .words = {{SP + 40, METHOD}, {SP + 56, SP + 96}},
	 .fault = SP + 72, .ending = ENDING_NO_ROW, .n = 1},
	{"a return address in no mapping", .fp = SP + 64,
	 .words = {FRAME(SP + 64, METHOD, 0, SP + 96, SP + 256, NOWHERE)}, .ending = ENDING_NO_MAPPING,
	 .n = 2, .methods = {METHOD}, .bytecode = {BYTECODE}},
};

static void check(const struct interpreted_case *c)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {
		{INTERPRETER - BIAS, {.cfa_kind = CFA_INTERPRETED, .cfa_off = -BYTECODE_SLOT}},
		{COMPILED - BIAS, RULE_SP(32)},
		{ROOT - BIAS, RULE_ROOT},
		{ROOT - BIAS + 0x100, RULE_NONE}};
	int ending;

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	m->mappings[m->n_mappings - 1].end = BIAS + 0x2000;
	machine_memory(m, STACK, MACHINE_PAGE);
	for (size_t k = 0; k < ARRAY_SIZE(c->words) && c->words[k].address; k++)
		machine_poke(m, c->words[k].address, c->words[k].value);
	if (c->fault)
		machine_fault_at(m, c->fault, 8);
	m->regs[REGISTER_JVM_BYTECODE] = BYTECODE;
	ending = machine_unwind(m, INTERPRETER, SP, c->fp, c->limit ?: 64);
	cr_expect_eq(ending, c->ending, "%s: ended \"%s\", not \"%s\"", c->name, ending_text(ending),
		     ending_text(c->ending));
	cr_expect_eq(m->area.state.n, c->n, "%s: %u frames", c->name, m->area.state.n);
	for (unsigned i = 0, at = 0; i < ARRAY_SIZE(c->methods) && at < m->area.state.n; i++) {
		const uint64_t word = m->area.frames[at++];

		if (c->methods[i])
			cr_expect_eq(word, frame_runtime_head(RUNTIME_JVM, 0, c->methods[i]), "%s: %#llx",
				     c->name, (unsigned long long)word);
		else
			cr_expect_not(frame_is_runtime(word), "%s: %#llx", c->name, (unsigned long long)word);
		if (c->bytecode[i])
			cr_expect_eq(m->area.frames[at++], frame_native(FRAME_TAG_BYTECODE, c->bytecode[i]),
				     "%s", c->name);
	}
}

Test(interpreted, steps)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(&cases[i]);
}

/* Where the interpreter enters a method. A rule, and where the return address is. */
struct entered_case {
	const char *name;
	struct elf_rule rule;
	uint64_t fp, ra_at;
	uint64_t sender; /* on the stack, at fp - 8; 0: it is in its register */
	uint64_t method;
	int ending;
};

static const struct entered_case entered[] = {
	{"on top of the stack",
	 {.cfa_kind = CFA_ENTERED, .cfa_reg = DWARF_SP},
	 SP + 0x200,
	 SP,
	 .method = METHOD},
	{"below what was pushed",
	 {.cfa_kind = CFA_ENTERED, .cfa_reg = DWARF_SP, .cfa_off = 8},
	 SP + 0x200,
	 SP + 8,
	 .method = METHOD},
	{"in a register",
	 {.cfa_kind = CFA_ENTERED, .ra = {.kind = REG_REGISTER, .reg = 0}},
	 SP + 0x200,
	 .method = METHOD},
	{"in the record",
	 {.cfa_kind = CFA_ENTERED, .cfa_reg = DWARF_FP, .cfa_off = 8},
	 SP,
	 SP + 8,
	 .method = METHOD},
	{"in the record, and the stack pointer is on the stack",
	 {.cfa_kind = CFA_ENTERED, .cfa_reg = DWARF_FP, .cfa_off = 8},
	 SP + 8,
	 SP + 16,
	 SP + 64,
	 METHOD,
	 0},
	{"no method",
	 {.cfa_kind = CFA_ENTERED, .cfa_reg = DWARF_SP},
	 SP + 0x200,
	 SP,
	 .ending = ENDING_NO_ROW},
	{"a method that is not aligned",
	 {.cfa_kind = CFA_ENTERED, .cfa_reg = DWARF_SP},
	 SP + 0x200,
	 SP,
	 .method = METHOD + 4,
	 .ending = ENDING_NO_ROW},
	{"a caller far away",
	 {.cfa_kind = CFA_ENTERED, .cfa_reg = DWARF_FP, .cfa_off = 8},
	 SP + 8,
	 SP + 16,
	 SP + 64 + (1ull << 32),
	 METHOD,
	 ENDING_NO_ROW},
	{"a caller below",
	 {.cfa_kind = CFA_ENTERED, .cfa_reg = DWARF_FP, .cfa_off = 8},
	 SP + 8,
	 SP + 16,
	 SP - 8,
	 METHOD,
	 ENDING_NO_ROW},
	{"no return address",
	 {.cfa_kind = CFA_ENTERED, .cfa_reg = DWARF_SP},
	 SP + 0x200,
	 .method = METHOD,
	 .ending = ENDING_NO_ROW},
};

Test(interpreted, enters_a_method)
{
	for (size_t i = 0; i < ARRAY_SIZE(entered); i++) {
		const struct entered_case *c = &entered[i];
		const struct machine_row rows[] = {{INTERPRETER - BIAS, c->rule},
						   {COMPILED - BIAS, RULE_SP(32)},
						   {ROOT - BIAS, RULE_ROOT},
						   {ROOT - BIAS + 0x100, RULE_NONE}};
		_cleanup_machine_ struct machine *m = machine_new();
		int ending;

		machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
		m->mappings[m->n_mappings - 1].end = BIAS + 0x2000;
		machine_memory(m, STACK, MACHINE_PAGE);
		m->regs[0] = COMPILED + 9;
		m->regs[REGISTER_JVM_METHOD] = c->method;
		m->regs[REGISTER_JVM_BYTECODE] = SP + 64;
		if (c->ra_at)
			machine_poke(m, c->ra_at, COMPILED + 9);
		if (c->sender) {
			m->regs[REGISTER_JVM_BYTECODE] = 0;
			machine_poke(m, c->fp - 8, c->sender);
		}
		machine_poke(m, SP + 64 + 24, ROOT + 1);
		ending = machine_unwind(m, INTERPRETER, SP, c->fp, 64);
		cr_expect_eq(ending, c->ending ?: ENDING_ROOT, "%s: ended \"%s\"", c->name,
			     ending_text(ending));
		if (c->ending)
			continue;
		cr_assert_eq(m->area.state.n, 4, "%s: %u", c->name, m->area.state.n);
		cr_expect_eq(m->area.frames[0], frame_runtime_head(RUNTIME_JVM, 0, METHOD), "%s", c->name);
		cr_expect_eq(m->area.frames[1], frame_native(FRAME_TAG_BYTECODE, 0), "%s", c->name);
		cr_expect_eq(m->area.frames[2], frame_native(FILE_INDEX, COMPILED + 8 - BIAS), "%s", c->name);
	}
}
