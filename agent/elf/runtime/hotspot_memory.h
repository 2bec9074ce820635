// SPDX-License-Identifier: Apache-2.0
/*
 * Reads another process's memory for the decoders of HotSpot's objects: page by page, each page once, and a
 * bounded number of them. Every byte is foreign. Rank 1, private to elf/ and its tests.
 */
#ifndef PROFLET_ELF_HOTSPOT_MEMORY_H
#define PROFLET_ELF_HOTSPOT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOTSPOT_PIECE_BYTES 4096u
#define HOTSPOT_PIECES 64u	 /* that are kept */
#define HOTSPOT_READS_MAX 32768u /* pages that are read for one job */
#define HOTSPOT_TEXT_MAX 256u	 /* bytes of a string or symbol, with its NUL; longer ones are cut */

struct hotspot_memory {
	/* Reads one page. 0; -EFAULT: it is not there. */
	int (*read)(void *to, uint64_t address, void *data);
	void *data;
	unsigned reads; /* that were made */
	struct {
		uint64_t address;
		int result;
		bool filled;
		uint8_t bytes[HOTSPOT_PIECE_BYTES];
	} pages[HOTSPOT_PIECES];
};

/* `read` for /proc/PID/mem: `data` points to its descriptor. */
int hotspot_memory_pread(void *to, uint64_t address, void *data);
/* 0; -EFAULT: some of it is not there; -E2BIG: too much was read already. */
int hotspot_read(struct hotspot_memory *m, void *to, uint64_t address, size_t n);
/* The same for one number: of 1, 2, 4 or 8 bytes. */
int hotspot_read_number(struct hotspot_memory *m, uint64_t *ret, uint64_t address, unsigned bytes);
/* Reads a string that ends with NUL, cut to `size` - 1 bytes. Errors as above. */
int hotspot_read_string(struct hotspot_memory *m, char *to, size_t size, uint64_t address);

#endif
