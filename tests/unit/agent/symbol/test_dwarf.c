// SPDX-License-Identifier: Apache-2.0
/* Reads lines and inlined calls of this program itself, which is built with debug information. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/elf/names/symtab.h"
#include "agent/symbol/dwarf.h"

static uint64_t returns_to;
static uint32_t inner_line, middle_line, outer_line; /* the functions begin two lines before */

__attribute__((noinline)) static void note(void)
{
	returns_to = (uint64_t)(uintptr_t)__builtin_return_address(0);
}

/* Each call and the number of its line are on one line. */
/* clang-format off */
__attribute__((always_inline)) static inline void inner(void)
{
	inner_line = __LINE__, note();
}

__attribute__((always_inline)) static inline void middle(void)
{
	middle_line = __LINE__, inner();
}

__attribute__((noinline)) static void outer(void)
{
	outer_line = __LINE__, middle();
	__asm__ volatile("" ::: "memory");
}
/* clang-format on */

static int own_file(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(symbol_dwarf_load(), 0, "libdw is there where this is built");
	outer();
	return fd;
}

/* A copy of this program's file in which the name does not appear: its first byte is 0. */
static int file_without(const char *name)
{
	_cleanup_close_ int fd = own_file();
	_cleanup_buf_ struct buf bytes = {0};
	const size_t n = strlen(name) + 1;
	unsigned found = 0;
	int copy = memfd_create("copy", MFD_CLOEXEC);
	uint8_t *at;

	cr_assert(copy >= 0 && fs_read_fd(fd, BUF_DEFAULT_MAX, &bytes) == 0);
	at = bytes.data;
	while ((at = memmem(at, (size_t)(bytes.data + bytes.len - at), name, n))) {
		*at = '\0';
		found++;
	}
	cr_assert_gt(found, 0);
	cr_assert_eq(fs_write_fd(copy, bytes.data, bytes.len), 0);
	return copy;
}

static void expect_line(const struct frame_line *l, const char *function, uint32_t line)
{
	const char *file = strrchr(l->file, '/');

	cr_expect_str_eq(l->function, function);
	cr_expect_str_eq(file ? file + 1 : l->file, "test_dwarf.c");
	cr_expect_eq(l->line, line, "%u rather than %u", l->line, line);
	cr_expect_eq(l->start_line, line - 2, "%u rather than %u", l->start_line, line - 2);
}

Test(dwarf, inlined_calls)
{
	_cleanup_close_ int fd = own_file();
	uint64_t addr = returns_to - 1; /* linked without PIE */
	struct elf_symbol s = {.name = strdup("outer")};

	cr_assert_eq(symbol_dwarf_lines(fd, 0, &addr, 1, &s), 0);
	cr_assert_eq(s.n_lines, 3);
	expect_line(&s.lines[0], "inner", inner_line);
	expect_line(&s.lines[1], "middle", middle_line);
	expect_line(&s.lines[2], "outer", outer_line);
	cr_expect(s.start == addr && s.end == addr + 1, "holds for the address");
	free(s.lines);
	free(s.name);
}

Test(dwarf, inlined_function_with_an_empty_name)
{
	_cleanup_close_ int fd = file_without("middle");
	uint64_t addr = returns_to - 1;
	struct elf_symbol s = {.name = strdup("outer")};

	cr_assert_eq(symbol_dwarf_lines(fd, 0, &addr, 1, &s), 0);
	cr_assert_eq(s.n_lines, 3);
	expect_line(&s.lines[1], "[inlined]", middle_line);
	free(s.lines);
	free(s.name);
}

/*
 * The addresses of the file can differ from those of its debug file. The function keeps the name of its
 * symbol.
 */
Test(dwarf, addresses_that_differ_from_the_debug_file)
{
	_cleanup_close_ int fd = own_file();
	uint64_t addrs[] = {0x10, returns_to - 1 + 0x4000, returns_to + 0x5000000};
	struct elf_symbol s[3] = {
		{.name = strdup("a")}, {.name = strdup("outer.cold")}, {.name = strdup("c")}};

	cr_assert_eq(symbol_dwarf_lines(fd, 0x4000, addrs, 3, s), 0);
	cr_expect(!s[0].lines && !s[2].lines);
	cr_assert_eq(s[1].n_lines, 3);
	expect_line(&s[1].lines[2], "outer [clone .cold]", outer_line);
	for (int i = 0; i < 3; i++) {
		free(s[i].name);
		free(s[i].lines);
	}
}

Test(dwarf, symbols_without_name_or_with_lines_do_not_change)
{
	_cleanup_close_ int fd = own_file();
	uint64_t addrs[] = {returns_to - 1, returns_to - 1};
	struct frame_line lines = {"f", "f.go", 7, 1};
	struct elf_symbol s[2] = {{.name = NULL}, {.name = (char *)"f", .lines = &lines, .n_lines = 1}};

	cr_assert_eq(symbol_dwarf_lines(fd, 0, addrs, 2, s), 0);
	cr_expect(!s[0].lines && s[1].lines == &lines && s[1].n_lines == 1);
}

Test(dwarf, files_without_debug_information)
{
	_cleanup_close_ int text = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC),
			    closed = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct elf_symbol s = {.name = (char *)"f"};
	uint64_t addr = 0x1000;

	cr_assert_eq(symbol_dwarf_load(), 0);
	cr_expect_lt(symbol_dwarf_lines(text, 0, &addr, 1, &s), 0);
	cr_expect_lt(symbol_dwarf_lines(closed, 0, &addr, 1, &s), 0);
	cr_expect_null(s.lines);
}
