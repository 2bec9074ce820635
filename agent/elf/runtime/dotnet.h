// SPDX-License-Identifier: Apache-2.0
/*
 * .NET's runtime (CoreCLR) in an ELF file: libcoreclr.so, or a program that is a single file with everything
 * in it. Its methods are found by tables in the process's memory (dotnet_code.h), to which an exported
 * variable leads. Rank 1, pure.
 */
#ifndef PROFLET_ELF_DOTNET_H
#define PROFLET_ELF_DOTNET_H

#include <stdbool.h>
#include <stdint.h>

struct elf_image;

#define DOTNET_MAJOR_MIN 8u
#define DOTNET_MAJOR_MAX 10u

struct dotnet_facts {
	uint32_t version;   /* 9.0.7: 0x09000700; 0: no .NET in the file */
	uint32_t known;	    /* 1: methods of this version can be found */
	uint64_t dac_table; /* ELF virtual address of g_dacTable, addresses for debuggers */
};

/* 0; -ENOENT: the file has no .NET runtime; -ENOMEM. On failure, *ret is zeroed. */
int dotnet_facts_read(struct dotnet_facts *ret, struct elf_image *img);
/* Whether facts, which a parser process has sent, are such as dotnet_facts_read gives. */
bool dotnet_facts_valid(const struct dotnet_facts *f);

#endif
