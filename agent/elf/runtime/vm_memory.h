// SPDX-License-Identifier: Apache-2.0
/*
 * Reads another process's memory for the decoders of virtual machines' objects: page by page, each page once,
 * and a bounded number of them. Every byte is foreign. Rank 1, private to elf/ and its tests.
 */
#ifndef PROFLET_ELF_VM_MEMORY_H
#define PROFLET_ELF_VM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VM_ADDRESS_MAX (1ull << 48) /* behind all addresses of programs: arm64, which has the most of them */
#define VM_PIECE_BYTES 4096u
#define VM_PIECES 64u	    /* that are kept */
#define VM_READS_MAX 32768u /* pages that are read for one job */
#define VM_TEXT_MAX 256u    /* bytes of a string or symbol, with its NUL; longer ones are cut */

struct vm_memory {
	/* Reads one page. 0; -EFAULT: it is not there. */
	int (*read)(void *to, uint64_t address, void *data);
	void *data;
	unsigned reads; /* that were made */
	struct {
		uint64_t address;
		int result;
		bool filled;
		uint8_t bytes[VM_PIECE_BYTES];
	} pages[VM_PIECES];
};

/* `read` for /proc/PID/mem: `data` points to its descriptor. */
int vm_memory_pread(void *to, uint64_t address, void *data);
/* Pages are read anew from now on: what was read before may be older than what has just been read. */
void vm_memory_forget(struct vm_memory *m);
/* 0; -EFAULT: some of it is not there; -E2BIG: too much was read already. */
int vm_read(struct vm_memory *m, void *to, uint64_t address, size_t n);
/* The same for one number: of 1, 2, 4 or 8 bytes. */
int vm_read_number(struct vm_memory *m, uint64_t *ret, uint64_t address, unsigned bytes);
/* Reads a string that ends with NUL, cut to `size` - 1 bytes. Errors as above. */
int vm_read_string(struct vm_memory *m, char *to, size_t size, uint64_t address);

#endif
