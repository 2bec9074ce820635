// SPDX-License-Identifier: Apache-2.0
/*
 * Reduces DWARF expressions of call-frame rules to the forms of rule.h. An expression is evaluated
 * symbolically, so that every way to write a form is recognised. An expression that has none of the forms is
 * "unsupported". Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_EXPR_H
#define PROFLET_ELF_EXPR_H

#include "agent/elf/file/cursor.h"
#include "agent/elf/cfi/rule.h"

/* DW_CFA_def_cfa_expression: sets the cfa_* fields of *rule, to CFA_UNSUPPORTED if no form fits. */
void expr_cfa(uint16_t machine, struct cursor expr, struct elf_rule *rule);
/* DW_CFA_expression: the expression gives the address where the register is saved. */
struct elf_reg_rule expr_saved_at(struct cursor expr);
/*
 * DW_CFA_val_expression: the expression gives the register's value. REG_REGISTER may have an offset to be
 * added, which only the stack pointer's rule can have (row_rule.h).
 */
struct elf_reg_rule expr_value(struct cursor expr);

#endif
