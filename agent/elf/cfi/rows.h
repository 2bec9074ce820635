// SPDX-License-Identifier: Apache-2.0
/*
 * The unwind table of one ELF file: rows sorted by address, each valid up to the next row's address. Pure:
 * image in, rows out, no global state, safe on any bytes. Rank 1.
 */
#ifndef PROFLET_ELF_ROWS_H
#define PROFLET_ELF_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/cfi/rule.h"

struct elf_row {
	uint64_t va;   /* ELF virtual address where the rule starts to hold */
	uint32_t rule; /* index into elf_rows.rules */
};

/* Where rows come from; where several cover an address, the first of these. .debug_frame is not kept up to
 * date by all who rewrite binaries. ELF_DEBUG_FILE: the .debug_frame of a separate file. */
enum elf_source { ELF_EH_FRAME, ELF_GOPCLNTAB, ELF_DEBUG_FRAME, ELF_DEBUG_FILE, ELF_CODE };

/* An FDE (its CIE's fault is each of its FDEs') or a Go function that was left out; its own range only is
 * lost. */
struct elf_skipped {
	uint64_t offset;    /* in its section; of a Go function its index in the table */
	const char *reason; /* static string */
	uint8_t source;	    /* enum elf_source */
};

/* An FDE that lies: for these addresses the rows are not its own, but those that the code has (override.h).
 */
struct elf_overridden {
	uint64_t start, end;
	const char *name; /* of the function; static string */
};

struct elf_rows {
	/* Strictly increasing va, no two neighbours with the same rule. A gap between FDEs is a CFA_NONE row,
	 * unless it is shorter than ELF_GAP_MIN bytes: such padding is never executed and belongs to the row
	 * before it. The last row is CFA_NONE. */
	struct elf_row *rows;
	size_t n_rows;
	struct elf_rule *rules; /* distinct; [0] is CFA_NONE */
	size_t n_rules;
	struct elf_skipped *skipped; /* the first ELF_SKIPPED_MAX of n_skipped */
	size_t n_skipped;
	struct elf_overridden *overridden; /* the first ELF_OVERRIDDEN_MAX of n_overridden; NULL if none */
	size_t n_overridden;
	size_t n_fdes, n_functions; /* FDEs, and Go functions: all that were seen, with the skipped ones */
	uint64_t covered_bytes;	    /* of text; short gaps count */
	uint64_t described_bytes;   /* of these, not only by their code: there, a debug file would say more */
	uint64_t text_bytes; /* of executable sections; of segments when section headers are stripped */
	uint64_t build_ns;   /* reading the section included */
};

#define ELF_SKIPPED_MAX 64
#define ELF_OVERRIDDEN_MAX 64
#define ELF_GAP_MIN 16 /* bytes */

void elf_rows_free(struct elf_rows *rows);
/* The row that covers `va`, NULL below the first. Borrowed. */
const struct elf_row *elf_rows_find(const struct elf_rows *rows, uint64_t va);

#endif
