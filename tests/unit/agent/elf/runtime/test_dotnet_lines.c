// SPDX-License-Identifier: Apache-2.0
/* Lines of functions of .NET (dotnet_machine.h), from a file beside the assembly or in it (pdb_file.h). */
#include "agent/elf/runtime/dotnet_lines.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "agent/base/cleanup.h"
#include "tests/support/dotnet_machine.h"
#include "tests/support/pdb_file.h"

#define READY(i) (DM_IMAGE + DM_READY_CODE + (i) * DM_FUNCTION_BYTES)

static struct pdb_file file;
static struct dotnet_machine machine;
static struct dotnet_lines lines;
static struct dotnet_lines_files files;
static unsigned opened;

static int open_file(uint64_t base, const char *name, void *data)
{
	int fd = memfd_create("lines", MFD_CLOEXEC);

	(void)data;
	opened++;
	cr_expect(base == DM_BASE + DM_FILE || base == DM_BASE + DM_IMAGE);
	cr_expect_str_eq(name, DM_LINES_NAME);
	cr_assert_eq(write(fd, file.bytes, file.n), (ssize_t)file.n);
	return fd;
}

static int open_none(uint64_t base, const char *name, void *data)
{
	(void)base;
	(void)name;
	(void)data;
	opened++;
	return -ENOENT;
}

static void init(void)
{
	pdb_init(&file);
	dm_init(&machine);
	files.open = open_file;
}

static void fini(void)
{
	dotnet_lines_files_fini(&files);
	dm_free(&machine);
}

TestSuite(dotnet_lines, .init = init, .fini = fini);

static int read_lines(uint32_t at)
{
	struct dotnet_place p;

	if (!machine.reader->ranges)
		cr_assert_eq(dotnet_reader_init(machine.reader), 0);
	cr_assert_eq(dotnet_place_find(&p, machine.reader, DM_BASE + at), 0);
	return dotnet_lines_read(&lines, &p, machine.reader, &files);
}

static void expect_lines(uint32_t at, struct dotnet_line first, struct dotnet_line second)
{
	int r = read_lines(at);

	cr_assert_eq(r, 0, "%#x: %d", at, r);
	cr_expect_str_eq(lines.document, "/src/Main.cs");
	cr_assert_eq(lines.n, second.end ? 2 : 1, "%#x: %u", at, lines.n);
	cr_expect_eq(lines.v[0].end, first.end, "%#x: %u", at, lines.v[0].end);
	cr_expect_eq(lines.v[0].line, first.line, "%#x: %u", at, lines.v[0].line);
	if (!second.end)
		return;
	cr_expect_eq(lines.v[1].end, second.end, "%#x: %u", at, lines.v[1].end);
	cr_expect_eq(lines.v[1].line, second.line, "%#x: %u", at, lines.v[1].line);
}

static void expect_all_lines(void)
{
	expect_lines(DM_FIRST, (struct dotnet_line){4, 10}, (struct dotnet_line){0x40, 12});
	expect_lines(DM_FIRST + 0x40, (struct dotnet_line){4, 12},
		     (struct dotnet_line){0x20, 11}); /* handler */
	expect_lines(READY(1), (struct dotnet_line){4, 10}, (struct dotnet_line){0x20, 12});
	expect_lines(READY(2), (struct dotnet_line){0x20, 12}, (struct dotnet_line){0}); /* handler */
}

Test(dotnet_lines, file_beside_the_assembly)
{
	dm_lines(&machine, NULL, 0, 0);
	expect_all_lines();
	cr_expect_eq(opened, 2, "once for each assembly: %u", opened);
}

Test(dotnet_lines, file_in_the_assembly)
{
	uint8_t packed[4096];
	z_stream z = {
		.next_in = file.bytes, .avail_in = file.n, .next_out = packed, .avail_out = sizeof packed};

	cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
	cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	dm_lines(&machine, packed, (uint32_t)z.total_out, file.n);
	(void)deflateEnd(&z);
	expect_all_lines();
	cr_expect_eq(opened, 0);
}

Test(dotnet_lines, file_in_the_assembly_that_is_damaged)
{
	uint8_t packed[64] = {0xff, 0xff};

	dm_lines(&machine, packed, sizeof packed, file.n);
	cr_expect_eq(read_lines(DM_FIRST), -ENOENT);
	cr_expect_eq(read_lines(READY(1)), -ENOENT);
}

Test(dotnet_lines, no_lines)
{
	cr_expect_eq(read_lines(DM_FIRST), -ENOENT);
	cr_expect_eq(opened, 0, "the assembly says nothing of a file");
	dotnet_lines_files_fini(&files);
	dm_lines(&machine, NULL, 0, 0);
	memset(machine.reader->memory.pages, 0, sizeof machine.reader->memory.pages);
	dotnet_reader_fini(machine.reader);
	machine.reader->ranges = 0;
	cr_expect_eq(read_lines(DM_DYNAMIC), -ENOENT);
	cr_expect_eq(read_lines(DM_SECOND), -ENOENT, "no map");
	cr_expect_eq(read_lines(READY(0)), -ENOENT, "a method without lines");
	dotnet_lines_files_fini(&files);
	files.open = open_none;
	opened = 0;
	cr_expect_eq(read_lines(DM_FIRST), -ENOENT);
	cr_expect_eq(read_lines(DM_FIRST + 0x40), -ENOENT);
	cr_expect_eq(opened, 1);
	dotnet_lines_files_fini(&files);
	files.open = open_file;
	file.bytes[0x100] ^= 1; /* another assembly's */
	cr_expect_eq(read_lines(DM_FIRST), -ENOENT);
}
