// SPDX-License-Identifier: Apache-2.0
/* The complete rules of single addresses of a file: from its call-frame information, or from its code. */
#ifndef PROFLET_ELF_RULE_LOOKUP_H
#define PROFLET_ELF_RULE_LOOKUP_H

#include "agent/elf/cfi/frame_rule.h"

struct elf_image;

/*
 * Finds the rules of n addresses, by one pass over .eh_frame, and one over .debug_frame for what is missing
 * (not in Go's binaries, whose functions preserve no register whatever it says); then from the instructions
 * of a leaf function (leaf_rule.h). 0 with query[].error set;
 * else for all of them: -ENOTSUP (machine), -ENOMEM, -errno of the read.
 */
int frame_rules_find(struct elf_image *img, struct frame_query *query, size_t n);

#endif
