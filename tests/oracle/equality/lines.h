// SPDX-License-Identifier: Apache-2.0
/* The lines of a file, of a string, or of what a program prints. */
#ifndef PROFLET_EQUALITY_LINES_H
#define PROFLET_EQUALITY_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct lines {
	int fd, error_fd; /* owned; -1: none */
	pid_t pid;	  /* of the program, 0: none */
	char *buf;	  /* owned */
	size_t at, end, cap;
	bool stop; /* nothing more to read */
};

/* Each: 0 or -errno; lines_close() in both cases. `argv` ends with NULL, [0] is looked for in PATH; the
 * program runs with LC_ALL=C. */
int lines_open_command(struct lines *l, char *const argv[]);
int lines_open_file(struct lines *l, const char *path);
int lines_open_string(struct lines *l, const char *s);
/* The next line, without its end, valid until the next call; NULL at the end. Lines may be changed in place.
 */
char *lines_next(struct lines *l, size_t *ret_len);
/* Ends the program if it still runs. Its exit code; 0 for what is no program or was not read to the end,
 * negative for one that a signal ended. */
int lines_close(struct lines *l);
/* The first line that the program wrote to its standard error and that contains none of `except` (ends with
 * NULL), "" if there is none. After lines_next() gave NULL. Truncated to fit. */
void lines_error(const struct lines *l, const char *const except[], char *ret, size_t size);

#endif
