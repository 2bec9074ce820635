// SPDX-License-Identifier: Apache-2.0
/*
 * Rows for code of which only the bytes are known: what processes generate at run time. Rules are
 * RULE_CHECKED where even the beginning of the function is a guess. They are not where it is known, since
 * interpreters enter compiled functions with return addresses that follow no call. x86-64 only. Pure.
 */
#ifndef PROFLET_ELF_MEMORY_ROWS_H
#define PROFLET_ELF_MEMORY_ROWS_H

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
	/* Its runtime vouches that rbp points to the frame record in all of this code. */
	bool frame_pointer;
	/* The offset of an instruction that ran. Only the code around it is declared unknown if it is. */
	uint32_t wanted;
};

/* The machine whose code can be analysed, as ELF names it (EM_*); 0: none on this architecture. */
uint16_t memory_rows_machine(void);
/*
 * Analyses the code. Where its frames cannot be found out, the rule is CFA_NONE with NO_RULE_REFUSED, or, for
 * code to which nothing but `wanted` points, NO_RULE_PENDING. A function that makes a frame record at its
 * beginning is stepped by it where nothing else is known. 0; -ENOTSUP: not on this
 * architecture; -EFBIG; -ENOMEM.
 */
int memory_rows_make(struct memory_rows *ret, const struct memory_code *code);
/* Adds a row at an offset that is not before the last one's. 0 or -ENOMEM. */
int memory_rows_add(struct memory_rows *r, uint32_t off, const struct elf_rule *rule);
void memory_rows_fini(struct memory_rows *r);

#endif
