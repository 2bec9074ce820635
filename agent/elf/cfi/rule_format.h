// SPDX-License-Identifier: Apache-2.0
/* Formats rules as `proflet tables` prints them. Rank 1. */
#ifndef PROFLET_ELF_RULE_FORMAT_H
#define PROFLET_ELF_RULE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/cfi/rule.h"

#define RULE_FORMAT_MAX 64 /* bytes of the longest text, with its NUL */

/*
 * "rsp+8", "*(rbp-56)", "*(rsp+8)+16", "*(rsp+r9*8+8)+8", "plt(rsp+8,11)", "switch(rbp+16)", "signal",
 * "none", "unsupported"; for the outermost frame its CFA if it has one, else "undef".
 */
void rule_format_cfa(char ret[RULE_FORMAT_MAX], uint16_t machine, const struct elf_rule *rule);
/* "same", "cfa-16", "*(rbp+0)", "undef", "unsupported" or a register. */
void rule_format_fp(char ret[RULE_FORMAT_MAX], uint16_t machine, const struct elf_rule *rule);
/*
 * The same for the return address. "undef" marks the outermost frame; on aarch64, "x30" is an unchanged one.
 */
void rule_format_ra(char ret[RULE_FORMAT_MAX], uint16_t machine, const struct elf_rule *rule);

#endif
