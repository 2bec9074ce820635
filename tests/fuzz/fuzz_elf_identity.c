// SPDX-License-Identifier: Apache-2.0
/*
 * Reads any bytes as the agent itself reads a file to identify it: headers, ids, version. Bytes that end with
 * "HOLE" and a u32 are followed by so many pages that are not there, those that end with "CUT!" and a u32
 * lose what lies behind that offset after they were opened; both may be combined.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/elf/file/elf_image.h"
#include "agent/elf/file/version.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static void read_ids(struct elf_image *img, bool cut)
{
	struct elf_version version;
	struct elf_ids ids;
	char hash[33];

	require(elf_image_ids(img, &ids) == 0);
	require(ids.n_gnu <= sizeof(ids.gnu) && strlen(ids.go) < sizeof(ids.go));
	if (elf_image_htlhash(img, hash) == 0)
		require(strlen(hash) == 32);
	else
		require(cut);
	require(elf_version_read(&version, img) == 0 || cut);
}

static void read_headers(const struct elf_image *img)
{
	struct elf_section section, found;
	const size_t n = elf_image_n_sections(img);

	require(n <= ELF_SECTIONS_MAX);
	for (size_t i = 0; i < n; i++)
		require(elf_image_section_header(img, i, &section) && section.index == i);
	require(!elf_image_section_header(img, n, &section));
	if (elf_image_find_section(img, ".gopclntab", &found) == 0)
		require(found.index > 0 && found.index < n);
}

/* Takes "MARK" and a number off the end. False: they are not there. */
static bool take_number(const uint8_t *data, size_t *size, const char mark[static 4], uint32_t *ret)
{
	if (*size < 8 || memcmp(data + *size - 8, mark, 4) != 0)
		return false;
	memcpy(ret, data + *size - 4, sizeof *ret);
	*size -= 8;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t cut_to = 0, pages = 0;
	const bool cut = take_number(data, &size, "CUT!", &cut_to);
	const bool hole = take_number(data, &size, "HOLE", &pages);
	struct elf_image *img = NULL;
	uint64_t va;

	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(fd >= 0);
	require(write(fd, data, size) == (ssize_t)size);
	require(!hole || ftruncate(fd, (off_t)(size + pages * 4096ull)) == 0);
	if (elf_image_open(&img, fd) < 0) {
		close(fd);
		return 0;
	}
	require(!cut || ftruncate(fd, cut_to) == 0);
	read_ids(img, cut);
	read_headers(img);
	elf_image_offset_to_va(img, 0x1000, &va);
	elf_image_free(img);
	close(fd);
	return 0;
}
