// SPDX-License-Identifier: Apache-2.0
/*
 * Looks for the source lines of addresses in the debug information of any bytes. The input is a count below
 * eight, that many addresses of 32 bits, and the file. libdw itself is not instrumented: the edges are those
 * of symbol/dwarf.c. What ASan sees of libdw are its allocations, leaks, and what it has libc copy.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/names/symtab.h"
#include "agent/symbol/dwarf.h"

#define ADDRS_MAX 8u

static void require(int condition)
{
	if (!condition)
		abort();
}

static size_t take_addrs(uint64_t addrs[ADDRS_MAX], const uint8_t **data, size_t *size)
{
	const size_t n = **data % ADDRS_MAX;

	if (*size < 1 + n * sizeof(uint32_t))
		return 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t addr;

		memcpy(&addr, *data + 1 + i * sizeof addr, sizeof addr);
		addrs[i] = addr;
	}
	*data += 1 + n * sizeof(uint32_t);
	*size -= 1 + n * sizeof(uint32_t);
	return n;
}

/* The lines of one address: strings that end, in one block. */
static void check(const struct elf_symbol *s, uint64_t addr)
{
	if (!s->lines)
		return;
	require(s->n_lines > 0 && s->start == addr && s->end == addr + 1);
	for (size_t i = 0; i < s->n_lines; i++)
		require(strlen(s->lines[i].function) > 0 && strlen(s->lines[i].file) < SIZE_MAX);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_symbol symbols[ADDRS_MAX] = {0};
	uint64_t addrs[ADDRS_MAX];
	size_t n = size ? take_addrs(addrs, &data, &size) : 0;
	int fd, r;

	if (!n)
		return 0;
	require(symbol_dwarf_load() == 0);
	qsort(addrs, n, sizeof *addrs, by_value);
	for (size_t i = 0; i < n; i++)
		symbols[i].name = (char *)(i % 2 ? "function" : "_Z1fv");
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(fd >= 0);
	require(write(fd, data, size) == (ssize_t)size);
	r = symbol_dwarf_lines(fd, 0, addrs, n, symbols);
	require(r <= (int)n);
	for (size_t i = 0; i < n; i++) {
		check(&symbols[i], addrs[i]);
		free(symbols[i].lines);
	}
	close(fd);
	return 0;
}
