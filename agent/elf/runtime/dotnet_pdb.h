// SPDX-License-Identifier: Apache-2.0
/*
 * Source lines of .NET's methods: a portable PDB file, which compilers write beside an assembly or into it.
 * dotnet/runtime, docs/design/specs/PortablePdb-Metadata.md. Every byte is foreign. Rank 1.
 */
#ifndef PROFLET_ELF_DOTNET_PDB_H
#define PROFLET_ELF_DOTNET_PDB_H

#include <stdint.h>

#include "agent/elf/runtime/vm_memory.h"

#define DOTNET_PDB_ID_BYTES 20u
#define DOTNET_PDB_MAX (32u << 20) /* bytes; of larger files in assemblies, no lines are known */
#define DOTNET_POINTS_MAX 8192u	   /* of one method */
#define DOTNET_DOCUMENT_MAX 1024u  /* bytes of a path; of longer ones, the end is kept */

/* The bytecode from `il` on is that of the line; 0: of a line of another document. */
struct dotnet_point {
	uint32_t il, line;
};

struct dotnet_points {
	uint32_t n; /* in ascending order */
	struct dotnet_point v[DOTNET_POINTS_MAX];
	char document[VM_TEXT_MAX]; /* the path that the compiler had */
};

struct dotnet_pdb {
	struct vm_memory file; /* an address is an offset; the caller's: how it is read */
	uint64_t documents, methods, blobs;
	uint32_t n_documents, n_methods, document_bytes, method_bytes, blob_bytes;
	uint8_t blob_index_bytes;
};

/*
 * Reads the file's tables; `file` is set, all else is zero. `id`: what the assembly says of its file,
 * DOTNET_PDB_ID_BYTES. 0; -ESTALE: it is another assembly's; -ENOTSUP: it is none that we know; errors of
 * vm_read.
 */
int dotnet_pdb_open(struct dotnet_pdb *pdb, const uint8_t *id);
/*
 * The lines of the method in that row (from 1) of the assembly's methods. 0, if there are none also;
 * -ENOTSUP: they are not as expected; errors of vm_read.
 */
int dotnet_pdb_points(struct dotnet_points *ret, struct dotnet_pdb *pdb, uint32_t row);

#endif
