// SPDX-License-Identifier: Apache-2.0
/* Reads the lines of a file, of a string, or of the output of a program. */
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

/*
 * Open functions return 0 or -errno; call lines_close() in both cases. `argv` ends with NULL; argv[0] is
 * searched in PATH; the program runs with LC_ALL=C.
 */
int lines_open_command(struct lines *l, char *const argv[]);
int lines_open_file(struct lines *l, const char *path);
int lines_open_string(struct lines *l, const char *s);
/*
 * The next line, without its end, valid until the next call; NULL at the end. Lines may be changed in place.
 */
char *lines_next(struct lines *l, size_t *ret_len);
/*
 * Ends the program if it still runs. Returns its exit code, negative if a signal ended it; 0 if there is no
 * program, or its output was not read to the end.
 */
int lines_close(struct lines *l);
/*
 * The first line of its standard error that contains none of `except` (ends with NULL), or "". To be called
 * after lines_next() returned NULL. Truncated to fit.
 */
void lines_error(const struct lines *l, const char *const except[], char *ret, size_t size);

#endif
