// SPDX-License-Identifier: Apache-2.0
/*
 * Code of an assembly of .NET that was compiled ahead of time ("ready to run"): its functions, and which
 * method of the assembly each is. The format is that of dotnet/runtime,
 * docs/design/coreclr/botr/readytorun-format.md; of images with several assemblies in them (composite ones),
 * functions are found, but not their methods. Every byte is foreign. Rank 1.
 */
#ifndef PROFLET_ELF_DOTNET_READY_H
#define PROFLET_ELF_DOTNET_READY_H

#include <stdint.h>

#include "agent/elf/runtime/dotnet_image.h"

struct dotnet_ready {
	uint64_t functions;	   /* process address of the table of functions */
	uint32_t n;		   /* of them */
	uint32_t rva[3], bytes[3]; /* of the lists: methods, instances, debug information; 0: there is none */
	uint32_t major;		   /* version of the format */
	/* The method's row of each function; 0: it belongs to the one before. Owned; NULL: not read yet. */
	uint32_t *methods;
	uint8_t *debug; /* a copy of the list of debug information; owned; NULL: not read yet */
};

/* struct RUNTIME_FUNCTION; addresses are relative to the image's base */
struct dotnet_function {
	uint32_t start, end, unwind;
};

/* 0; -ENOTSUP: there is no such code; -ENOMEM; errors of vm_read. */
int dotnet_ready_read(struct dotnet_ready *ret, const struct dotnet_image *image, struct vm_memory *m);
void dotnet_ready_fini(struct dotnet_ready *r);
/* The function at a relative address, and its place in the table. 0; -ENOENT: there is none. */
int dotnet_ready_find(const struct dotnet_ready *r, struct vm_memory *m, uint32_t rva,
		      struct dotnet_function *ret, uint32_t *ret_index);
/*
 * The method that the function is, or is a part of; *ret 0: not known. The first call reads the lists of all
 * methods. 0; -ENOMEM; errors of vm_read.
 */
int dotnet_ready_method(struct dotnet_ready *r, const struct dotnet_image *image, struct vm_memory *m,
			uint32_t index, uint32_t *ret);

/*
 * Of a function that dotnet_ready_method has found the method of: the method's debug information
 * (dotnet_il_map.h), and where its code begins. 0; -ENOENT: there is none; -ENOMEM; errors of vm_read.
 */
int dotnet_ready_debug(struct dotnet_ready *r, const struct dotnet_image *image, struct vm_memory *m,
		       uint32_t index, uint64_t *ret, uint32_t *ret_start);

#endif
