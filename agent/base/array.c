// SPDX-License-Identifier: Apache-2.0
#include "agent/base/array.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 8u

int array_resize(void *items, size_t n, size_t size)
{
	void *old, *resized;

	if (n > SIZE_MAX / size)
		return -ENOMEM;
	memcpy(&old, items, sizeof old);
	resized = realloc(old, n * size);
	if (!resized)
		return -ENOMEM;
	memcpy(items, &resized, sizeof resized);
	return 0;
}

int array_reserve(void *items, size_t *cap, size_t n, size_t size)
{
	size_t more_cap = *cap > SIZE_MAX / 2 ? SIZE_MAX : *cap * 2;

	if (n <= *cap)
		return 0;
	if (more_cap < n)
		more_cap = n < FIRST_CAP ? FIRST_CAP : n;
	if (array_resize(items, more_cap, size) < 0)
		return -ENOMEM;
	*cap = more_cap;
	return 0;
}

size_t array_first_from(const uint64_t *values, size_t n, uint64_t value)
{
	return array_first(n, i, values[i] >= value);
}
