// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/loops.h"

bool runtime_loops_valid(const uint64_t *start, const uint64_t *end, uint32_t n, uint32_t max)
{
	uint64_t last = 0;

	if (n > max)
		return false;
	for (uint32_t i = 0; i < max; i++) {
		if (i >= n && (start[i] || end[i]))
			return false;
		if (i < n && (start[i] < last || start[i] >= end[i]))
			return false;
		last = end[i];
	}
	return true;
}
