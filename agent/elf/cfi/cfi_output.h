// SPDX-License-Identifier: Apache-2.0
/*
 * Collects the rows that the interpreter and the other readers write, and the distinct rules to which the
 * rows refer by index. One output serves all sections of a file.
 */
#ifndef PROFLET_ELF_CFI_OUTPUT_H
#define PROFLET_ELF_CFI_OUTPUT_H

#include "agent/elf/cfi/ruleset.h"

#define CFI_ROWS_MAX (16u << 20) /* of one file */

/* The rules at one point of an instruction stream. */
struct cfi_state {
	struct elf_rule rule;	/* CFA_UNDEFINED and CFA_SIGNAL appear only when a row is written */
	struct elf_reg_rule sp; /* REG_SAME: no rule was given, so the caller's stack pointer is the CFA */
	/*
	 * Register and offset of the last CFA that was register + offset. DW_CFA_def_cfa_register leaves this
	 * offset unchanged and DW_CFA_def_cfa_offset this register, even if the CFA was an expression in
	 * between.
	 */
	uint8_t cfa_reg;
	bool cfa_reg_unknown, cfa_off_unknown; /* it was not given, or cannot be expressed */
	bool cfa_is_expr;		       /* the CFA of `rule` is that of an expression */
	int32_t cfa_off;
	struct rule_family *family; /* the family of `rule`, or NULL if it was not looked up yet; borrowed */
};

struct cfi_row {
	uint32_t off;  /* bytes from the start of the FDE or function */
	uint32_t rule; /* index in the rule set */
};

/* Zero it, then call cfi_output_init. */
struct cfi_output {
	struct ruleset rules;
	struct cfi_row *rows; /* owned */
	size_t n_rows, rows_cap;
	/*
	 * Rule of a row whose stack pointer has a rule of its own, rsp + n: that of GHC's StgRun
	 * (code/haskell.h). 0: there is none.
	 */
	uint32_t stg_run;
	struct cfi_state *states; /* owned: the stack of DW_CFA_remember_state, reused for each FDE */
	size_t states_cap;
};

int cfi_output_init(struct cfi_output *out);
void cfi_output_fini(struct cfi_output *out);
/* Allocates as many rows as sections of this size usually need. 0 or -ENOMEM. */
int cfi_output_reserve(struct cfi_output *out, size_t section_bytes);
/* Makes room for at least one more row. 0, -ENOMEM, -EFBIG at CFI_ROWS_MAX. */
int cfi_output_grow(struct cfi_output *out);
/* Appends a row. 0, -ENOMEM, -EFBIG at CFI_ROWS_MAX, or at RULES_MAX if the rule is new. */
int cfi_output_add(struct cfi_output *out, uint32_t off, const struct elf_rule *rule);

/* Appends a row with the index of a rule. */
static inline int cfi_output_add_index(struct cfi_output *out, uint32_t off, uint32_t rule)
{
	int r = out->n_rows == out->rows_cap ? cfi_output_grow(out) : 0;

	if (r == 0)
		out->rows[out->n_rows++] = (struct cfi_row){.off = off, .rule = rule};
	return r;
}

#endif
