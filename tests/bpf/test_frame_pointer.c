// SPDX-License-Identifier: Apache-2.0
/* Code without call-frame information is stepped by frame pointer as long as the chain is sane. */
#include "tests/bpf/machine.h"

#define STACK 0x70000000ull
#define SP (STACK + 0x800)
#define BIAS 0x400000ull
#define FILE_INDEX 3
#define JIT 0x900000ull	     /* anonymous memory, no table */
#define CODE (BIAS + 0x1000) /* CFA sp + 32, fp the same */
#define ROOT (BIAS + 0x1100)
#define GAP (BIAS + 0x1200) /* between two rows */
#define TRAMPOLINE (BIAS + 0x1300)
#define SWITCH (BIAS + 0x1380)	    /* goes over to the stack that the frame pointer is on */
#define SWITCH_BARE (BIAS + 0x13a0) /* the same, without a frame of its own */
#define BEYOND (BIAS + 0x1480)	    /* of the mapping, past the table's last page */
#define NOWHERE 0x123000ull

struct fp_case {
	const char *name;
	uint64_t ip, fp;
	struct {
		uint64_t address, value;
	} words[12];
	uint64_t fault; /* 8 bytes; 0: none */
	int ending;
	unsigned n; /* frames */
};

/* A frame record at `at`: caller's frame pointer, return address. */
#define RECORD(at, caller, ip) \
	{(at), (caller)},      \
	{                      \
		(at) + 8, (ip) \
	}

static const struct fp_case cases[] = {
	{"fp 0 is no root by itself", .ip = JIT, .fp = 0, .ending = ENDING_NO_ROOT, .n = 1},
	{"a chain to fp 0", .ip = JIT, .fp = SP + 16,
	 .words = {RECORD(SP + 16, SP + 64, JIT + 5), RECORD(SP + 64, 0, JIT + 9)}, .ending = ENDING_NO_ROOT,
	 .n = 3},
	{"a chain to a row that proves the root", .ip = JIT, .fp = SP + 16,
	 .words = {RECORD(SP + 16, SP + 64, JIT + 5), RECORD(SP + 64, 0, ROOT + 9)}, .ending = ENDING_ROOT,
	 .n = 3},
	{"a chain to return address 0", .ip = JIT, .fp = SP + 16,
	 .words = {RECORD(SP + 16, SP + 64, JIT + 5), RECORD(SP + 64, SP + 96, 0)}, .ending = ENDING_NO_ROOT,
	 .n = 2},
	{"a frame at sp", .ip = JIT, .fp = SP, .words = {RECORD(SP, 0, JIT + 5)}, .ending = ENDING_NO_ROOT,
	 .n = 2},
	{"fp not aligned", .ip = JIT, .fp = SP + 12, .ending = ENDING_NO_TABLE, .n = 1},
	{"fp not readable", .ip = JIT, .fp = SP + 16, .fault = SP + 16, .ending = ENDING_NO_TABLE, .n = 1},
	{"return address not readable", .ip = JIT, .fp = SP + 16, .fault = SP + 24, .ending = ENDING_NO_TABLE,
	 .n = 1},
	{"return address in no mapping", .ip = JIT, .fp = SP + 16,
	 .words = {RECORD(SP + 16, SP + 64, NOWHERE)}, .ending = ENDING_NO_TABLE, .n = 1},
	{"one step down: another stack", .ip = JIT, .fp = SP - 0x400,
	 .words = {RECORD(SP - 0x400, SP - 0x300, JIT + 5), RECORD(SP - 0x300, 0, JIT + 9)},
	 .ending = ENDING_NO_ROOT, .n = 3},
	{"no second step down", .ip = JIT, .fp = SP - 0x200,
	 .words = {RECORD(SP - 0x200, SP - 0x100, JIT + 5), RECORD(SP - 0x100, SP - 0x400, JIT + 9),
		   RECORD(SP - 0x400, 0, JIT + 13)},
	 .ending = ENDING_NO_TABLE, .n = 3},
	{"a circle", .ip = JIT, .fp = SP + 16,
	 .words = {RECORD(SP + 16, SP + 64, JIT + 5), RECORD(SP + 64, SP + 16, JIT + 9)},
	 .ending = ENDING_NO_TABLE, .n = 5},
	{"a gap between rows", .ip = GAP, .fp = SP + 12, .ending = ENDING_NO_ROW, .n = 1},
	{"past the table", .ip = BEYOND, .fp = SP + 12, .ending = ENDING_NO_ROW, .n = 1},
	{"a gap, sane chain", .ip = GAP, .fp = SP + 16, .words = {RECORD(SP + 16, 0, ROOT + 1)},
	 .ending = ENDING_ROOT, .n = 2},
	{"a gap, return address in no mapping", .ip = GAP, .fp = SP + 16,
	 .words = {RECORD(SP + 16, 0, NOWHERE)}, .ending = ENDING_NO_ROW, .n = 1},
	{"into code with a table and back", .ip = JIT, .fp = SP + 16,
	 .words = {RECORD(SP + 16, SP + 128, CODE + 5), {SP + 56, JIT + 9}, RECORD(SP + 128, 0, ROOT + 1)},
	 .ending = ENDING_ROOT, .n = 4},
	{"any number of switches down that rows tell of", .ip = SWITCH, .fp = SP - 0x100,
	 .words = {RECORD(SP - 0x100, SP - 0x200, SWITCH + 5), RECORD(SP - 0x200, SP - 0x300, SWITCH + 9),
		   RECORD(SP - 0x300, 0, ROOT + 1)},
	 .ending = ENDING_ROOT, .n = 4},
	{"a switch that omits the caller: the rest is there, and is not called whole", .ip = SWITCH_BARE,
	 .fp = SP - 0x100,
	 .words = {RECORD(SP - 0x100, SP - 0x200, SWITCH + 5), RECORD(SP - 0x200, SP - 0x300, ROOT + 9)},
	 .ending = ENDING_CALLER_OMITTED, .n = 3},
	{"a switch that omits the caller, to nowhere", .ip = SWITCH_BARE, .fp = SP - 0x100,
	 .words = {RECORD(SP - 0x100, 0, NOWHERE)}, .ending = ENDING_NO_MAPPING, .n = 1},
	{"a switch ends at fp 0", .ip = SWITCH, .fp = 0, .ending = ENDING_NO_ROOT, .n = 1},
	{"a switch to nowhere", .ip = SWITCH, .fp = SP - 0x100, .words = {RECORD(SP - 0x100, 0, NOWHERE)},
	 .ending = ENDING_NO_MAPPING, .n = 1},
	{"a switch to what cannot be read", .ip = SWITCH, .fp = SP - 0x100, .fault = SP - 0x100,
	 .ending = ENDING_READ_FAULT, .n = 1},
	{"a row clears the reason", .ip = JIT, .fp = SP + 16,
	 .words = {RECORD(SP + 16, SP + 128, CODE + 5), {SP + 56, NOWHERE}}, .ending = ENDING_NO_MAPPING,
	 .n = 2},
	{"a signal frame clears the reason", .ip = JIT, .fp = SP + 16,
	 .words = {RECORD(SP + 16, 0, TRAMPOLINE + 1),
		   {SP + 32 + FRAME_SP, SP + 0x200},
		   {SP + 32 + FRAME_IP, NOWHERE}},
	 .ending = ENDING_NO_MAPPING, .n = 2},
};

static void map_all(struct machine *m)
{
	const struct machine_row rows[] = {
		{CODE - BIAS, RULE_SP(32)},
		{ROOT - BIAS, RULE_ROOT},
		{GAP - BIAS, RULE_NONE},
		{TRAMPOLINE - BIAS, {.cfa_kind = CFA_SIGNAL}},
		{TRAMPOLINE - BIAS + 16, RULE_NONE},
		{SWITCH - BIAS, {.cfa_kind = CFA_SWITCH, .cfa_reg = DWARF_FP, .cfa_off = 16}},
		{SWITCH - BIAS + 16, RULE_NONE},
		{SWITCH_BARE - BIAS,
		 {.cfa_kind = CFA_SWITCH, .cfa_reg = DWARF_FP, .cfa_off = 16, .cfa_add = 1}},
		{SWITCH_BARE - BIAS + 16, RULE_NONE},
	};

	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	m->mappings[m->n_mappings - 1].end = BIAS + 0x2000;
	machine_map(m, JIT, JIT + 0x10000, 0, FILE_ANONYMOUS, 0);
}

Test(frame_pointer, steps)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct fp_case *c = &cases[i];
		_cleanup_machine_ struct machine *m = machine_new();
		int ending;

		map_all(m);
		machine_memory(m, STACK, MACHINE_PAGE);
		for (size_t k = 0; k < ARRAY_SIZE(c->words) && c->words[k].address; k++)
			machine_poke(m, c->words[k].address, c->words[k].value);
		if (c->fault)
			machine_fault_at(m, c->fault, 8);
		ending = machine_unwind(m, c->ip, SP, c->fp, 64);
		cr_expect_eq(ending, c->ending, "%s: ended \"%s\", not \"%s\"", c->name, ending_text(ending),
			     ending_text(c->ending));
		cr_expect_eq(m->area.state.n, c->n, "%s: %u frames", c->name, m->area.state.n);
	}
}

/* Frames of anonymous memory carry the process address. */
Test(frame_pointer, frames)
{
	_cleanup_machine_ struct machine *m = machine_new();

	map_all(m);
	machine_memory(m, STACK, MACHINE_PAGE);
	machine_poke(m, SP + 16, 0);
	machine_poke(m, SP + 24, ROOT + 1);
	expect_ending(machine_unwind(m, JIT + 0x30, SP, SP + 16, 64), ENDING_ROOT);
	expect_frame(m, 0, FILE_ANONYMOUS, JIT + 0x30);
	expect_frame(m, 1, FILE_INDEX, ROOT - BIAS);
}
