// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the code that V8 has compiled at an address, and which functions are inlined where in it. The process
 * runs meanwhile, and every byte is foreign. Pure but for the memory that it is given. Rank 1.
 *
 * A Code object says where its instructions begin, and has a table of source positions: from which
 * instruction on the code is of which place in a script, and of which inlined function. Its
 * DeoptimizationData says of each of these which function it is, and where it was called.
 *
 *	instructions ─► Code ─► table of positions
 *	                  └─► DeoptimizationData ─► places of inlined calls, SharedFunctionInfos
 */
#ifndef PROFLET_ELF_RUNTIME_V8_INLINED_H
#define PROFLET_ELF_RUNTIME_V8_INLINED_H

#include <stdint.h>

#include "agent/elf/runtime/hotspot_names.h"
#include "agent/elf/runtime/vm_memory.h"

struct v8_layout;

#define V8_INLINED_MAX 1023u /* calls that are inlined into one function; of more, none is known */

struct v8_compiled {
	uint64_t start, end;	   /* of its instructions */
	uint64_t deopt, positions; /* pointers as V8 has them; a change of one means other code */
};

/* The code's own function is functions[0]; 0: it has none. */
struct v8_inlined {
	uint32_t n_places, n_scopes, n_functions;
	struct hotspot_place places[HOTSPOT_PLACES_MAX];
	struct hotspot_scope scopes[HOTSPOT_SCOPES_MAX]; /* without lines; `method`: index of a function */
	uint64_t functions[HOTSPOT_METHODS_MAX];	 /* SharedFunctionInfo, pointers as V8 has them */
};

/* 0; -ENOENT: the address is in no code that V8 has compiled; errors of vm_read. */
int v8_compiled_find(struct vm_memory *m, const struct v8_layout *l, uint64_t address,
		     struct v8_compiled *ret);
/*
 * The function that the code is of: a SharedFunctionInfo, a pointer as V8 has it. 0; -ENOENT: it has none;
 * errors of vm_read.
 */
int v8_compiled_function(struct vm_memory *m, const struct v8_layout *l, const struct v8_compiled *code,
			 uint64_t *ret);
/*
 * Of code without inlined functions, or where they are not as they should be, there is no place. 0; errors
 * of vm_read.
 */
int v8_inlined_read(struct vm_memory *m, const struct v8_layout *l, const struct v8_compiled *code,
		    struct v8_inlined *ret);

#endif
