// SPDX-License-Identifier: Apache-2.0
/*
 * Evaluates the DWARF expressions of call-frame rules (DWARF 5 sections 2.5.1 and 6.4.2) for 64-bit machines.
 * Supports the operations on the stack, constants, arithmetic, comparison, branches, registers and memory;
 * not those that need the object or the thread (DW_OP_addr, fbreg, call*, xderef*, entry_value ...). Pure and
 * safe on any bytes: runs at most EVALUATE_STEPS_MAX operations on at most EVALUATE_STACK_MAX values. Rank 1,
 * private to elf/.
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
	uint32_t known; /* bit n: register n is known; the values of others are meaningless */
};

struct frame_memory {
	int (*read)(void *data, void *to, uint32_t bytes,
		    uint64_t address); /* Reads memory of the process. 0, or negative. */
	void *data;
	uint32_t *operations; /* that may be run, in all expressions; NULL: no such limit */
};

/*
 * `initial` is the value on the stack at the start; NULL: the stack is empty. 0: *ret is the value on top;
 * -EINVAL (malformed, or a division by 0), -ENOTSUP (operation), -ENODATA (register unknown), -EFAULT (memory
 * cannot be read), -ELOOP (too many operations in it, or in all).
 */
int evaluate(const struct frame_registers *regs, const struct frame_memory *memory, struct cursor expr,
	     const uint64_t *initial, uint64_t *ret);

#endif
