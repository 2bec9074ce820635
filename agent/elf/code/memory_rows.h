// SPDX-License-Identifier: Apache-2.0
/*
 * Rows for code of which only the bytes are known: what processes generate at run time. Rules are
 * RULE_CHECKED where even the beginning of the function is a guess. They are not where it is known, since
 * interpreters enter compiled functions with return addresses that follow no call. Pure.
 */
#ifndef PROFLET_ELF_MEMORY_ROWS_H
#define PROFLET_ELF_MEMORY_ROWS_H

#include <stdint.h>

#include "agent/elf/code/memory_code.h"

/* The machine whose code can be analysed, as ELF names it (EM_*); 0: none on this architecture. */
uint16_t memory_rows_machine(void);
/*
 * Analyses the code. Where its frames cannot be found out, the rule is CFA_NONE with NO_RULE_REFUSED, or, for
 * code to which nothing but `wanted` points, NO_RULE_PENDING. A function that makes a frame record at its
 * beginning is stepped by it where nothing else is known. 0; -ENOTSUP: not on this
 * architecture; -EFBIG; -ENOMEM.
 */
int memory_rows_make(struct memory_rows *ret, const struct memory_code *code);

#endif
