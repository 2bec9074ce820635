// SPDX-License-Identifier: Apache-2.0
/* From an interpreter's state to the rule of a row. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_ROW_RULE_H
#define PROFLET_ELF_ROW_RULE_H

#include "agent/elf/cfi/cfi.h"

/* `signal`: the CIE's augmentation has 'S'. */
void cfi_finish_rule(uint16_t machine, bool signal, const struct cfi_state *state, struct elf_rule *ret);
/* x86-64: in a signal trampoline, every register of the frame above is in the ucontext_t at rsp. */
extern const struct elf_rule cfi_x86_signal_rule;

#endif
