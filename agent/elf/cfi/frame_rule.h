// SPDX-License-Identifier: Apache-2.0
/*
 * The complete rule of one address, every register and expression as the call-frame information has it, and a
 * step by it: what the table's rows (rule.h) leave out because the kernel cannot do it. Found on demand, from
 * the file: on a Debian system of 29 million rows about 20 have rules that the table cannot hold, but a base
 * register that calls preserve (rbx in the dynamic linker's trampolines, r13 under aligned locals) is only
 * known by following every frame below, and that would take the complete rules of every row of every file.
 * DWARF 5 section 6.4. Rank 1. Registers are DWARF numbers of the file's machine.
 */
#ifndef PROFLET_ELF_FRAME_RULE_H
#define PROFLET_ELF_FRAME_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/cfi/evaluate.h"

#define FRAME_EXPRESSIONS_MAX 512u /* bytes, of all expressions of one rule */

enum frame_location_kind {
	LOCATION_UNSAID,     /* unchanged if calls preserve it, else unknown */
	LOCATION_SAME,	     /* unchanged */
	LOCATION_UNDEFINED,  /* not recoverable */
	LOCATION_AT_CFA,     /* saved at CFA + off */
	LOCATION_CFA,	     /* is CFA + off */
	LOCATION_REGISTER,   /* is register `reg` + off */
	LOCATION_AT_EXPR,    /* saved where the expression says */
	LOCATION_EXPR,	     /* is what the expression says */
	LOCATION_UNSUPPORTED /* a register number that is not followed */
};

struct frame_location {
	uint8_t kind; /* enum frame_location_kind */
	uint8_t reg;
	uint16_t len; /* bytes of the expression */
	int64_t off;  /* bytes, or where the expression begins in frame_rule.bytes */
};

/* A plain value, it refers to nothing. */
struct frame_rule {
	uint64_t start, end; /* ELF virtual addresses that it holds for: [start, end) */
	bool signal;	     /* the caller was interrupted: its address is not that of a call */
	uint8_t ra_reg, sp_reg;
	uint32_t preserved; /* registers that a call preserves, or that the code does not write, by bit */
	struct frame_location cfa; /* LOCATION_REGISTER or LOCATION_EXPR, else unusable */
	struct frame_location regs[FRAME_REGISTERS];
	uint8_t bytes[FRAME_EXPRESSIONS_MAX];
};

struct frame_query {
	uint64_t va;
	uint64_t fde_start, fde_end; /* of the FDE or function that the rule is from, when error is 0 */
	int error; /* 0; -ENOENT no FDE covers it; -EINVAL damaged; -ENOTSUP more expressions than fit */
	struct frame_rule rule;
};

struct cfi_section;

/*
 * Finds the rules of those of the n addresses whose error is -ENOENT and that an FDE of the section covers. 0
 * or -ENOMEM.
 */
int frame_rules_in_section(const struct cfi_section *s, struct frame_query *query, size_t n);
/*
 * The caller's registers, from those of a frame: sp among them, and the return address as ra_reg. 1 when the
 * frame is the outermost; 0; -ENODATA (a register that it takes is unknown), -EFAULT (memory), -ENOTSUP,
 * -EINVAL, -ELOOP (see evaluate.h): *regs is unchanged.
 */
int frame_rule_step(const struct frame_rule *rule, const struct frame_memory *memory,
		    struct frame_registers *regs);

#endif
