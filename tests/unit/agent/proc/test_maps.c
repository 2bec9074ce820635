// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/maps.h"

#define HEAD "7f0000001000-7f0000003000 r-xp 00001000 fd:01 42"

/* Parses a copy that ends where the line ends, so that the sanitizer sees a read past it. */
static int parse(const char *line, size_t len, struct proc_maps_line *ret, char **copy)
{
	*copy = malloc(len ? len : 1);
	memcpy(*copy, line, len);
	return proc_maps_parse_line(*copy, len, ret);
}

static const struct {
	const char *line;
	struct proc_maps_line want;
	const char *path;
} line_cases[] = {
	{"55d0c0a00000-55d0c0a28000 r--p 00000000 fd:01 1054                       /usr/bin/sed",
	 {.start = 0x55d0c0a00000,
	  .end = 0x55d0c0a28000,
	  .inode = 1054,
	  .dev_major = 0xfd,
	  .dev_minor = 1,
	  .readable = true},
	 "/usr/bin/sed"},
	{"7f0000001000-7f0000003000 r-xp 00001000 103:fffff 18446744073709551615   /a b",
	 {.start = 0x7f0000001000,
	  .end = 0x7f0000003000,
	  .offset = 0x1000,
	  .inode = UINT64_MAX,
	  .dev_major = 0x103,
	  .dev_minor = 0xfffff,
	  .readable = true,
	  .executable = true},
	 "/a b"},
	{"00400000-00401000 rwxs ffffffffffff0000 00:05 7 /memfd:jit (deleted)",
	 {.start = 0x400000,
	  .end = 0x401000,
	  .offset = 0xffffffffffff0000,
	  .inode = 7,
	  .dev_minor = 5,
	  .readable = true,
	  .writable = true,
	  .executable = true,
	  .shared = true,
	  .deleted = true},
	 "/memfd:jit"},
	{"7ffd1000-7ffd2000 ---p 00000000 00:00 0 ", {.start = 0x7ffd1000, .end = 0x7ffd2000}, NULL},
	{"7ffd1000-7ffd2000 ---p 00000000 00:00 0", {.start = 0x7ffd1000, .end = 0x7ffd2000}, NULL},
	{"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]",
	 {.start = 0xffffffffff600000, .end = 0xffffffffff601000, .executable = true},
	 "[vsyscall]"},
	{HEAD " /x\\012y",
	 {.start = 0x7f0000001000,
	  .end = 0x7f0000003000,
	  .offset = 0x1000,
	  .inode = 42,
	  .dev_major = 0xfd,
	  .dev_minor = 1,
	  .readable = true,
	  .executable = true,
	  .escaped = true},
	 "/x\\012y"},
	{HEAD " /a (deleted) (deleted)",
	 {.start = 0x7f0000001000,
	  .end = 0x7f0000003000,
	  .offset = 0x1000,
	  .inode = 42,
	  .dev_major = 0xfd,
	  .dev_minor = 1,
	  .readable = true,
	  .executable = true,
	  .deleted = true},
	 "/a (deleted)"},
	{HEAD " /a(deleted)",
	 {.start = 0x7f0000001000,
	  .end = 0x7f0000003000,
	  .offset = 0x1000,
	  .inode = 42,
	  .dev_major = 0xfd,
	  .dev_minor = 1,
	  .readable = true,
	  .executable = true},
	 "/a(deleted)"},
};

Test(maps, parses_every_kind_of_line)
{
	for (size_t i = 0; i < ARRAY_SIZE(line_cases); i++) {
		_cleanup_free_ char *copy = NULL;
		const struct proc_maps_line *want = &line_cases[i].want;
		struct proc_maps_line got;
		size_t len = line_cases[i].path ? strlen(line_cases[i].path) : 0;

		cr_assert_eq(parse(line_cases[i].line, strlen(line_cases[i].line), &got, &copy), 0, "%s",
			     line_cases[i].line);
		cr_expect(got.start == want->start && got.end == want->end && got.offset == want->offset &&
				  got.inode == want->inode && got.dev_major == want->dev_major &&
				  got.dev_minor == want->dev_minor,
			  "%s", line_cases[i].line);
		cr_expect(got.readable == want->readable && got.writable == want->writable &&
				  got.executable == want->executable && got.shared == want->shared &&
				  got.deleted == want->deleted && got.escaped == want->escaped,
			  "%s", line_cases[i].line);
		cr_expect_eq(got.path_len, len, "%s", line_cases[i].line);
		cr_expect_eq(got.path == NULL, line_cases[i].path == NULL, "%s", line_cases[i].line);
		cr_expect(!len || memcmp(got.path, line_cases[i].path, len) == 0, "%s", line_cases[i].line);
	}
}

Test(maps, refuses_what_is_no_line)
{
	static const char *const cases[] = {
		"",
		" ",
		"1000",
		"1000-2000",
		"1000-2000 r-xp",
		"-2000 r-xp 0 0:0 0",
		"1000- r-xp 0 0:0 0",
		"2000-1000 r-xp 0 0:0 0",
		"1000-1000 r-xp 0 0:0 0",
		"1000-2000 r-xq 0 0:0 0",
		"1000-2000 xr-p 0 0:0 0",
		"1000-2000 r-x 0 0:0 0",
		"1000-2000 r-xp 0 00 0",
		"1000-2000 r-xp 0 0:0",
		"1000-2000 r-xp 0 0:0 0x",
		"1000-2000 r-xp 0 0:0 0/lib",
		"1000-2000 r-xp 0 0:0 -1",
		"1000-2000 r-xp 0 0:0 18446744073709551616",
		"10000000000000000-20000000000000000 r-xp 0 0:0 0",
		"1000-2000 r-xp 10000000000000000 0:0 0",
		"1000-2000 r-xp 0 100000000:0 0",
		"1000-2000 r-xp 0 0:100000000 0",
		"1000-2000  r-xp 0 0:0 0",
		" 1000-2000 r-xp 0 0:0 0",
		"1000-2000 r-xp 0 0:0 0 /a\n",
		"1000-2000 r-xp 0 0:0 0\n",
		"0x1000-2000 r-xp 0 0:0 0",
		"1000-2000 R-XP 0 0:0 0",
		"1000-2000\tr-xp 0 0:0 0",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *copy = NULL;
		struct proc_maps_line got = {.start = 77};

		cr_expect_eq(parse(cases[i], strlen(cases[i]), &got, &copy), -EINVAL, "%s", cases[i]);
		cr_expect_eq(got.start, 77, "%s: written on failure", cases[i]);
	}
	cr_expect_eq(
		proc_maps_parse_line(HEAD " /a\0b", sizeof HEAD " /a\0b" - 1, &(struct proc_maps_line){0}),
		-EINVAL);
}

Test(maps, every_prefix_of_a_line_is_safe)
{
	static const char line[] = HEAD "     /usr/lib/x (deleted)";
	const size_t fields =
		sizeof HEAD - 2; /* without the last digits of the inode the line is valid, too */

	for (size_t len = 0; len < sizeof line; len++) {
		_cleanup_free_ char *copy = NULL;
		struct proc_maps_line got;

		cr_expect_eq(parse(line, len, &got, &copy), len < fields ? -EINVAL : 0, "%zu", len);
	}
}

Test(maps, decodes_the_newline_in_a_path_and_nothing_else)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"/a", "/a"},	      {"/a\\012b", "/a\nb"},	{"\\012\\012", "\n\n"},
		{"/a\\01", "/a\\01"}, {"/a\\040b", "/a\\040b"}, {"/\\\\012", "/\\\n"},
	};
	char *path = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct proc_maps_line line = {.path = cases[i].in, .path_len = strlen(cases[i].in)};
		_cleanup_free_ char *got = NULL;

		cr_assert_eq(proc_maps_path(&line, &got), 0);
		cr_expect_str_eq(got, cases[i].out);
	}
	cr_expect_eq(proc_maps_path(&(struct proc_maps_line){0}, &path), -ENOENT);
	cr_expect_null(path);
}
