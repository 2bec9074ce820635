// SPDX-License-Identifier: Apache-2.0
/*
 * An assembly of .NET in a process's memory: a file in the PE format, mapped as it is or laid out by its
 * sections, with the tables of its metadata, from which come the names of its methods. ECMA-335, partition
 * II, 22 to 25. Every byte is foreign. Rank 1.
 */
#ifndef PROFLET_ELF_DOTNET_IMAGE_H
#define PROFLET_ELF_DOTNET_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/runtime/dotnet_pdb.h"
#include "agent/elf/runtime/vm_memory.h"

#define DOTNET_SECTIONS_MAX 32u
#define DOTNET_TABLES 0x2du

struct dotnet_section {
	uint32_t rva, bytes, file_offset, file_bytes;
};

struct dotnet_table {
	uint64_t at;	      /* process address of the first row */
	uint32_t rows, bytes; /* bytes: of one */
};

struct dotnet_image {
	uint64_t base; /* process address */
	bool as_file;  /* sections are where they are in the file */
	uint32_t n_sections;
	struct dotnet_section sections[DOTNET_SECTIONS_MAX];
	uint32_t ready, ready_bytes; /* RVA of the header of code that was compiled ahead; 0: none */
	uint32_t debug, debug_bytes; /* RVA of the directory of debug information */
	uint64_t strings;	     /* process address */
	uint32_t string_bytes;
	uint8_t heaps; /* which heaps have indices of 4 bytes */
	struct dotnet_table tables[DOTNET_TABLES];
};

/* The portable PDB file of an assembly (dotnet_pdb.h). */
struct dotnet_symbols {
	uint8_t id[DOTNET_PDB_ID_BYTES]; /* that the file has, too */
	char name[VM_TEXT_MAX];		 /* without folders; "": none */
	uint64_t packed; /* process address of the file, deflated; 0: it is not in the assembly */
	uint32_t packed_bytes, bytes;
};

/* 0; -ENOTSUP: it is no assembly, or none of the usual form; errors of vm_read. */
int dotnet_image_read(struct dotnet_image *ret, struct vm_memory *m, uint64_t base);
/* The process address of a relative virtual address; 0: no section has all of these bytes. */
uint64_t dotnet_image_address(const struct dotnet_image *image, uint32_t rva, uint32_t bytes);
/*
 * "Namespace.Type.Method" of the method in that row (from 1) of the table of methods; nested types follow the
 * outer one. What does not fit is cut. 0; -ENOTSUP: there is no such method; errors of vm_read.
 */
int dotnet_image_method(const struct dotnet_image *image, struct vm_memory *m, uint32_t row, char *to,
			size_t size);

/* 0; -ENOENT: there is no such file; errors of vm_read. */
int dotnet_image_symbols(const struct dotnet_image *image, struct vm_memory *m, struct dotnet_symbols *ret);

#endif
