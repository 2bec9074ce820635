// SPDX-License-Identifier: Apache-2.0
/*
 * DWARF expressions of call-frame rules, evaluated: DWARF 5 sections 2.5.1 and 6.4.2, for 64-bit machines.
 * All operations on the stack, constants, arithmetic, comparison, branches, registers and memory; none that
 * needs the object or thread (DW_OP_addr, fbreg, call*, xderef*, entry_value ...). Pure, safe on any bytes:
 * at most EVALUATE_STEPS_MAX operations and EVALUATE_STACK_MAX values. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_EVALUATE_H
#define PROFLET_ELF_EVALUATE_H

#include <stdint.h>

#include "agent/elf/file/cursor.h"

#define FRAME_REGISTERS 32u

#define EVALUATE_STEPS_MAX 1000
#define EVALUATE_STACK_MAX 64

struct frame_registers {
	uint64_t value[FRAME_REGISTERS];
	uint32_t known; /* by bit; the others have no meaning */
};

struct frame_memory {
	int (*read)(void *data, void *to, uint32_t bytes, uint64_t address); /* 0, or < 0 */
	void *data;
};

/*
 * `initial`: what stands on the stack before, NULL: nothing. 0 with the value on top in *ret; -EINVAL
 * (malformed, or a division by 0), -ENOTSUP (operation), -ENODATA (register unknown), -EFAULT (memory not
 * there), -ELOOP (too many operations).
 */
int evaluate(const struct frame_registers *regs, const struct frame_memory *memory, struct cursor expr,
	     const uint64_t *initial, uint64_t *ret);

#endif
