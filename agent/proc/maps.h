// SPDX-License-Identifier: Apache-2.0
/*
 * Reads /proc/<pid>/maps line by line (proc_pid_maps(5)). The parser is a pure function over bytes. Rank 1;
 * may include base. Owns nothing; a line and its path are borrowed until the callback returns.
 */
#ifndef PROFLET_PROC_MAPS_H
#define PROFLET_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer lines are dropped. A path of PATH_MAX bytes fits even if each byte is escaped. */
#define PROC_MAPS_LINE_MAX 32768u

struct proc_maps_line {
	uint64_t start, end; /* process addresses, start < end */
	uint64_t offset;     /* of `start` in the file, bytes */
	uint64_t inode;	     /* 0: no file */
	uint32_t dev_major, dev_minor;
	bool readable, writable, executable, shared;
	bool deleted;	  /* the path ended in " (deleted)", which is not part of `path` */
	bool escaped;	  /* the path has \ooo, see proc_maps_path */
	const char *path; /* not NUL terminated; a file, "[vdso]", "anon_inode:…"; NULL for none */
	size_t path_len;
};

/*
 * Parses one line without its newline. 0; -EINVAL: it is not a valid line, or has a newline or NUL. A file
 * whose own name ends in " (deleted)" looks like a deleted one, because the kernel does not escape it.
 */
int proc_maps_parse_line(const char *line, size_t len, struct proc_maps_line *ret);

/*
 * The path as the file system has it, NUL terminated; *ret is owned by the caller. Decodes \012 where
 * `escaped` is set: the kernel escapes only the newline, and not the backslash. 0, -ENOENT for a line without
 * a path, or -ENOMEM.
 */
int proc_maps_path(const struct proc_maps_line *line, char **ret);

/* Called for each mapping. < 0 stops the reading. */
typedef int (*proc_maps_fn)(const struct proc_maps_line *line, void *data);

/*
 * Calls fn for each executable mapping of the process, in ascending order, in constant memory. Kernel threads
 * and zombies have none; if only the main thread has ended, the mappings are read from another thread.
 * Returns the number of lines dropped because they were malformed or longer than PROC_MAPS_LINE_MAX (0 with
 * any known kernel), fn's negative result, -ESRCH when the process is gone (fn may have been called for some
 * mappings), -EACCES or -EPERM without the right to ptrace it, -ENOMEM, or another -errno.
 */
int proc_maps_read(int proc_fd, uint32_t pid, proc_maps_fn fn, void *data);
/* The same for all mappings, executable or not. */
int proc_maps_read_all(int proc_fd, uint32_t pid, proc_maps_fn fn, void *data);

#endif
