// SPDX-License-Identifier: Apache-2.0
/* Is the code that a process has in memory that of a file? Rank 1; may include base. Owns nothing. */
#ifndef PROFLET_PROC_TEXT_H
#define PROFLET_PROC_TEXT_H

#include <stdint.h>

enum proc_text {
	PROC_TEXT_SAME,	 /* three quarters of the samples or more: a program may patch some of its own code */
	PROC_TEXT_OTHER, /* something else, or nothing yet */
	PROC_TEXT_UNKNOWN, /* it cannot be read, or holds nothing that would tell: only padding */
};

/*
 * Compares samples of [start, start + len), addresses of the process, with the bytes of `fd` from `offset`
 * on. Reads a few KiB, whatever the length. It may block as long as what backs that memory does.
 */
enum proc_text proc_text_compare(int proc_fd, uint32_t pid, uint64_t start, uint64_t len, int fd,
				 uint64_t offset);

#endif
