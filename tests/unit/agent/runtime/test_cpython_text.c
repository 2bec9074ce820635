// SPDX-License-Identifier: Apache-2.0
/* The objects are those of CPython 3.11 and 3.14, with zeros for pointers and hashes. */
#include <criterion/criterion.h>
#include <errno.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/runtime/cpython.h"
#include "agent/runtime/cpython_text.h"

static const uint8_t v311_ascii[] = {
	0, 0, 0, 0, 0, 0, 0,	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0x0c, 0,	  0, 0, 0,
	0, 0, 0, 0, 0, 0, 0,	0,    0,    0,	  0,	0xe4, 0x28, 0x5f, 0xe7, 0,    0,    0,	  0, 0, 0,
	0, 0, 0, 0, 0, 0, 0x4b, 0x6c, 0x61, 0x73, 0x73, 0x2e, 0x6d, 0x65, 0x74, 0x68, 0x6f, 0x64, 0};
static const uint8_t v311_latin[] = {
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,	  0,	0,    0,    0x05, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa4, 0xbb, 0xc5, 0xe7, 0,	  0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,	  0,	0,    0,    0,	  0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x67, 0x72, 0xfc, 0xdf, 0x65, 0};
static const uint8_t v311_two[] = {
	0, 0, 0, 0, 0, 0, 0,	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0x06, 0,	  0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0,	0,    0,    0,	  0xa8, 0,    0,    0,	  0,	0,    0,    0,	  0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0,	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0x3f, 0x04, 0x40, 0x04, 0x38, 0x04, 0x32, 0x04, 0x35, 0x04, 0x42, 0x04, 0, 0};
static const uint8_t v311_four[] = {
	0, 0, 0, 0,    0, 0, 0, 0,    0,    0,	  0, 0, 0,    0, 0, 0,	  0x04, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0,    0, 0, 0, 0,    0,    0xb0, 0, 0, 0,    0, 0, 0,	  0,	0, 0, 0, 0, 0, 0,
	0, 0, 0, 0,    0, 0, 0, 0,    0,    0,	  0, 0, 0,    0, 0, 0,	  0,	0, 0, 0, 0, 0, 0,
	0, 0, 0, 0x61, 0, 0, 0, 0x0d, 0xf4, 0x01, 0, 0, 0xd8, 0, 0, 0x62, 0,	0, 0, 0, 0, 0, 0};
static const uint8_t v314_ascii[] = {
	0, 0, 0, 0, 0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0x0c, 0,
	0, 0, 0, 0, 0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  0,	0x64, 0,    0,	  0,
	0, 0, 0, 0, 0x4b, 0x6c, 0x61, 0x73, 0x73, 0x2e, 0x6d, 0x65, 0x74, 0x68, 0x6f, 0x64, 0};
static const uint8_t v314_latin[] = {0,	   0, 0, 0, 0, 0, 0, 0, 0,    0,    0,	  0,	0,    0, 0, 0,
				     0x05, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0,	  0,	0,    0, 0, 0,
				     0x24, 0, 0, 0, 0, 0, 0, 0, 0,    0,    0,	  0,	0,    0, 0, 0,
				     0,	   0, 0, 0, 0, 0, 0, 0, 0x67, 0x72, 0xfc, 0xdf, 0x65, 0};
static const uint8_t v314_two[] = {
	0, 0, 0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0, 0x06, 0,
	0, 0, 0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0x28, 0, 0,    0,
	0, 0, 0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0,	  0,	0,    0,    0, 0,    0,
	0, 0, 0x3f, 0x04, 0x40, 0x04, 0x38, 0x04, 0x32, 0x04, 0x35, 0x04, 0x42, 0x04, 0,    0};
static const uint8_t v314_four[] = {
	0, 0, 0, 0,    0,    0,	   0, 0, 0,    0, 0, 0,	   0, 0,    0,	  0,	0x04, 0,    0,
	0, 0, 0, 0,    0,    0,	   0, 0, 0,    0, 0, 0,	   0, 0x30, 0xb8, 0x3c, 0xd9, 0x6b, 0x7f,
	0, 0, 0, 0,    0,    0,	   0, 0, 0,    0, 0, 0,	   0, 0,    0,	  0,	0,    0,    0x61,
	0, 0, 0, 0x0d, 0xf4, 0x01, 0, 0, 0xd8, 0, 0, 0x62, 0, 0,    0,	  0,	0,    0,    0};

static const struct cpython_layout v311 = {.text_length = 16,
					   .text_state = 32,
					   .kind_shift = 2,
					   .compact_bit = 5,
					   .ascii_bit = 6,
					   .ascii_text = 48,
					   .wide_text = 72};
static const struct cpython_layout v314 = {.text_length = 16,
					   .text_state = 32,
					   .kind_shift = 2,
					   .compact_bit = 5,
					   .ascii_bit = 6,
					   .ascii_text = 40,
					   .wide_text = 56};

#define OBJECT(version, kind) &version, version##_##kind, sizeof version##_##kind

static const struct {
	const struct cpython_layout *layout;
	const uint8_t *object;
	size_t len;
	size_t character; /* bytes */
	const char *text;
} rows[] = {
	{OBJECT(v311, ascii), 1, "Klass.method"},
	{OBJECT(v314, ascii), 1, "Klass.method"},
	{OBJECT(v311, latin), 1,
	 "gr\xc3\xbc\xc3\x9f"
	 "e"},
	{OBJECT(v314, latin), 1,
	 "gr\xc3\xbc\xc3\x9f"
	 "e"},
	{OBJECT(v311, two), 2, "привет"},
	{OBJECT(v314, two), 2, "привет"},
	/* with a surrogate, which is no character */
	{OBJECT(v311, four), 4,
	 "a\xf0\x9f\x90\x8d\xef\xbf\xbd"
	 "b"},
	{OBJECT(v314, four), 4,
	 "a\xf0\x9f\x90\x8d\xef\xbf\xbd"
	 "b"},
};

Test(cpython_text, forms)
{
	_cleanup_buf_ struct buf b = {0};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		buf_clear(&b);
		/* with the terminating 0 character, and without */
		cr_expect_eq(cpython_text_append(&b, rows[i].layout, rows[i].object, rows[i].len), 0);
		cr_expect_str_eq(buf_str(&b), rows[i].text);
		cr_expect_eq(cpython_text_append(&b, rows[i].layout, rows[i].object,
						 rows[i].len - rows[i].character),
			     0);
		cr_expect_eq(b.len, 2 * strlen(rows[i].text));
	}
}

Test(cpython_text, cut)
{
	_cleanup_buf_ struct buf b = {0};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const size_t whole = rows[i].len - rows[i].character;

		for (size_t len = 0; len < whole; len++) {
			int r;

			buf_clear(&b);
			r = cpython_text_append(&b, rows[i].layout, rows[i].object, len);
			cr_expect(r == -ENODATA || r == 1);
			if (r < 0) {
				cr_expect_eq(b.len, 0);
				continue;
			}
			buf_str(&b);
			cr_expect_gt(b.len, strlen(CPYTHON_TEXT_ELLIPSIS));
			b.len -= strlen(CPYTHON_TEXT_ELLIPSIS);
			cr_expect_eq(
				memcmp(b.data + b.len, CPYTHON_TEXT_ELLIPSIS, strlen(CPYTHON_TEXT_ELLIPSIS)),
				0);
			cr_expect_eq(memcmp(b.data, rows[i].text, b.len), 0, "row %zu, %zu bytes", i, len);
		}
	}
}

Test(cpython_text, harmful_characters)
{
	_cleanup_buf_ struct buf b = {0};
	uint8_t object[sizeof v311_ascii], two[sizeof v314_two], four[sizeof v314_four];
	static const uint8_t controls[] = "\n\0\x1b\x7f\x85\xa0";
	static const uint16_t order[] = {0x202e, 0x2066, 0x2065, 0xffff, 0xdfff, 0xd83d};
	static const uint32_t beyond[] = {0x110000, 0xffffffff, 0x10ffff, 0xdc00};

	memcpy(object, v311_ascii, sizeof object);
	memcpy(object + v311.ascii_text, controls, 6);
	cr_expect_eq(cpython_text_append(&b, &v311, object, sizeof object), 0);
	cr_expect_str_eq(buf_str(&b), "?????\xc2\xa0"
				      "method");
	buf_clear(&b);
	memcpy(two, v314_two, sizeof two);
	memcpy(two + v314.wide_text, order, sizeof order);
	cr_expect_eq(cpython_text_append(&b, &v314, two, sizeof two), 0);
	cr_expect_str_eq(buf_str(&b), "??\xe2\x81\xa5\xef\xbf\xbf\xef\xbf\xbd\xef\xbf\xbd");
	buf_clear(&b);
	memcpy(four, v314_four, sizeof four);
	memcpy(four + v314.wide_text, beyond, sizeof beyond);
	cr_expect_eq(cpython_text_append(&b, &v314, four, sizeof four), 0);
	cr_expect_str_eq(buf_str(&b), "\xef\xbf\xbd\xef\xbf\xbd\xf4\x8f\xbf\xbf\xef\xbf\xbd");
}

Test(cpython_text, other_forms)
{
	static const uint8_t states[] = {
		0x20 | 0x00 << 2, /* kind 0: not ready */
		0x20 | 0x03 << 2, /* no kind */
		0x00 | 0x01 << 2, /* not compact */
		0x60 | 0x02 << 2, /* ASCII of two bytes */
	};
	_cleanup_buf_ struct buf b = {0};
	uint8_t object[sizeof v314_ascii];

	memcpy(object, v314_ascii, sizeof object);
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		object[v314.text_state] = states[i];
		cr_expect_eq(cpython_text_append(&b, &v314, object, sizeof object), -ENOTSUP);
	}
	cr_expect_eq(b.len, 0);
}

Test(cpython_text, empty)
{
	_cleanup_buf_ struct buf b = {0};
	uint8_t object[sizeof v314_ascii];

	memcpy(object, v314_ascii, sizeof object);
	object[v314.text_length] = 0;
	cr_expect_eq(cpython_text_append(&b, &v314, object, v314.text_state + 4), 0);
	cr_expect_eq(cpython_text_append(&b, &v314, object, v314.text_state + 3), -ENODATA);
	cr_expect_eq(b.len, 0);
}

Test(cpython_text, no_more_than_the_buffer_takes)
{
	_cleanup_buf_ struct buf b;

	buf_init(&b, 16);
	cr_expect_eq(cpython_text_append(&b, &v314, v314_ascii, sizeof v314_ascii), -EOVERFLOW);
	cr_expect_eq(b.len, 0);
}
