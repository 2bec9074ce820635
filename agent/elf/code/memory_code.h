// SPDX-License-Identifier: Apache-2.0
/* Code of which only the bytes are known, and its rows. Rank 1. */
#ifndef PROFLET_ELF_MEMORY_CODE_H
#define PROFLET_ELF_MEMORY_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/cfi/rule.h"
#include "agent/elf/cfi/row_spans.h"
#include "agent/elf/code/piece.h"

#define MEMORY_CODE_MAX (1u << 20) /* bytes that can be analysed at once */

struct memory_row {
	uint32_t off; /* from the first byte; the rule holds up to the next row */
	struct elf_rule rule;
};

/* Rows of [va, va + n): the first one has offset 0. */
struct memory_rows {
	struct memory_row *v; /* owned */
	size_t n, cap;
};

struct memory_code {
	uint64_t va; /* process address of the first byte */
	const uint8_t *code;
	uint32_t n;
	/* A function begins at the first byte, and the other bytes are its own. Else nothing is known. */
	bool function;
	/*
	 * Of a function: it makes a frame record, and no other begins in the code. What is not understood of
	 * it has that record. It may be freed at any time, and another have its place.
	 */
	bool single;
	/* Its runtime vouches that the frame pointer points to the frame record in all of this code. */
	bool frame_pointer;
	/* The offset of an instruction that ran. Only the code around it is declared unknown if it is. */
	uint32_t wanted;
};

/* Adds a row at an offset that is not before the last one's. 0 or -ENOMEM. */
int memory_rows_add(struct memory_rows *r, uint32_t off, const struct elf_rule *rule);
void memory_rows_fini(struct memory_rows *r);

/* How the code of a machine is analysed. */
struct memory_analysis {
	int (*read_piece)(struct row_spans *spans, const struct code_piece *piece);
	/* Adds rows of [from, to), of which the analysis says nothing. 0 or -ENOMEM. */
	int (*add_unknown)(struct memory_rows *r, const struct memory_code *c, uint32_t from, uint32_t to);
};

/* RULE_* of its rows: what they lead to is checked, unless the code is certain. */
uint8_t memory_code_flags(const struct memory_code *c);
/*
 * Adds what the analysis finds in the code, with rows for what it leaves out. Rules are RULE_CHECKED unless
 * it is known that a function begins with the code. 0 or -ENOMEM.
 */
int memory_rows_analyse(struct memory_rows *r, const struct memory_code *code,
			const struct memory_analysis *analysis);

#endif
