// SPDX-License-Identifier: Apache-2.0
/*
 * A file of holes with a few bytes in between, as large as a file can be: its sections and segments may
 * claim terabytes. The input is pieces: a shift and eight bits, which give an offset; a length; the bytes.
 * Whatever comes, little memory is enough (the limit of the run).
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/elf/file/elf_image.h"
#include "agent/elf/names/symtab.h"
#include "agent/elf/unwind_table.h"

#define SIZE_SHIFT_MAX 46
#define HEAD 3u /* bytes before those of a piece */

static void require(int condition)
{
	if (!condition)
		abort();
}

/* 0 and the numbers below 256, and numbers with eight bits and zeros behind them. */
static off_t place(uint8_t shift, uint8_t bits)
{
	return (off_t)bits << shift % (SIZE_SHIFT_MAX - 8);
}

/* The first byte is the size, by its power of two. */
static void write_pieces(int fd, const uint8_t *data, size_t size)
{
	require(ftruncate(fd, (off_t)1 << data[0] % SIZE_SHIFT_MAX) == 0);
	data++;
	size--;
	while (size > HEAD) {
		size_t n = data[2] < size - HEAD ? data[2] : size - HEAD;

		require(pwrite(fd, data + HEAD, n, place(data[0], data[1])) == (ssize_t)n);
		data += HEAD + n;
		size -= HEAD + n;
	}
}

static void read_all(struct elf_image *img)
{
	static const uint64_t addrs[] = {0, 0x1000, 0x401000, UINT64_MAX};
	enum { N = sizeof(addrs) / sizeof(addrs[0]) };
	struct elf_symbol symbols[N];
	struct elf_rows *rows = NULL;
	struct elf_data data;
	struct elf_ids ids;

	require(elf_image_ids(img, &ids) == 0);
	require(ids.n_gnu <= sizeof(ids.gnu));
	(void)elf_image_section(img, ".eh_frame", &data);
	(void)elf_image_section(img, ".gnu_debuglink", &data);
	if (elf_symtab_resolve(img, addrs, N, symbols) == 0)
		for (size_t i = 0; i < N; i++)
			free(symbols[i].name);
	if (elf_rows_build(&rows, img) == 0)
		require(rows->n_rows >= 2 && rows->rows[rows->n_rows - 1].rule == 0);
	elf_rows_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image *img = NULL;
	int fd;

	if (!size)
		return 0;
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(fd >= 0);
	write_pieces(fd, data, size);
	if (elf_image_open(&img, fd) == 0)
		read_all(img);
	elf_image_free(img);
	close(fd);
	return 0;
}
