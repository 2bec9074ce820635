// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the complete rule of one address, with every register and expression of the call-frame information
 * (DWARF 5 section 6.4), and computes the caller's registers by it. The rows of a table (rule.h) omit what
 * the kernel cannot evaluate. Complete rules are therefore read from the file on demand. A Debian system has
 * 29 million rows, and about 20 of them have rules that a table cannot express. But other rows use a base
 * register that calls preserve (rbx in the trampolines of the dynamic linker, r13 for aligned local
 * variables), and its value is known only if every inner frame was unwound with complete rules; tables would
 * need them in all rows. Registers have the DWARF numbers of the file's machine. Rank 1.
 */
#ifndef PROFLET_ELF_FRAME_RULE_H
#define PROFLET_ELF_FRAME_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/cfi/evaluate.h"

#define FRAME_EXPRESSIONS_MAX 512u /* bytes of all expressions of one rule */

enum frame_location_kind {
	LOCATION_UNSAID,     /* no rule: unchanged if calls preserve the register, else unknown */
	LOCATION_SAME,	     /* unchanged */
	LOCATION_UNDEFINED,  /* not recoverable */
	LOCATION_AT_CFA,     /* saved at CFA + off */
	LOCATION_CFA,	     /* the value CFA + off */
	LOCATION_REGISTER,   /* the value of register `reg` + off */
	LOCATION_AT_EXPR,    /* saved at the address that the expression gives */
	LOCATION_EXPR,	     /* the value of the expression */
	LOCATION_UNSUPPORTED /* a register number that is not supported */
};

struct frame_location {
	uint8_t kind; /* enum frame_location_kind */
	uint8_t reg;
	uint16_t len; /* bytes of the expression */
	int64_t off;  /* bytes, or the offset of the expression in frame_rule.bytes */
};

/* The rule of a range of addresses. Contains no pointers, so it can be copied. */
struct frame_rule {
	uint64_t start, end; /* ELF virtual addresses [start, end) to which it applies */
	bool signal;	     /* the caller was interrupted: its address is not behind a call */
	uint8_t ra_reg, sp_reg;
	uint32_t preserved;	   /* bit n: a call preserves register n, or the function does not write it */
	struct frame_location cfa; /* LOCATION_REGISTER or LOCATION_EXPR, else unusable */
	struct frame_location regs[FRAME_REGISTERS];
	uint8_t bytes[FRAME_EXPRESSIONS_MAX];
};

struct frame_query {
	uint64_t va;
	uint64_t fde_start, fde_end; /* range of the FDE or function, if error is 0 */
	int error; /* 0; -ENOENT: no FDE covers the address; -EINVAL: damaged; -ENOTSUP: its expressions
		      exceed FRAME_EXPRESSIONS_MAX */
	struct frame_rule rule;
};

/*
 * Whether the rule, which may be from elsewhere, has the form that frame_rules_in_section gives it, and
 * applies to the address.
 */
bool frame_rule_valid(const struct frame_rule *rule, uint64_t va);

struct cfi_section;

/*
 * Finds the rules of the addresses whose error is -ENOENT and that an FDE of the section covers. 0 or
 * -ENOMEM.
 */
int frame_rules_in_section(const struct cfi_section *s, struct frame_query *query, size_t n);
/*
 * Computes the registers of the caller from those of a frame, including sp, and the return address as
 * register ra_reg. 1: the frame is the outermost; 0; -ENODATA (a register that the rule needs is unknown),
 * -EFAULT (memory), -ENOTSUP, -EINVAL, -ELOOP (see evaluate.h). On error *regs is unchanged.
 */
int frame_rule_step(const struct frame_rule *rule, const struct frame_memory *memory,
		    struct frame_registers *regs);

#endif
