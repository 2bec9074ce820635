// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"

Test(buf, trim)
{
	_cleanup_buf_ struct buf b = {0};

	buf_trim(&b);
	cr_expect_null(b.data);
	cr_assert_eq(buf_reserve(&b, 10000), 0);
	cr_assert_eq(buf_puts(&b, "abc"), 0);
	buf_trim(&b);
	cr_expect_eq(b.cap, 3);
	cr_assert_eq(buf_putc(&b, 'd'), 0);
	cr_expect_str_eq(buf_str(&b), "abcd");
}

Test(buf, appends_and_stays_one_string)
{
	_cleanup_buf_ struct buf b = {0};

	cr_assert_str_eq(buf_str(&b), "");
	cr_assert_eq(buf_puts(&b, "one"), 0);
	cr_assert_eq(buf_putc(&b, ' '), 0);
	cr_assert_eq(buf_append(&b, "two!", 3), 0);
	cr_assert_eq(buf_append(&b, NULL, 0), 0);
	cr_assert_eq(buf_printf(&b, " %d%s", 3, ""), 0);
	cr_assert_eq(b.len, strlen("one two 3"));
	cr_assert_str_eq(buf_str(&b), "one two 3");
	cr_assert_eq(b.len, strlen("one two 3"));
	buf_clear(&b);
	cr_assert_str_eq(buf_str(&b), "");
	cr_assert_eq(buf_puts(&b, "again"), 0);
	cr_assert_str_eq(buf_str(&b), "again");
}

Test(buf, keeps_its_content_when_it_grows)
{
	_cleanup_buf_ struct buf b = {0};

	for (unsigned i = 0; i < 100000; i++)
		cr_assert_eq(buf_append(&b, &(uint8_t){(uint8_t)(i * 7)}, 1), 0);
	cr_assert_eq(b.len, 100000);
	for (unsigned i = 0; i < 100000; i++)
		cr_assert_eq(b.data[i], (uint8_t)(i * 7));
}

Test(buf, maximum_is_exact_and_refuses_whole_writes)
{
	_cleanup_buf_ struct buf b;

	buf_init(&b, 10);
	cr_assert_eq(buf_puts(&b, "0123456789"), 0);
	cr_assert_eq(buf_putc(&b, 'x'), -EOVERFLOW);
	cr_assert_eq(b.len, 10);
	buf_clear(&b);
	cr_assert_eq(buf_puts(&b, "0123456789x"), -EOVERFLOW);
	cr_assert_eq(b.len, 0);
	cr_assert_eq(buf_puts(&b, "01234"), 0);
	cr_assert_eq(buf_printf(&b, "%s", "567890"), -EOVERFLOW);
	cr_assert_eq(b.len, 5);
	cr_assert_eq(memcmp(b.data, "01234", 5), 0);
	cr_assert_eq(buf_reserve(&b, SIZE_MAX), -EOVERFLOW);
	cr_assert_eq(buf_reserve(&b, 5), 0);
	cr_assert_eq(buf_reserve(&b, 6), -EOVERFLOW);
}

Test(buf, printf_of_every_length_around_a_growth)
{
	for (int width = 1; width < 200; width++) {
		_cleanup_buf_ struct buf b = {0};

		cr_assert_eq(buf_printf(&b, "%*d", width, 7), 0);
		cr_assert_eq(b.len, (size_t)width);
		cr_assert_eq(b.data[width - 1], '7');
	}
}

Test(buf, finished_twice)
{
	struct buf b = {0};

	cr_assert_eq(buf_puts(&b, "x"), 0);
	buf_fini(&b);
	buf_fini(&b);
	cr_assert_null(b.data);
	cr_assert_eq(buf_puts(&b, "y"), 0);
	cr_assert_str_eq(buf_str(&b), "y");
	buf_fini(&b);
}
