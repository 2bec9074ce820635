// SPDX-License-Identifier: Apache-2.0
/* Tables of real binaries: each row found again, and what a row costs. */
#include <fcntl.h>
#include <stdio.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/unwind_table.h"
#include "tests/unit/agent/unwind/lookup.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

static const struct {
	const char *path;
	double max_bytes_a_row; /* 0: only printed */
} files[] = {
	{"/lib/x86_64-linux-gnu/libc.so.6", 4.2},
	{"/lib64/ld-linux-x86-64.so.2", 0},
	{"/lib/x86_64-linux-gnu/libm.so.6", 0},
	{"/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 0},
	{"/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 0},
	{"/usr/lib/x86_64-linux-gnu/libperl.so.5.36", 0},
	{"/proc/self/exe", 0},
};

Test(block_files, rows_and_bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
		_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
		_cleanup_(unwind_blocks_fini) struct unwind_blocks b = {0};
		_cleanup_close_ int fd = open(files[i].path, O_RDONLY | O_CLOEXEC);
		double a_row;

		if (fd < 0) {
			printf("# skipped %s: not here\n", files[i].path);
			continue;
		}
		cr_assert_eq(elf_image_open(&img, fd), 0);
		cr_assert_eq(elf_rows_build(&rows, img), 0, "%s", files[i].path);
		cr_assert_eq(unwind_blocks_encode(&b, rows, elf_image_machine(img)), 0);
		cr_expect_eq(lookup_check(&b, rows, elf_image_machine(img)), 0, "%s: rows differ",
			     files[i].path);
		a_row = (double)b.bytes / (double)rows->n_rows;
		printf("# %s: %zu rows, %zu rules, %zu blocks, %zu bytes, %.2f bytes a row\n", files[i].path,
		       rows->n_rows, rows->n_rules, b.n, b.bytes, a_row);
		if (files[i].max_bytes_a_row > 0)
			cr_expect_leq(a_row, files[i].max_bytes_a_row);
	}
}
