// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/mutations/work.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/unwind_table.h"
#include "agent/symbol/batch.h"
#include "agent/unwind/block.h"
#include "agent/binary/binary.h"

#define ADDRESSES 64

static void require(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "contract broken: %s\n", what);
	abort();
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* VmHWM, or VmRSS, in bytes. */
static uint64_t status_bytes(const char *key)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kib = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)) == 0)
			kib = strtoull(line + strlen(key), NULL, 10);
	}
	return kib << 10;
}

/* Resets VmHWM, see proc(5). */
static void reset_peak(void)
{
	_cleanup_close_ int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	malloc_trim(0);
	require(fd >= 0 && write(fd, "5", 1) == 1, "/proc/self/clear_refs");
}

static void check_rows(const struct elf_rows *t)
{
	require(t->n_rows >= 2 && t->rows[t->n_rows - 1].rule == 0, "a table ends with a row of no rule");
	for (size_t i = 0; i < t->n_rows; i++) {
		require(t->rows[i].rule < t->n_rules, "a row has a rule of the table");
		require(i == 0 || t->rows[i - 1].va < t->rows[i].va, "rows are sorted");
	}
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void name_addresses(int fd, const struct elf_rows *t)
{
	struct symbol_batch b = {.addrs = calloc(ADDRESSES, sizeof(uint64_t)), .fd = -1, .debug_fd = -1};
	size_t n = 0;

	require(b.addrs != NULL, "memory");
	for (size_t i = 0; i < ADDRESSES; i++) {
		/* spread over the rows; without rows, spread over the address space */
		b.addrs[i] = t ? t->rows[i * (t->n_rows - 1) / ADDRESSES].va + i % 3 : i << 57 | i << 13;
	}
	qsort(b.addrs, ADDRESSES, sizeof(*b.addrs), compare_u64);
	for (size_t i = 0; i < ADDRESSES; i++) {
		if (n == 0 || b.addrs[i] != b.addrs[n - 1])
			b.addrs[n++] = b.addrs[i];
	}
	b.n_addrs = n;
	b.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	symbol_batch_run(&b);
	for (size_t i = 1; i < b.ranges.n; i++)
		require(b.ranges.v[i - 1].end <= b.ranges.v[i].start, "ranges of names are sorted");
	close(b.fd);
	free(b.addrs);
	symbol_ranges_fini(&b.ranges);
}

static void build(int fd, struct elf_rows **ret_rows)
{
	struct unwind_blocks blocks = {0};
	struct elf_image *img = NULL;
	struct elf_ids ids;
	char hash[33];

	if (elf_image_open(&img, fd) < 0)
		return;
	elf_image_htlhash(img, hash);
	if (elf_image_ids(img, &ids) == 0) {
		require(ids.n_gnu <= sizeof(ids.gnu), "length of the build id");
		require(strlen(ids.go) < sizeof(ids.go), "length of the Go build id");
	}
	if (elf_rows_build(ret_rows, img) == 0) {
		check_rows(*ret_rows);
		require(unwind_blocks_encode(&blocks, *ret_rows, elf_image_machine(img)) == 0, "blocks");
		unwind_blocks_fini(&blocks);
	}
	elf_image_free(img);
}

void work_run(int fd, struct elf_rows **ret_rows, struct cost *ret)
{
	*ret_rows = NULL;
	reset_peak();
	uint64_t rss = status_bytes("VmRSS:"), begin = cpu_ns();
	build(fd, ret_rows);
	name_addresses(fd, *ret_rows);
	ret->cpu_ns = cpu_ns() - begin;
	uint64_t peak = status_bytes("VmHWM:");
	ret->peak_bytes = peak > rss ? peak - rss : 0;
}
