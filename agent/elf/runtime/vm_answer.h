// SPDX-License-Identifier: Apache-2.0
/*
 * What is wanted of a virtual machine, each a struct vm_wanted, and what a look at it gives, as flat
 * bytes: one struct vm_found for each wish, behind it its rows (struct memory_row), behind these its
 * names: u64 numbers of methods, of scopes, of places, then for each method its address (u64), name and file
 * (strings of flat.h), then the scopes and the places (hotspot_names.h). Rank 1.
 */
#ifndef PROFLET_ELF_VM_ANSWER_H
#define PROFLET_ELF_VM_ANSWER_H

#include <stdint.h>

#include "agent/elf/runtime/hotspot_names.h"

enum vm_answer {
	VM_NOTHING, /* there is none, or it has changed */
	VM_CODE,
	VM_METHOD,
	VM_SAME, /* it is still the code that was meant */
	/*
	 * memory for code; there is none now, but other code may be soon. For a check: nowhere in the
	 * range
	 */
	VM_EMPTY,
	VM_NO_METHOD, /* the object that was meant is none */
	VM_ANSWERS,
};

enum vm_wish {
	VM_WANT_CODE,	/* the code at `address` */
	VM_WANT_METHOD, /* the name of the method whose object is there */
	VM_WANT_CHECK,	/* whether [address, end) is still the code of that compile_id */
};

struct vm_wanted {
	uint64_t address, end;
	uint32_t wish; /* enum vm_wish */
	uint32_t compile_id;
};

struct vm_found {
	uint64_t address;    /* that was wanted */
	uint64_t start, end; /* of the code, or of the method's bytecode; 0 without */
	uint32_t answer;     /* enum vm_answer */
	uint32_t kind;	     /* enum hotspot_code_kind */
	uint32_t compile_id;
	uint32_t n_rows;
	uint32_t freed; /* 1: the code may be freed at any time, and another have its place at once */
	uint32_t zero;
	uint64_t name_bytes;
};

#endif
