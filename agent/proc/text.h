// SPDX-License-Identifier: Apache-2.0
/* Compares the code in a process's memory with that of a file. Rank 1; may include base. Owns nothing. */
#ifndef PROFLET_PROC_TEXT_H
#define PROFLET_PROC_TEXT_H

#include <stdint.h>

enum proc_text {
	/* At least three quarters of the samples are equal: a program may patch some of its own code. */
	PROC_TEXT_SAME,
	PROC_TEXT_OTHER,   /* other bytes, or none written yet */
	PROC_TEXT_UNKNOWN, /* the memory cannot be read, or is only padding */
};

/*
 * Compares samples of [start, start + len), addresses of the process, with the bytes of `fd` from `offset`
 * on. Reads a few KiB, whatever the length. May block as long as the file system behind that memory does.
 */
enum proc_text proc_text_compare(int proc_fd, uint32_t pid, uint64_t start, uint64_t len, int fd,
				 uint64_t offset);

#endif
