// SPDX-License-Identifier: Apache-2.0
/* Two bytes select an address, the others are code. A function that is found must contain the address. */
#include <errno.h>
#include <stdlib.h>

#include "agent/elf/cfi/frame_rule.h"
#include "agent/elf/code/leaf_rule.h"

#define VA 0x401008u /* no function may begin here */
#define CODE_BYTES_MAX 16384u

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_query q = {.error = -ENOENT};
	size_t n;
	int r;

	if (size < 3)
		return 0;
	n = size - 2 < CODE_BYTES_MAX ? size - 2 : CODE_BYTES_MAX;
	q.va = VA + (data[0] | (uint64_t)data[1] << 8) % (n + 16) - 8; /* also slightly outside */
	r = leaf_rule_in_code(data + 2, n, VA, &q);
	require(r == 0 || r == -ENOENT);
	require(r == q.error);
	if (r < 0)
		return 0;
	require(VA <= q.fde_start && q.fde_start <= q.va && q.va < q.fde_end && q.fde_end <= VA + n);
	require(q.fde_start % 16 == 0);
	require(q.rule.start == q.fde_start && q.rule.end == q.fde_end);
	return 0;
}
