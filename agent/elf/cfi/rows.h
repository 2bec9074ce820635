// SPDX-License-Identifier: Apache-2.0
/*
 * The unwind table of one ELF file: rows sorted by address, each valid up to the address of the next row.
 * Rank 1.
 */
#ifndef PROFLET_ELF_ROWS_H
#define PROFLET_ELF_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/cfi/rule.h"

struct elf_row {
	uint64_t va;   /* first ELF virtual address to which the rule applies */
	uint32_t rule; /* index into elf_rows.rules */
};

/*
 * Sources of rows. If several cover an address, the first in this order applies: tools that rewrite binaries
 * do not always update .debug_frame. ELF_DEBUG_FILE is the .debug_frame of a separate debug file.
 */
enum elf_source { ELF_EH_FRAME, ELF_GOPCLNTAB, ELF_DEBUG_FRAME, ELF_DEBUG_FILE, ELF_CODE };

/*
 * An FDE or Go function that was skipped: only its own range has no rows. If it was skipped in part, the
 * others of its rows are good, and those that are not are unsupported. A faulty CIE is reported for each of
 * its FDEs.
 */
struct elf_skipped {
	uint64_t offset;    /* in its section; for a Go function, its index in the table */
	const char *reason; /* static string */
	uint8_t source;	    /* enum elf_source */
	bool in_part;
};

/* An FDE that contradicts its code. For these addresses, the rows describe the code instead (override.h). */
struct elf_overridden {
	uint64_t start, end;
	const char *name; /* of the function; static string */
};

struct elf_rows {
	/*
	 * Strictly increasing va; two neighbours never have the same rule. A gap between FDEs is a CFA_NONE
	 * row, unless it is shorter than ELF_GAP_MIN bytes: such padding is never executed and belongs to the
	 * row before it. The last row is CFA_NONE.
	 */
	struct elf_row *rows;
	size_t n_rows;
	struct elf_rule *rules; /* distinct; [0] is CFA_NONE */
	size_t n_rules;
	struct elf_skipped *skipped; /* the first ELF_SKIPPED_MAX of n_skipped */
	size_t n_skipped;
	struct elf_overridden *overridden; /* the first ELF_OVERRIDDEN_MAX of n_overridden; NULL if none */
	size_t n_overridden;
	size_t n_fdes, n_functions; /* all FDEs and all Go functions, including skipped ones */
	uint64_t covered_bytes;	    /* bytes of code that rows cover, including short gaps */
	uint64_t described_bytes;   /* of these, bytes described by more than their machine code */
	uint64_t
		text_bytes; /* bytes of executable sections, or of segments if there are no section headers */
	uint64_t build_ns;  /* including the time to read the section */
};

#define ELF_SKIPPED_MAX 64
#define ELF_OVERRIDDEN_MAX 64
#define ELF_GAP_MIN 16 /* bytes */

void elf_rows_free(struct elf_rows *rows);
/* The row that covers `va`; NULL for an address below the first row. Borrowed. */
const struct elf_row *elf_rows_find(const struct elf_rows *rows, uint64_t va);

#endif
