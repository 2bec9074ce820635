// SPDX-License-Identifier: Apache-2.0
#include "agent/base/resources.h"

#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define OWN_FILES 96u /* measured: 64, some more while the BPF program is loaded */
#define CPU_FILES 4u
#define BINARIES_LEAST 64u /* with the root folders of their processes */
#define BINARIES_MANY 512u
#define HEAP_MMAP_BYTES (128 << 10)

void resources_bound_heap(void)
{
	(void)mallopt(M_ARENA_MAX, 2);
	(void)mallopt(M_MMAP_THRESHOLD, HEAP_MMAP_BYTES);
	(void)mallopt(M_TRIM_THRESHOLD, HEAP_MMAP_BYTES);
}

/* Of one loaded file. What the loader has relocated is in segments that can be written: not touched. */
static int release_segments(struct dl_phdr_info *file, size_t size, void *data)
{
	const uintptr_t page = (uintptr_t)(*(const long *)data);

	(void)size;
	for (unsigned i = 0; i < file->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &file->dlpi_phdr[i];
		uintptr_t begin = (file->dlpi_addr + h->p_vaddr + page - 1) & -page;
		uintptr_t end = (file->dlpi_addr + h->p_vaddr + h->p_memsz) & -page;

		if (h->p_type == PT_LOAD && !(h->p_flags & PF_W) && begin < end)
			(void)madvise((void *)begin, end - begin, MADV_DONTNEED);
	}
	return 0;
}

void resources_release_code(void)
{
	long page = sysconf(_SC_PAGESIZE);

	if (page > 0)
		(void)dl_iterate_phdr(release_segments, &page);
}

void resources_raise_files(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &l);
	}
}

static uint32_t own_files(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return OWN_FILES + CPU_FILES * (cpus > 0 ? (uint32_t)cpus : 1);
}

uint32_t resources_files_needed(void)
{
	return own_files() + BINARIES_LEAST;
}

uint32_t resources_files_limit(void)
{
	struct rlimit l;

	return getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur > UINT32_MAX ? UINT32_MAX
									   : (uint32_t)l.rlim_cur;
}

uint32_t resources_files_max(void)
{
	uint32_t limit = resources_files_limit(), own = own_files();

	if (limit >= RESOURCES_FILES_MAX + 2 * own)
		return RESOURCES_FILES_MAX;
	if (limit <= own)
		return 1;
	return limit - own > 4 * BINARIES_MANY ? limit - own - BINARIES_MANY : (limit - own + 1) / 2;
}

uint32_t resources_roots_max(void)
{
	uint32_t limit = resources_files_limit(), taken = own_files() + resources_files_max();

	return limit > taken + 1 ? (limit - taken) / 2 : 1;
}
