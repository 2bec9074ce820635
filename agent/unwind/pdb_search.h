// SPDX-License-Identifier: Apache-2.0
/*
 * Opens the file with the source lines of an assembly of .NET: it is beside the assembly, in the file system
 * of the process that has this one mapped. Which name it has says the assembly, and so a tenant. What is
 * opened must therefore be a regular file that whoever made the assembly could have put there, and that
 * whoever may read the assembly may read. Files are opened in another process: a file system may not answer.
 */
#ifndef PROFLET_UNWIND_PDB_SEARCH_H
#define PROFLET_UNWIND_PDB_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/parser/parser.h"

#define PDB_NAME_MAX 255u
#define PDB_ABSENT_MAX 128u

/* Assemblies of a process that have no such file. Zeroed: none is known. */
struct pdb_absent {
	uint64_t base[PDB_ABSENT_MAX]; /* process addresses of their images */
	uint32_t n;		       /* PDB_ABSENT_MAX: nothing is looked for any more */
};

struct pdb_mapped;

/* The searches of one job. With all zero but the first three: none was made yet. */
struct pdb_search {
	uint32_t pid;
	int mem; /* /proc/PID/mem, borrowed: opened when the process was the one that is meant */
	struct pdb_absent *absent; /* borrowed */
	unsigned opened;	   /* files */
	bool has_maps;		   /* what follows is there */
	struct pdb_mapped *mapped; /* owned: the files that the process has mapped */
	size_t n, cap;
};

void pdb_search_fini(struct pdb_search *s);

/* What is queried: the name without NUL follows. */
struct pdb_query {
	uint64_t base; /* process address of the assembly's image */
};

extern const struct parser_operation pdb_open_operation;

/*
 * For parser_call, `data` is the search: returns a socket, on which the file is received by
 * parser_fd_receive, or -errno.
 */
int pdb_search_answer(const void *query, size_t len, void *data);

#endif
