// SPDX-License-Identifier: Apache-2.0
/* Code of which only the bytes are known, and its rows. Rank 1. */
#ifndef PROFLET_ELF_MEMORY_CODE_H
#define PROFLET_ELF_MEMORY_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/cfi/rule.h"

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
	/* Its runtime vouches that the frame pointer points to the frame record in all of this code. */
	bool frame_pointer;
	/* The offset of an instruction that ran. Only the code around it is declared unknown if it is. */
	uint32_t wanted;
};

/* Adds a row at an offset that is not before the last one's. 0 or -ENOMEM. */
int memory_rows_add(struct memory_rows *r, uint32_t off, const struct elf_rule *rule);
void memory_rows_fini(struct memory_rows *r);

#endif
