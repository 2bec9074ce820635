// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the complete rule of an address that no FDE covers, for one kind of function whose instructions show
 * it easily: a helper in assembly that does not change the stack pointer, calls nothing and is called
 * directly. Its caller may have its CFA in a register that the helper does not write (x264's transforms).
 * Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_LEAF_RULE_H
#define PROFLET_ELF_LEAF_RULE_H

#include <stddef.h>
#include <stdint.h>

struct elf_image;
struct frame_query;

/*
 * Sets query->rule and the range of the function for query->va: the CFA is rsp + 8, and every register is
 * either unchanged or unknown. x86-64 only. 0; -ENOENT when there is no such function; -ENOMEM.
 */
int leaf_rule_find(const struct elf_image *img, struct frame_query *query);
/* The same in `n` bytes of code at `va`; only calls in these bytes are considered. 0 or -ENOENT. */
int leaf_rule_in_code(const uint8_t *code, size_t n, uint64_t va, struct frame_query *query);

#endif
