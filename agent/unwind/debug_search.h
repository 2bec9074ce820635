// SPDX-License-Identifier: Apache-2.0
/*
 * Opens files that may be the debug file of a binary, in the file system of a process that has the binary
 * mapped. Which ones, says whoever reads the binary, and it may be a tenant who makes it say so
 * (agent/parser): so only regular files are opened, below the process's root, and only at the places where
 * debug files are (agent/elf/file/debuglink.h).
 *
 * What is found is used for the binary wherever it runs, so the process whose root it is must not choose it
 * for others: the file belongs to root or to the owner of the binary, and it is in the file system of the
 * binary, or the process sees the file systems that the host sees. A debug file that fits is no proof, since
 * everyone can give a file another's build id.
 */
#ifndef PROFLET_UNWIND_DEBUG_SEARCH_H
#define PROFLET_UNWIND_DEBUG_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/parser/parser.h"

struct proc_root;

struct debug_search {
	const struct proc_root *root; /* borrowed; NULL: nothing is found */
	const char *binary;	      /* its path below the root; borrowed */
	bool has_file;
	uint64_t dev; /* of the binary, if has_file; else nothing is found */
	uint32_t uid;
	int fds[PARSER_QUERIES_MAX]; /* of what was opened, with O_PATH; owned; -1 */
	unsigned n;
};

/* `fd` is that of the binary, `path` that in /proc/<pid>/maps. */
void debug_search_init(struct debug_search *s, const struct proc_root *root, int fd, const char *path);
void debug_search_fini(struct debug_search *s);
/*
 * Opens one path; `data` is the search. Returns a descriptor for reading, owned by the caller, or -errno;
 * -EACCES: no debug file may be there; -EPERM: others could have written it; -E2BIG: too many.
 */
int debug_search_open(const char *path, void *data);
/* The same for parser_call: the query is the path, without NUL. */
int debug_search_answer(const void *query, size_t len, void *data);
/* Takes the descriptor, with O_PATH, of the n-th path that was opened, from 0 on. -1: there is none. */
int debug_search_take(struct debug_search *s, unsigned number);

#endif
