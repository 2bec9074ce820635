// SPDX-License-Identifier: Apache-2.0
/* Records of the ring: whatever decodes must be readable to its last byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sample/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t *copy = malloc(size + 8);
	volatile uint64_t sum = 0;
	struct sample_view v;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (sample_decode(copy, size, &v) == 0) {
		for (uint32_t i = 0; i < (uint32_t)v.n_kernel + v.n_user; i++)
			sum += v.frames[i];
		for (uint32_t i = 0; v.saved && i < v.saved->stack_bytes; i++)
			sum += v.stack[i];
		if (v.saved)
			sum += v.saved->regs[SAVED_STACK_REGISTERS - 1];
		sum += (uintptr_t)unwind_ending_text(v.ending);
	}
	free(copy);
	return 0;
}
