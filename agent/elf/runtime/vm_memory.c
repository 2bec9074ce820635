// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/vm_memory.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int vm_memory_pread(void *to, uint64_t address, void *data)
{
	const int *fd = data;

	return pread(*fd, to, VM_PIECE_BYTES, (off_t)address) == VM_PIECE_BYTES ? 0 : -EFAULT;
}

void vm_memory_forget(struct vm_memory *m)
{
	for (unsigned i = 0; i < VM_PIECES; i++)
		m->pages[i].filled = false;
}

/* The bytes of a page; NULL: *error. */
static const uint8_t *page_of(struct vm_memory *m, uint64_t address, int *error)
{
	const size_t i = address / VM_PIECE_BYTES % VM_PIECES;

	address -= address % VM_PIECE_BYTES;
	if (!m->pages[i].filled || m->pages[i].address != address) {
		if (m->reads == VM_READS_MAX) {
			*error = -E2BIG;
			return NULL;
		}
		m->reads++;
		m->pages[i].address = address;
		m->pages[i].filled = true;
		m->pages[i].result = m->read(m->pages[i].bytes, address, m->data);
	}
	*error = m->pages[i].result;
	return *error ? NULL : m->pages[i].bytes;
}

int vm_read(struct vm_memory *m, void *to, uint64_t address, size_t n)
{
	uint8_t *at = to;
	int error;

	if (address >= VM_ADDRESS_MAX || n > VM_ADDRESS_MAX - address)
		return -EFAULT;
	while (n) {
		const size_t off = address % VM_PIECE_BYTES;
		const size_t part = n < VM_PIECE_BYTES - off ? n : VM_PIECE_BYTES - off;
		const uint8_t *page = page_of(m, address, &error);

		if (!page)
			return error;
		memcpy(at, page + off, part);
		at += part;
		address += part;
		n -= part;
	}
	return 0;
}

int vm_read_number(struct vm_memory *m, uint64_t *ret, uint64_t address, unsigned bytes)
{
	uint64_t value = 0; /* little-endian, as all that runs this */
	int r = vm_read(m, &value, address, bytes);

	if (r == 0)
		*ret = value;
	return r;
}

int vm_read_string(struct vm_memory *m, char *to, size_t size, uint64_t address)
{
	for (size_t i = 0; i < size; i++) {
		int r = vm_read(m, to + i, address + i, 1);

		if (r < 0)
			return r;
		if (!to[i])
			return 0;
	}
	to[size - 1] = '\0';
	return 0;
}
