// SPDX-License-Identifier: Apache-2.0
/*
 * The complete rule of an address that no FDE covers, for the one kind of function for which its instructions
 * tell it at a glance: a helper in assembly that leaves the stack pointer alone, calls nothing and is called
 * by name. What calls it may have its CFA in a register that the helper keeps (x264's transforms). Rank 1,
 * private to elf/.
 */
#ifndef PROFLET_ELF_LEAF_RULE_H
#define PROFLET_ELF_LEAF_RULE_H

#include <stddef.h>
#include <stdint.h>

struct elf_image;
struct frame_query;

/*
 * Sets query->rule and its function's range for query->va: CFA is rsp + 8, every register is where it was or
 * unknown. x86-64. 0; -ENOENT when there is no such function, -ENOMEM.
 */
int leaf_rule_find(const struct elf_image *img, struct frame_query *query);
/* The same in `n` bytes of code at `va`, with the calls that are in it. 0 or -ENOENT. */
int leaf_rule_in_code(const uint8_t *code, size_t n, uint64_t va, struct frame_query *query);

#endif
