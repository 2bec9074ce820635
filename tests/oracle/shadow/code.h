// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the kind of the instruction at an address of the tracee. Kinds are cached for code of files, but not
 * for code of JIT compilers, which may change.
 */
#ifndef PROFLET_TESTS_SHADOW_CODE_H
#define PROFLET_TESTS_SHADOW_CODE_H

#include "tests/oracle/shadow/insn.h"
#include "tests/oracle/shadow/tables.h"
#include "tests/oracle/shadow/tracee.h"

struct code_entry {
	uint64_t address; /* 0: free */
	uint32_t kind;
	uint32_t visits; /* saturates */
};

struct code {
	struct code_entry *entries; /* owned; a power of two, open addressing */
	size_t n, n_slots;
};

int code_init(struct code *c);
void code_fini(struct code *c);
/* To be called when mappings have changed. */
void code_forget(struct code *c);
/* Returns -ENOMEM or an enum insn_kind. *ret_visits: number of earlier lookups of this address. */
int code_kind(struct code *c, const struct tracee *t, const struct tables *tables, uint64_t address,
	      uint32_t *ret_visits);

#endif
