// SPDX-License-Identifier: Apache-2.0
/*
 * What naming addresses of a file costs: bench_names FILE [ADDRESSES]. They are spread over its executable
 * segments. One line: addresses, named, ranges kept, their bytes, ns of CPU, KiB of memory that the process
 * took more at its peak.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/elf/file/elf_image.h"
#include "agent/symbol/symbol_cache.h"

#define FILE_ID 1u

/* getrusage would have what the parent had. */
static long peak_kib(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	return kib;
}

static uint64_t spread(const struct elf_segment *s, size_t n_segments, uint64_t i, uint64_t n)
{
	uint64_t all = 0, at;

	for (size_t k = 0; k < n_segments; k++)
		all += s[k].executable ? s[k].mem_bytes : 0;
	at = (uint64_t)((double)all / (double)n * ((double)i + 0.5));
	for (size_t k = 0; k < n_segments; k++) {
		if (!s[k].executable)
			continue;
		if (at < s[k].mem_bytes)
			return s[k].va + at;
		at -= s[k].mem_bytes;
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000, named = 0, start;
	_cleanup_close_ int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	struct symbol_cache_stats stats;
	const struct elf_segment *segments;
	struct symbol_cache *cache;
	struct symbol_name name;
	struct symbol_job *job;
	struct elf_image *img;
	size_t n_segments;
	long before;

	if (fd < 0 || elf_image_open(&img, fd) < 0 || symbol_cache_new(&cache, 64u << 20) < 0) {
		fprintf(stderr, "usage: bench_names FILE [ADDRESSES]\n");
		return 2;
	}
	segments = elf_image_segments(img, &n_segments);
	for (uint64_t i = 0; i < n; i++)
		(void)symbol_cache_want(cache, FILE_ID, spread(segments, n_segments, i, n));
	if (symbol_job_new(&job, cache, FILE_ID, &(struct symbol_files){.fd = fd, .debug_fd = -1}) < 0)
		return 1;
	before = peak_kib();
	start = clock_thread_cpu_ns();
	job->work.run(&job->work);
	symbol_cache_complete(cache, job);
	start = clock_thread_cpu_ns() - start;
	for (uint64_t i = 0; i < n; i++)
		named += symbol_cache_find(cache, FILE_ID, spread(segments, n_segments, i, n), &name) &&
			 name.function;
	symbol_cache_get_stats(cache, &stats);
	printf("%lu %lu %zu %zu %lu %ld\n", n, named, stats.n_ranges, stats.bytes, start,
	       peak_kib() - before);
	symbol_cache_free(cache);
	elf_image_free(img);
	return 0;
}
