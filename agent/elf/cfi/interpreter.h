// SPDX-License-Identifier: Apache-2.0
/*
 * Runs the call-frame instructions of a CIE and its FDEs, and writes a row for each address at which the rule
 * changes (DWARF 5 section 6.4.2, with the GNU and AArch64 additions). Follows only what a profiler needs of
 * the caller: the CFA, the frame pointer, the return address, and the stack pointer where it is not the CFA.
 */
#ifndef PROFLET_ELF_INTERPRETER_H
#define PROFLET_ELF_INTERPRETER_H

#include "agent/elf/cfi/cfi_entry.h"
#include "agent/elf/cfi/cfi_output.h"

#define CFI_STATES_MAX 4096 /* depth of DW_CFA_remember_state; compilers nest two or three levels */

/*
 * Runs the CIE's instructions. Sets cie->error or cie->fault if something is wrong with them. *ret_fatal:
 * -ENOMEM, else 0.
 */
void cfi_run_cie(struct cfi_output *out, const struct cfi_section *s, struct cfi_cie *cie,
		 struct cfi_state *ret, int *ret_fatal);
/*
 * Appends the rows of an FDE. The first has offset 0, and offsets increase. NULL, or what is wrong with the
 * FDE: then it has added no row, or, if some rows are good, all rows, of which those that cannot be expressed
 * are unsupported (CFA_UNSUPPORTED, or a return address that is REG_UNSUPPORTED). *ret_fatal: -ENOMEM, -EFBIG
 * at CFI_ROWS_MAX or RULES_MAX, else 0.
 */
const char *cfi_run_fde(struct cfi_output *out, const struct cfi_section *s, const struct cfi_cie *cie,
			const struct cfi_state *initial, const struct cfi_fde *fde, int *ret_fatal);

#endif
