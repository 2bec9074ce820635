// SPDX-License-Identifier: Apache-2.0
/*
 * One step by one rule. The limit is one frame, so that a step that went well ends with "depth limit" and
 * leaves the caller in the state: ip (minus 1 where it is a return address), sp, fp.
 */
#ifndef PROFLET_TESTS_BPF_STEP_H
#define PROFLET_TESTS_BPF_STEP_H

#include "tests/bpf/machine.h"

#define BIAS 0x400000ull
#define LEAF 0x1000ull	 /* ELF virtual address of the code that has the rule under test */
#define CALLER 0x2000ull /* ... and of who called it */
#define FILE_INDEX 7
#define STACK 0x70000000ull
#define STACK_BYTES (32 * MACHINE_PAGE)
#define SP (STACK + 0x800)
#define RETURN (BIAS + CALLER + 0x21) /* to the caller */
#define AT_CALLER (RETURN - 1)

struct word {
	uint64_t address, value;
};

struct step_case {
	const char *name;
	struct elf_rule rule;
	uint64_t ip_offset, fp;
	struct word words[8];
	struct word regs[2]; /* DWARF number, value; 0: none */
	struct word fault;   /* address, bytes; 0: none */
	int ending;
	uint64_t ip, sp, caller_fp; /* with ENDING_DEPTH_LIMIT */
	unsigned requests;	    /* of the registers */
	uint64_t signature;	    /* mask of signed return addresses */
};

#define CFA_RULE(...) ((struct elf_rule){.ra = RA_AT_CFA, __VA_ARGS__})
#define RA_IN(n) {.kind = REG_REGISTER, .reg = (n)}
#define STEPPED(to_sp, to_fp) \
	.ending = ENDING_DEPTH_LIMIT, .ip = AT_CALLER, .sp = (to_sp), .caller_fp = (to_fp)
#define FP_OF_OTHERS 0x1234560ull

static inline void step_check(const struct step_case *c)
{
	_cleanup_machine_ struct machine *m = machine_new();
	const struct machine_row rows[] = {{LEAF, c->rule},
					   {LEAF + 0x100, RULE_NONE},
					   {CALLER, RULE_SP(8)},
					   {CALLER + 0x100, RULE_NONE}};
	int ending;

	machine_memory(m, STACK, STACK_BYTES);
	for (const struct word *w = c->words; w->address; w++)
		machine_poke(m, w->address, w->value);
	for (size_t i = 0; i < ARRAY_SIZE(c->regs) && c->regs[i].address; i++)
		m->regs[c->regs[i].address] = c->regs[i].value;
	if (c->fault.address)
		machine_fault_at(m, c->fault.address, c->fault.value);
	machine_map_table(m, BIAS, FILE_INDEX, rows, ARRAY_SIZE(rows));
	m->area.ip_signature = c->signature;
	ending = machine_unwind(m, BIAS + LEAF + c->ip_offset, SP, c->fp, 1);
	cr_expect_eq(ending, c->ending, "%s: ended \"%s\", not \"%s\"", c->name, ending_text(ending),
		     ending_text(c->ending));
	cr_expect_eq(m->area.state.n, 1, "%s: %u frames", c->name, m->area.state.n);
	cr_expect_eq(m->area.frames[0], (uint64_t)FILE_INDEX << FRAME_VA_BITS | (LEAF + c->ip_offset),
		     "%s: frame", c->name);
	cr_expect_eq(m->n_register_requests, c->requests, "%s: %u requests for registers", c->name,
		     m->n_register_requests);
	if (c->ending != ENDING_DEPTH_LIMIT || ending != c->ending)
		return;
	cr_expect_eq(m->area.state.ip, c->ip, "%s: ip %#llx", c->name, (unsigned long long)m->area.state.ip);
	cr_expect_eq(m->area.state.sp, c->sp, "%s: sp %#llx", c->name, (unsigned long long)m->area.state.sp);
	cr_expect_eq(m->area.state.fp, c->caller_fp, "%s: fp %#llx", c->name,
		     (unsigned long long)m->area.state.fp);
}

static inline void step_check_all(const struct step_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		step_check(&cases[i]);
}

#endif
