// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"

static char dir[64];

static void setup(void)
{
	strcpy(dir, "/tmp/test_fs.XXXXXX");
	cr_assert(mkdtemp(dir));
}

static void teardown(void)
{
	cr_assert_eq(rmdir(dir), 0, "something was left behind");
}

TestSuite(fs, .init = setup, .fini = teardown);

static const char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

Test(fs, writes_whole_files_and_replaces_them)
{
	static const char binary[] = "a\0b\n\xff";
	_cleanup_buf_ struct buf b = {0};

	cr_assert_eq(fs_write_file(in_dir("x"), "a longer first version", 22), 0);
	cr_assert_eq(fs_write_file(in_dir("x"), binary, sizeof binary), 0);
	cr_assert_eq(buf_puts(&b, "before:"), 0);
	cr_assert_eq(fs_read_file(in_dir("x"), 100, &b), 0);
	cr_assert_eq(b.len, 7 + sizeof binary);
	cr_assert_eq(memcmp(b.data, "before:", 7), 0);
	cr_assert_eq(memcmp(b.data + 7, binary, sizeof binary), 0);
	cr_assert_eq(unlink(in_dir("x")), 0);
}

Test(fs, sizes_around_the_limit)
{
	_cleanup_free_ char *data = malloc(20000);

	memset(data, 'x', 20000);
	for (size_t size = 0; size <= 20000; size += 5000) {
		_cleanup_buf_ struct buf exact = {0}, less = {0};

		cr_assert_eq(fs_write_file(in_dir("x"), data, size), 0);
		cr_assert_eq(fs_read_file(in_dir("x"), size, &exact), 0);
		cr_assert_eq(exact.len, size);
		if (size)
			cr_assert_eq(fs_read_file(in_dir("x"), size - 1, &less), -EFBIG);
	}
	cr_assert_eq(unlink(in_dir("x")), 0);
}

Test(fs, reads_what_a_descriptor_has_left)
{
	_cleanup_buf_ struct buf b = {0};
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(write(fds[1], "rest", 4), 4);
	close(fds[1]);
	cr_assert_eq(fs_read_fd(fds[0], 100, &b), 0);
	cr_assert_str_eq(buf_str(&b), "rest");
	cr_assert_eq(fs_read_fd(fds[0], 100, &b), 0);
	cr_assert_str_eq(buf_str(&b), "rest");
	close(fds[0]);
	cr_assert_eq(fs_read_fd(fds[0], 100, &b), -EBADF);
}

Test(fs, errors_leave_nothing_behind)
{
	_cleanup_buf_ struct buf b = {0}, small = {.max = 100};

	cr_assert_eq(fs_read_file(in_dir("none"), 100, &b), -ENOENT);
	cr_assert_eq(fs_read_file(dir, 100, &b), -EISDIR);
	cr_assert_eq(b.len, 0);
	cr_assert_eq(fs_write_file(in_dir("none/x"), "x", 1), -ENOENT);
	/* A directory has the name, so the temporary file is removed, which teardown checks. */
	cr_assert_eq(mkdir(in_dir("taken"), 0700), 0);
	cr_assert_eq(fs_write_file(in_dir("taken"), "x", 1), -EISDIR);
	cr_assert_eq(rmdir(in_dir("taken")), 0);
	cr_assert_eq(fs_write_file("/dev/full.d/x", "x", 1), -ENOENT);
	cr_assert_eq(fs_read_file("/proc/self/status", 1 << 16, &small), -EOVERFLOW);
}
