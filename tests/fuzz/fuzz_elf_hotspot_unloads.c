// SPDX-License-Identifier: Apache-2.0
/*
 * The performance counters of a HotSpot: the input is the memory that they are in, its first eight bytes the
 * pointer to them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/elf/runtime/hotspot_unloads.h"
#include "agent/elf/runtime/vm_memory.h"

#define BASE 0x1000u

struct input {
	const uint8_t *data;
	size_t size;
};

static int read_page(void *to, uint64_t address, void *data)
{
	const struct input *in = data;
	size_t n;

	if (address < BASE || address - BASE >= in->size)
		return -EFAULT;
	n = in->size - (address - BASE) < VM_PIECE_BYTES ? in->size - (address - BASE) : VM_PIECE_BYTES;
	memset(to, 0, VM_PIECE_BYTES);
	memcpy(to, in->data + (address - BASE), n);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct vm_memory *m = calloc(1, sizeof *m);
	struct hotspot_unloads u;

	if (!m)
		return 0;
	m->read = read_page;
	m->data = &in;
	hotspot_unloads_find(&u, m, BASE);
	(void)hotspot_unloads_read(&u, m);
	free(m);
	return 0;
}
