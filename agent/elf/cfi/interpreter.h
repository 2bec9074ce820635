// SPDX-License-Identifier: Apache-2.0
/*
 * The interpreter of call-frame instructions: runs those of a CIE and of its FDEs, and writes down the rule
 * that holds at each address (DWARF 5 section 6.4.2, with the GNU and AArch64 additions). It follows only
 * what a profiler needs of the caller: the CFA, the frame pointer, the return address, and the stack pointer
 * where it is not the CFA.
 */
#ifndef PROFLET_ELF_INTERPRETER_H
#define PROFLET_ELF_INTERPRETER_H

#include "agent/elf/cfi/cfi_entry.h"
#include "agent/elf/cfi/cfi_output.h"

#define CFI_STATES_MAX 4096 /* depth of DW_CFA_remember_state; compilers nest two or three */

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
