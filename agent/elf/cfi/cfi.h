// SPDX-License-Identifier: Apache-2.0
/*
 * The call-frame interpreter: runs the instructions of a CIE and of its FDEs and writes down the rule that
 * holds at each address. DWARF 5 section 6.4.2 and the GNU and AArch64 additions. Follows only what a
 * profiler needs of the caller: the CFA, the frame pointer, the return address, and the stack pointer where
 * it is not the CFA. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_CFI_H
#define PROFLET_ELF_CFI_H

#include "agent/elf/cfi/cfi_entry.h"
#include "agent/elf/cfi/rule.h"
#include "agent/elf/cfi/ruleset.h"

#define CFI_STATES_MAX 4096 /* depth of DW_CFA_remember_state; compilers nest two or three */
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
/* Runs the CIE's instructions. NULL or what is wrong with them. -ENOMEM goes to *ret_fatal (else 0). */
const char *cfi_run_cie(struct cfi_output *out, const struct cfi_section *s, const struct cfi_cie *cie,
			struct cfi_state *ret, int *ret_fatal);
/*
 * Appends the rows of an FDE; the first has off 0, offsets increase. NULL, or what is wrong with it: no row
 * is left of it then. *ret_fatal: -ENOMEM, -EFBIG past CFI_ROWS_MAX, else 0.
 */
const char *cfi_run_fde(struct cfi_output *out, const struct cfi_section *s, const struct cfi_cie *cie,
			const struct cfi_state *initial, const struct cfi_fde *fde, int *ret_fatal);

#endif
