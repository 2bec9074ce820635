// SPDX-License-Identifier: Apache-2.0
/*
 * The streams of .NET's metadata, which assemblies and portable PDB files have alike: ECMA-335, partition II,
 * 24.2.1 and 24.2.2. Every byte is foreign. Rank 1, private to elf/runtime.
 */
#ifndef PROFLET_ELF_DOTNET_METADATA_H
#define PROFLET_ELF_DOTNET_METADATA_H

#include <stddef.h>
#include <stdint.h>

struct vm_memory;

#define DOTNET_METADATA_MAX (1u << 30) /* bytes */
#define DOTNET_ROWS_MAX (1u << 24)     /* of a table: a token has 24 bits for the row */

struct dotnet_stream {
	const char *name; /* "#~" */
	uint64_t at;	  /* 0: there is none */
	uint32_t bytes;
};

/*
 * Finds the streams of the metadata that begins at `root`, `n` of them, by their names. 0; -ENOTSUP: it is no
 * metadata; errors of vm_read.
 */
int dotnet_streams_find(struct dotnet_stream *streams, size_t n, struct vm_memory *m, uint64_t root);
/* Reads a number of 1, 2 or 4 bytes (II.23.2), and moves *at behind it. Errors of vm_read. */
int dotnet_number_read(uint32_t *ret, struct vm_memory *m, uint64_t *at);
/* The same of one that may be negative. */
int dotnet_signed_read(int32_t *ret, struct vm_memory *m, uint64_t *at);

#endif
