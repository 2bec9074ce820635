// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the function at an address of code that BEAM's JIT has made. Each loaded module has a header at the
 * beginning of its code, with the addresses of its functions in ascending order; in front of the code of a
 * function, its module, name and arity (ErtsCodeInfo). A table has the ranges of all modules, three times, so
 * that one can be changed while another is used. No symbol leads to it: it is recognised by its shape. Pure
 * but for the memory that it is given. Rank 1.
 */
#ifndef PROFLET_ELF_BEAM_CODE_H
#define PROFLET_ELF_BEAM_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/runtime/vm_memory.h"

#define BEAM_INFO_BYTES 40u /* of what is in front of a function's code */

/*
 * Process addresses of what struct beam_facts names. The first four are 0 where the file does not say where
 * they are.
 */
struct beam_vm {
	uint64_t code_index, atom_table, normal_exit, frame_layout, data_start, data_end;
};

/* What was found in the process's memory. */
struct beam_layout {
	uint64_t ranges;  /* the three tables of modules; 0: not looked for yet */
	uint64_t atoms;	  /* the array of pointers to atoms, in pieces of 1,024 */
	uint64_t exit;	  /* the code that the outermost function of a process returns to */
	uint32_t records; /* 1: functions make frame records */
	uint32_t terms;	  /* 1: the text of an atom is a term, on a heap */
};

struct beam_function {
	uint64_t start, end;	/* with what is in front of its code */
	char name[VM_TEXT_MAX]; /* "module:function/arity" */
};

/*
 * Looks for the tables. 0; -EAGAIN: the virtual machine is not ready; -ENOTSUP: nothing has the shape of the
 * tables, or several things; errors of vm_read.
 */
int beam_layout_read(struct beam_layout *ret, struct vm_memory *m, const struct beam_vm *vm);
/* Whether a layout, which a parser process has sent, is such as beam_layout_read gives. */
bool beam_layout_valid(const struct beam_layout *l);
/* 0; -ENOENT: no module has the address; -ENOTSUP: its header is not as expected; errors of vm_read. */
int beam_function_find(struct beam_function *ret, struct vm_memory *m, const struct beam_vm *vm,
		       const struct beam_layout *l, uint64_t address);

#endif
