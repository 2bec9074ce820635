// SPDX-License-Identifier: Apache-2.0
/*
 * /proc/<pid>/maps, line by line (proc_pid_maps(5)). The parser is a pure function over bytes. Rank 1; may
 * include base. Owns nothing; a line and its path are borrowed until the callback returns.
 */
#ifndef PROFLET_PROC_MAPS_H
#define PROFLET_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest line that proc_maps_read takes: a path of PATH_MAX bytes, each escaped, fits. */
#define PROC_MAPS_LINE_MAX 32768u

struct proc_maps_line {
	uint64_t start, end; /* process addresses, start < end */
	uint64_t offset;     /* of `start` in the file, bytes */
	uint64_t inode;	     /* 0: no file */
	uint32_t dev_major, dev_minor;
	bool readable, writable, executable, shared;
	bool deleted;	  /* the path ended in " (deleted)", which is not part of `path` */
	bool escaped;	  /* the path holds \ooo, see proc_maps_path */
	const char *path; /* not NUL terminated; a file, "[vdso]", "anon_inode:…"; NULL for none */
	size_t path_len;
};

/*
 * Parses one line without its newline. 0, or -EINVAL: not such a line, or it holds a newline or NUL.
 * A file whose own name ends in " (deleted)" cannot be told from a deleted one; the kernel does not escape
 * it.
 */
int proc_maps_parse_line(const char *line, size_t len, struct proc_maps_line *ret);

/*
 * The path as the file system has it, NUL terminated, *ret the caller's to free: \ooo is decoded where
 * `escaped` says so. The kernel escapes the newline only and leaves a backslash alone, so just \012 is
 * decoded. 0, -ENOENT for a line without a path, or -ENOMEM.
 */
int proc_maps_path(const struct proc_maps_line *line, char **ret);

/* Returns < 0 to stop. */
typedef int (*proc_maps_fn)(const struct proc_maps_line *line, void *data);

/*
 * Calls fn for each executable mapping of the process, in ascending order, in constant memory. Kernel threads
 * and zombies have none; where only the main thread has ended, the mappings come from another thread.
 * Returns the number of lines dropped because they were malformed or longer than PROC_MAPS_LINE_MAX (0 with
 * any kernel known), fn's own negative value, -ESRCH when the process is gone (fn may have been called for a
 * part), -EACCES or -EPERM without the right to ptrace it, -ENOMEM, or another -errno.
 */
int proc_maps_read(int proc_fd, uint32_t pid, proc_maps_fn fn, void *data);
/* The same for every mapping. */
int proc_maps_read_all(int proc_fd, uint32_t pid, proc_maps_fn fn, void *data);

#endif
