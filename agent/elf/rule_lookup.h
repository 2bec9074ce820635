// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the complete rules of single addresses of a file, from its call-frame information or from its code.
 */
#ifndef PROFLET_ELF_RULE_LOOKUP_H
#define PROFLET_ELF_RULE_LOOKUP_H

#include "agent/elf/cfi/frame_rule.h"

struct elf_image;

/*
 * Finds the rules of n addresses. Reads .eh_frame once, then .debug_frame once for the addresses that
 * .eh_frame does not cover; not in Go binaries, where .debug_frame says that registers are preserved although
 * no Go function preserves any. What remains may be found by the instructions of a leaf function
 * (leaf_rule.h). 0: the result for each address is in query[].error; an error for all of them: -ENOTSUP
 * (machine), -ENOMEM, -errno of the read.
 */
int frame_rules_find(struct elf_image *img, struct frame_query *query, size_t n);

#endif
