// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/rule_format.h"

#include <elf.h>
#include <stdio.h>

#include "agent/elf/file/arch.h"

void rule_format_cfa(char ret[RULE_FORMAT_MAX], uint16_t machine, const struct elf_rule *rule)
{
	char reg[ELF_REGISTER_NAME_MAX], add[16] = "";

	elf_register_name(reg, machine, rule->cfa_reg);
	if (rule->cfa_add)
		snprintf(add, sizeof(add), "%+d", rule->cfa_add);
	switch ((enum cfa_kind)rule->cfa_kind) {
	case CFA_REG_OFF:
		snprintf(ret, RULE_FORMAT_MAX, "%s%+d", reg, rule->cfa_off);
		return;
	case CFA_DEREF_REG:
		snprintf(ret, RULE_FORMAT_MAX, "*(%s%+d)%s", reg, rule->cfa_off, add);
		return;
	case CFA_PLT:
		snprintf(ret, RULE_FORMAT_MAX, "plt(%s+8,%d)", reg, rule->cfa_off);
		return;
	case CFA_DEREF_SP_R9:
		snprintf(ret, RULE_FORMAT_MAX, "*(%s+r9*8%+d)%s", reg, rule->cfa_off, add);
		return;
	case CFA_SIGNAL:
		snprintf(ret, RULE_FORMAT_MAX, "signal");
		return;
	case CFA_UNDEFINED:
		if (rule->cfa_reg == RULE_NO_REG)
			snprintf(ret, RULE_FORMAT_MAX, "undef");
		else
			snprintf(ret, RULE_FORMAT_MAX, "%s%+d", reg, rule->cfa_off);
		return;
	case CFA_NONE:
		snprintf(ret, RULE_FORMAT_MAX, "none");
		return;
	case CFA_SWITCH:
		snprintf(ret, RULE_FORMAT_MAX, "switch(%s%+d)%s", reg, rule->cfa_off, add);
		return;
	case CFA_INTERPRETED:
		snprintf(ret, RULE_FORMAT_MAX, "interpreted");
		return;
	case CFA_ENTERED:
		if (rule->ra.kind == REG_REGISTER) {
			elf_register_name(reg, machine, rule->ra.reg);
			snprintf(ret, RULE_FORMAT_MAX, "entered(%s)", reg);
			return;
		}
		snprintf(ret, RULE_FORMAT_MAX, "entered(%s%+d)", reg, rule->cfa_off);
		return;
	case CFA_KEPT:
		snprintf(ret, RULE_FORMAT_MAX, "kept(%s,%d)%s", reg, rule->cfa_off, add);
		return;
	case CFA_ALIGNED:
		snprintf(ret, RULE_FORMAT_MAX, "aligned(%s%+d)", reg, rule->cfa_off);
		return;
	case CFA_UNSUPPORTED:
		break;
	}
	snprintf(ret, RULE_FORMAT_MAX, "unsupported");
}

static void reg_rule(char ret[RULE_FORMAT_MAX], uint16_t machine, const struct elf_reg_rule *rule)
{
	char reg[ELF_REGISTER_NAME_MAX];

	elf_register_name(reg, machine, rule->reg);
	switch ((enum reg_rule_kind)rule->kind) {
	case REG_SAME:
		snprintf(ret, RULE_FORMAT_MAX, "same");
		return;
	case REG_CFA_OFF:
		snprintf(ret, RULE_FORMAT_MAX, "cfa%+d", rule->off);
		return;
	case REG_UNDEFINED:
		snprintf(ret, RULE_FORMAT_MAX, "undef");
		return;
	case REG_DEREF_REG:
		snprintf(ret, RULE_FORMAT_MAX, "*(%s%+d)", reg, rule->off);
		return;
	case REG_REGISTER:
		snprintf(ret, RULE_FORMAT_MAX, "%s", reg);
		return;
	case REG_UNSUPPORTED:
		break;
	}
	snprintf(ret, RULE_FORMAT_MAX, "unsupported");
}

void rule_format_fp(char ret[RULE_FORMAT_MAX], uint16_t machine, const struct elf_rule *rule)
{
	reg_rule(ret, machine, &rule->fp);
}

void rule_format_ra(char ret[RULE_FORMAT_MAX], uint16_t machine, const struct elf_rule *rule)
{
	if (rule->ra.kind == REG_SAME && machine == EM_AARCH64)
		snprintf(ret, RULE_FORMAT_MAX, "x30");
	else
		reg_rule(ret, machine, &rule->ra);
}
