// SPDX-License-Identifier: Apache-2.0
/* Turns the state of the interpreter into the rule of a row. */
#ifndef PROFLET_ELF_ROW_RULE_H
#define PROFLET_ELF_ROW_RULE_H

#include <stdbool.h>

#include "agent/elf/cfi/rule.h"
#include "agent/elf/file/arch.h"

/*
 * `sp` is the rule of the stack pointer, REG_SAME if there is none; the offset of a REG_REGISTER is added to
 * the register. `signal`: the augmentation of the CIE
 * contains 'S'.
 */
void row_rule_finish(const struct elf_arch *arch, bool signal, const struct elf_rule *rule,
		     struct elf_reg_rule sp, struct elf_rule *ret);
/*
 * The rule of a signal trampoline on x86-64: the registers of the interrupted frame are in the ucontext_t at
 * rsp.
 */
extern const struct elf_rule row_rule_x86_signal;

#endif
