// SPDX-License-Identifier: Apache-2.0
#include "agent/base/array.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_CAP 8u
#define LARGE_BYTES (256u << 10) /* what malloc maps apart, and gives back when it is freed */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

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

void *array_zeroed(size_t n, size_t size)
{
	void *items = calloc(n, size);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), skip = -(uintptr_t)items & (page - 1);

	if (items && n * size >= LARGE_BYTES) { /* an error means page by page, and small ones */
		(void)madvise((char *)items + skip, (n * size - skip) & ~(page - 1), MADV_HUGEPAGE);
		(void)madvise((char *)items + skip, (n * size - skip) & ~(page - 1), MADV_POPULATE_WRITE);
	}
	return items;
}

size_t array_first_from(const uint64_t *values, size_t n, uint64_t value)
{
	return array_first(n, i, values[i] >= value);
}
