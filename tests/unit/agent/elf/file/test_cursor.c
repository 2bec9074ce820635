// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/elf/cfi_bytes.h"

Test(cursor, leb128)
{
	static const struct {
		struct bytes in;
		bool is_signed;
		int64_t value;
		bool bad;
	} cases[] = {
		{BYTES("\x00"), false, 0, false},
		{BYTES("\x7f"), false, 127, false},
		{BYTES("\x80\x01"), false, 128, false},
		{BYTES("\xe5\x8e\x26"), false, 624485, false},
		{BYTES("\x80\x80\x80\x00"), false, 0, false}, /* padded */
		{BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), false, -1, false},
		{BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00"), false, -1, false},
		{BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), false, 0, true}, /* bit 64 */
		{BYTES(""), false, 0, true},
		{BYTES("\x80"), false, 0, true},
		{BYTES("\x7f"), true, -1, false},
		{BYTES("\x3f"), true, 63, false},
		{BYTES("\x40"), true, -64, false},
		{BYTES("\xc0\xbb\x78"), true, -123456, false},
		{BYTES("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f"), true, INT64_MIN, false},
		{BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00"), true, INT64_MAX, false},
		{BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), true, -1, false},
		{BYTES("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), true, 0, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cursor c = cursor_of(cases[i].in.data, cases[i].in.len);
		int64_t value = cases[i].is_signed ? cursor_sleb(&c) : (int64_t)cursor_uleb(&c);

		cr_expect_eq(c.bad, cases[i].bad, "case %zu", i);
		cr_expect_eq(cursor_left(&c), 0, "case %zu: %zu bytes left", i, cursor_left(&c));
		if (!cases[i].bad)
			cr_expect_eq(value, cases[i].value, "case %zu: %" PRId64, i, value);
	}
}

Test(cursor, past_the_end_reads_zero_and_stays_bad)
{
	struct cursor c = cursor_of("\x01\x02\x03", 3);

	cr_expect_eq(cursor_u16(&c), 0x201);
	cr_expect_eq(cursor_u32(&c), 0);
	cr_expect(c.bad);
	cr_expect_eq(cursor_u8(&c), 0);
	cr_expect_null(cursor_take(&c, UINT64_MAX));
	cr_expect_eq(cursor_left(&c), 0);
}
