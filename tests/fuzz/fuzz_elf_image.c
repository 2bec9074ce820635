// SPDX-License-Identifier: Apache-2.0
/*
 * Reads any bytes as an ELF file (in a memfd, since the reader needs a descriptor): headers, ids, sections,
 * table, names, debug link.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/elf/file/debuglink.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/unwind_table.h"
#include "agent/elf/names/symtab.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static void read_ids(struct elf_image *img)
{
	struct elf_ids ids;
	char hash[33];

	require(elf_image_ids(img, &ids) == 0);
	require(ids.n_gnu <= sizeof(ids.gnu) && strlen(ids.go) < sizeof(ids.go));
	require(elf_image_htlhash(img, hash) == 0 && strlen(hash) == 32);
}

static void read_sections(struct elf_image *img)
{
	static const char *const names[] = {".eh_frame",	  ".debug_frame", ".text",
					    ".note.gnu.build-id", ".zstd",	  ""};
	struct elf_data data;
	unsigned sum = 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (elf_image_section(img, names[i], &data) == 0 && data.len > 0)
			sum += data.bytes[0] + data.bytes[data.len - 1];
	}
	require(sum < 6 * 512);
}

static void read_names(struct elf_image *img)
{
	uint64_t addrs[16] = {0, 0x1000, 0x1001, 0x401000, UINT64_MAX};
	struct elf_symbol symbols[16];
	size_t n = 5, n_segments;
	const struct elf_segment *segments = elf_image_segments(img, &n_segments);

	for (size_t i = 0; i < n_segments && n < 15; i++) {
		if (!segments[i].executable)
			continue;
		addrs[n++] = segments[i].va;
		addrs[n++] = segments[i].va + segments[i].mem_bytes / 2;
	}
	if (elf_symtab_resolve(img, addrs, n, symbols) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		require(symbols[i].start <= addrs[i] &&
			(addrs[i] < symbols[i].end || symbols[i].end == UINT64_MAX));
		free(symbols[i].name);
	}
}

/* Uses the image as a binary that names its debug file, as that debug file, and as both. */
static void read_debuglink(struct elf_image *img, int fd)
{
	struct elf_debuglink link = {0};
	struct elf_rows *rows = NULL;
	struct buf path = {0};
	uint64_t delta;

	if (elf_debuglink_read(img, &link) == 0)
		require(link.name[0] && strlen(link.name) <= DEBUGLINK_NAME_MAX && !strchr(link.name, '/'));
	for (unsigned i = 0; i <= 5; i++)
		if (elf_debug_path(img, &link, "/usr/bin/x", i, &path) == 0)
			require(buf_str(&path)[0] == '/' && !strstr(buf_str(&path), "/../"));
	buf_fini(&path);
	if (elf_debug_match(img, img, fd, &link, &delta) == 0)
		require(delta == 0);
	if (elf_rows_build_with(&rows, img, img, 0x1000) == 0)
		require(rows->n_rows >= 2 && rows->rows[rows->n_rows - 1].rule == 0);
	elf_rows_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image *img = NULL;
	struct elf_rows *rows = NULL;
	uint64_t va;

	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(fd >= 0);
	require(write(fd, data, size) == (ssize_t)size);
	if (elf_image_open(&img, fd) < 0) {
		close(fd);
		return 0;
	}
	read_ids(img);
	read_sections(img);
	read_names(img);
	elf_image_offset_to_va(img, 0x1000, &va);
	if (elf_rows_build(&rows, img) == 0)
		require(rows->n_rows >= 2 && rows->rows[rows->n_rows - 1].rule == 0);
	elf_rows_free(rows);
	read_debuglink(img, fd);
	elf_image_free(img);
	close(fd);
	return 0;
}
