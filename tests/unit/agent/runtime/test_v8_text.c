// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/v8_text.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"

struct text {
	uint32_t length, width;
	uint8_t bytes[64];
	size_t len; /* of `bytes` */
};

static struct text one_byte(const char *s)
{
	struct text t = {.length = (uint32_t)strlen(s), .width = 1, .len = strlen(s)};

	memcpy(t.bytes, s, t.len);
	return t;
}

static void expect(const struct text *t, int r, const char *want)
{
	_cleanup_buf_ struct buf b = {0};

	cr_assert_eq(v8_text_append(&b, (const uint8_t *)t, 8 + t->len), r);
	if (r < 0)
		return;
	cr_assert_eq(buf_putc(&b, '\0'), 0);
	cr_expect_str_eq((const char *)b.data, want);
}

Test(v8_text, characters)
{
	static const uint16_t units[] = {'a', 0x20ac, 0xd83d, 0xde00, 0xd83d};
	struct text t = one_byte("caf\xe9\n");

	expect(&t, 0, "caf\xc3\xa9?");
	t = (struct text){.length = 5, .width = 2, .len = sizeof units};
	memcpy(t.bytes, units, sizeof units);
	expect(&t, 0, "a\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd");
	t.length = 9;
	expect(&t, 1, "a\xe2\x82\xac\xf0\x9f\x98\x80\xe2\x80\xa6");
	t = (struct text){.width = 1};
	expect(&t, 0, "");
}

Test(v8_text, what_is_no_text)
{
	_cleanup_buf_ struct buf b = {0};
	struct text t = one_byte("abc");

	t.width = 3;
	expect(&t, -EBADMSG, "");
	t.width = 0;
	expect(&t, -EBADMSG, "");
	t.width = 1;
	t.length = 2;
	expect(&t, -EBADMSG, "");
	cr_expect_eq(v8_text_append(&b, (const uint8_t *)&t, 7), -EBADMSG);
}

static void expect_name(const char *name, const char *guessed, const char *want)
{
	_cleanup_buf_ struct buf b = {0};
	const struct text n = one_byte(name ?: ""), g = one_byte(guessed ?: "");

	cr_assert_eq(v8_name_append(&b, (const uint8_t *)&n, name ? 8 + n.len : 0, (const uint8_t *)&g,
				    guessed ? 8 + g.len : 0),
		     0);
	cr_assert_eq(buf_putc(&b, '\0'), 0);
	cr_expect_str_eq((const char *)b.data, want);
}

Test(v8_text, names)
{
	expect_name("run", NULL, "run");
	expect_name("run", "", "run");
	expect_name("run", "Work.run", "Work.run");
	expect_name("run", "run", "run");
	expect_name("run", ".run", "run");
	expect_name("run", "prerun", "run");
	expect_name("inner", "outer.other", "inner");
	expect_name("", "Ctor.foo", "Ctor.foo");
	expect_name(NULL, "foo", "foo");
	expect_name("", "", "(anonymous)");
	expect_name(NULL, NULL, "(anonymous)");
}
