// SPDX-License-Identifier: Apache-2.0
/* Pages of this machine's memory: mappings begin and end at their bounds. Rank 0. */
#ifndef PROFLET_BASE_PAGE_H
#define PROFLET_BASE_PAGE_H

#include <stdint.h>
#include <unistd.h>

static inline uint64_t page_bytes(void)
{
	static uint64_t bytes; /* every thread would write the same */
	uint64_t n = __atomic_load_n(&bytes, __ATOMIC_RELAXED);

	if (!n) {
		n = (uint64_t)sysconf(_SC_PAGESIZE);
		__atomic_store_n(&bytes, n, __ATOMIC_RELAXED);
	}
	return n;
}

/* The start of the page that `at` lies in: an address, or an offset in a file. */
static inline uint64_t page_start(uint64_t at)
{
	return at & ~(page_bytes() - 1);
}

/* `at`, or the start of the next page where it does not begin one. */
static inline uint64_t page_end(uint64_t at)
{
	return page_start(at + page_bytes() - 1);
}

#endif
