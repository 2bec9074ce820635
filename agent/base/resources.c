// SPDX-License-Identifier: Apache-2.0
#include "agent/base/resources.h"

#include <malloc.h>
#include <sys/resource.h>

#define OTHER_FILES 192ul /* open files that are not binaries */
#define HEAP_MMAP_BYTES (128 << 10)

void resources_bound_heap(void)
{
	(void)mallopt(M_ARENA_MAX, 2);
	(void)mallopt(M_MMAP_THRESHOLD, HEAP_MMAP_BYTES);
	(void)mallopt(M_TRIM_THRESHOLD, HEAP_MMAP_BYTES);
}

void resources_raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &l);
	}
}

uint32_t resources_files_max(void)
{
	struct rlimit l;
	rlim_t most;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= RESOURCES_FILES_MAX + OTHER_FILES)
		return RESOURCES_FILES_MAX;
	most = l.rlim_cur > 2 * OTHER_FILES ? l.rlim_cur - OTHER_FILES : l.rlim_cur / 2;
	return most < RESOURCES_FILES_MAX ? (uint32_t)most : RESOURCES_FILES_MAX;
}
