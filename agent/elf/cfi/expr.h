// SPDX-License-Identifier: Apache-2.0
/*
 * DWARF expressions of call-frame rules, reduced to the shapes of rule.h. An expression is evaluated
 * symbolically, so that every spelling of a shape is recognised; what does not reduce to one is
 * "unsupported". Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_EXPR_H
#define PROFLET_ELF_EXPR_H

#include "agent/elf/file/cursor.h"
#include "agent/elf/cfi/rule.h"

/* DW_CFA_def_cfa_expression: sets the cfa_* fields of *rule (CFA_UNSUPPORTED when no shape fits). */
void expr_cfa(uint16_t machine, struct cursor expr, struct elf_rule *rule);
/* DW_CFA_expression: the expression gives the address where the register is saved. */
struct elf_reg_rule expr_saved_at(struct cursor expr);
/* DW_CFA_val_expression: the expression gives the register's value. */
struct elf_reg_rule expr_value(struct cursor expr);

#endif
