// SPDX-License-Identifier: Apache-2.0
/*
 * Which instruction of a method's bytecode (IL) a piece of its machine code was made of, as .NET's runtime
 * keeps it for each compiled method. What was inlined belongs to the instruction that called it. Every byte
 * is foreign. Rank 1, private to elf/ and its tests.
 */
#ifndef PROFLET_ELF_DOTNET_IL_MAP_H
#define PROFLET_ELF_DOTNET_IL_MAP_H

#include <stdint.h>

struct vm_memory;

#define DOTNET_IL_PLACES_MAX 8191u /* of one method; of more, none are known */

/* In place of an instruction. */
#define DOTNET_IL_EPILOGUE 0xfffffffdu
#define DOTNET_IL_PROLOGUE 0xfffffffeu
#define DOTNET_IL_NONE 0xffffffffu

/* From `native` on, bytes from the method's first instruction, the code is that of `il`. */
struct dotnet_il_place {
	uint32_t native, il;
};

struct dotnet_il_map {
	uint32_t n; /* in ascending order of `native`; of equal ones, the last one holds */
	struct dotnet_il_place v[DOTNET_IL_PLACES_MAX];
};

/* How it is encoded. */
enum dotnet_il_form {
	DOTNET_IL_COMPILED = 1, /* by the runtime: with other information in front of it */
	DOTNET_IL_PACKED = 2,	/* in bits, from .NET 10 on */
};

/*
 * Reads the debug information of a method at `address`; `form`: of enum dotnet_il_form. 0, if there is no map
 * also; -ENOTSUP: it is not as expected; errors of vm_read.
 */
int dotnet_il_map_read(struct dotnet_il_map *ret, struct vm_memory *m, uint64_t address, unsigned form);

#endif
