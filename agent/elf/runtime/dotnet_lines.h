// SPDX-License-Identifier: Apache-2.0
/*
 * Source lines of functions of .NET: what the runtime says of their machine code (dotnet_il_map.h) and the
 * file of an assembly's lines (dotnet_pdb.h), which is beside the assembly or in it. Rank 1.
 */
#ifndef PROFLET_ELF_DOTNET_LINES_H
#define PROFLET_ELF_DOTNET_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/runtime/dotnet_il_map.h"
#include "agent/elf/runtime/dotnet_pdb.h"

struct dotnet_lines_file;
struct dotnet_place;
struct dotnet_reader;

#define DOTNET_LINES_FILES_MAX 32u /* of one process; of further assemblies, no lines are known */

/* Up to `end`, bytes from the function's start, the code is of that line; 0: not known. */
struct dotnet_line {
	uint32_t end, line;
};

struct dotnet_lines {
	uint32_t n; /* in ascending order; the last one ends with the function */
	struct dotnet_line v[DOTNET_IL_PLACES_MAX + 1];
	char document[VM_TEXT_MAX];
	struct dotnet_il_map map; /* private, as what follows */
	struct dotnet_points points;
};

/* The files of assemblies, opened when a line of theirs is wanted. */
struct dotnet_lines_files {
	/*
	 * Opens the file of that name beside the assembly whose image is at `base`. Returns a descriptor for
	 * reading, owned by the caller, or -errno. NULL: none can be opened.
	 */
	int (*open)(uint64_t base, const char *name, void *data);
	void *data;
	size_t n;
	struct {
		uint64_t base;
		struct dotnet_lines_file *file; /* owned; NULL: there is none */
	} v[DOTNET_LINES_FILES_MAX];
};

void dotnet_lines_files_fini(struct dotnet_lines_files *f);
/*
 * Finds the lines of the function. 0; -ENOENT: none are known; -ENOTSUP: something is not as expected;
 * -ENOMEM; errors of vm_read.
 */
int dotnet_lines_read(struct dotnet_lines *ret, const struct dotnet_place *p, struct dotnet_reader *r,
		      struct dotnet_lines_files *files);

#endif
