// SPDX-License-Identifier: Apache-2.0
/* The kind of the instruction at an address of the tracee, remembered for the code of files: what JIT
 * compilers write is read each time. */
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
/* Mappings changed. */
void code_forget(struct code *c);
/* < 0: -ENOMEM, else enum insn_kind. *ret_visits: how often it was asked before. */
int code_kind(struct code *c, const struct tracee *t, const struct tables *tables, uint64_t address,
	      uint32_t *ret_visits);

#endif
