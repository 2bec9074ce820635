// SPDX-License-Identifier: Apache-2.0
/* The rows and the distinct rules of everything that was read so far, and memory that is used again for each
 * FDE. */
#ifndef PROFLET_ELF_CFI_OUTPUT_H
#define PROFLET_ELF_CFI_OUTPUT_H

#include "agent/elf/cfi/ruleset.h"

#define CFI_ROWS_MAX (16u << 20)

/* What one instruction stream works on. */
struct cfi_state {
	struct elf_rule rule;	/* its CFA_UNDEFINED and CFA_SIGNAL are only made when a row is written */
	struct elf_reg_rule sp; /* REG_SAME: no rule, the caller's stack pointer is the CFA */
	uint8_t cfa_reg; /* of the last register + offset rule: DW_CFA_def_cfa_register keeps the offset, */
	int32_t cfa_off; /* DW_CFA_def_cfa_offset the register */
	struct rule_family *family; /* of `rule`, when it is a usual one that has been looked up; borrowed */
};

struct cfi_row {
	uint32_t off;  /* bytes from the FDE's start */
	uint32_t rule; /* index in the rule set */
};

/* Rows and rules of everything interpreted so far, and the memory for the next. Zeroed, then cfi_output_init.
 */
struct cfi_output {
	struct ruleset rules;
	struct cfi_row *rows; /* owned */
	size_t n_rows, rows_cap;
	struct cfi_state *states; /* owned: the stack of DW_CFA_remember_state */
	size_t states_cap;
};

int cfi_output_init(struct cfi_output *out);
void cfi_output_fini(struct cfi_output *out);
/* Makes room for the rows that a section of that size usually has. 0 or -ENOMEM. */
int cfi_output_reserve(struct cfi_output *out, size_t section_bytes);
/* Makes room for at least one more row. 0, -ENOMEM, -EFBIG at CFI_ROWS_MAX. */
int cfi_output_grow(struct cfi_output *out);

#endif
