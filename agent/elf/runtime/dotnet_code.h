// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the function at an address of code that .NET's runtime has compiled, at run time or ahead of it, and
 * the name of its method. The offsets are those of .NET 8 to 10, and are checked where they are used: what
 * does not lead back to the address is refused. Pure but for the memory that it is given. Rank 1.
 */
#ifndef PROFLET_ELF_DOTNET_CODE_H
#define PROFLET_ELF_DOTNET_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/runtime/dotnet_image.h"
#include "agent/elf/runtime/dotnet_ready.h"
#include "agent/elf/runtime/vm_memory.h"

#define DOTNET_IMAGES_MAX 32u  /* assemblies that are kept */
#define DOTNET_UNWIND_MAX 516u /* bytes of unwind information */

/* Where the tables are, and of what form. */
struct dotnet_vm {
	uint64_t dac_table; /* process address of g_dacTable; 0: there is no .NET */
	uint64_t major;	    /* version: 9 */
};

struct dotnet_assembly {
	struct dotnet_image image;
	struct dotnet_ready ready; /* `n` 0: not read */
	int result, ready_result;  /* of reading the image; of reading `ready` */
};

/* Reads one process; with all zero but memory, vm: nothing was read yet. */
struct dotnet_reader {
	struct vm_memory memory;
	struct dotnet_vm vm;
	uint64_t ranges; /* the map of ranges with code; 0: not read yet */
	size_t n;
	struct dotnet_assembly *assemblies; /* DOTNET_IMAGES_MAX; owned */
};

enum dotnet_place_kind {
	DOTNET_METHOD, /* a function that is a method, or one of its handlers */
	DOTNET_STUB,   /* code without frames, a page of which is one place */
};

/* A function; addresses are the process's. */
struct dotnet_place {
	enum dotnet_place_kind kind;
	bool freed; /* its code may be freed at any time: a method without metadata, or of an assembly that may go */
	uint64_t start, end;
	uint64_t unwind;   /* its unwind information; 0: a stub */
	uint64_t method;   /* the object of the method (MethodDesc); 0: it was compiled ahead of time */
	uint64_t dynamic;  /* the name of a method without metadata; 0: it has some */
	uint64_t image;	   /* base of the assembly with its metadata; 0: not known */
	uint32_t function; /* compiled ahead of time: which function of the assembly it is */
	uint32_t row;	   /* else the method's in the metadata */
	uint64_t code;	   /* where the method begins that the function is, or a part of; 0: compiled ahead */
	uint64_t debug;	   /* the method's debug information; 0: there is none, or it was compiled ahead */
};

/*
 * Finds the tables. 0; -EAGAIN: the runtime is not ready; -ENOTSUP: the tables are not as expected; -ENOMEM;
 * errors of vm_read.
 */
int dotnet_reader_init(struct dotnet_reader *r);
void dotnet_reader_fini(struct dotnet_reader *r);
/*
 * 0; -ENOENT: the runtime has no function there, or code that it does not describe; -ENOTSUP: what there is
 * is not as expected; -ENOMEM; errors of vm_read.
 */
int dotnet_place_find(struct dotnet_place *ret, struct dotnet_reader *r, uint64_t address);
/* The assembly with the place's method, borrowed, and the method's row. Errors as of dotnet_place_name. */
int dotnet_place_method(const struct dotnet_place *p, struct dotnet_reader *r, struct dotnet_assembly **ret,
			uint32_t *ret_row);
/* The name of the place's method. 0; -ENOTSUP: it has none that can be found; otherwise as above. */
int dotnet_place_name(const struct dotnet_place *p, struct dotnet_reader *r, char *to, size_t size);

#endif
