// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/parse.h"

#define UNTOUCHED 0xdeadull

struct number_case {
	const char *text;
	int want;
	uint64_t value;
};

Test(parse, u64)
{
	static const struct {
		const char *text;
		unsigned base;
		int want;
		uint64_t value;
	} cases[] = {
		{"0", 10, 0, 0},
		{"18446744073709551615", 10, 0, UINT64_MAX},
		{"18446744073709551616", 10, -ERANGE, 0},
		{"99999999999999999999999", 10, -ERANGE, 0},
		{"ffffFFFFffffffff", 16, 0, UINT64_MAX},
		{"10000000000000000", 16, -ERANGE, 0},
		{"777", 8, 0, 511},
		{"8", 8, -EINVAL, 0},
		{"", 10, -EINVAL, 0},
		{" 1", 10, -EINVAL, 0},
		{"1 ", 10, -EINVAL, 0},
		{"-1", 10, -EINVAL, 0},
		{"+1", 10, -EINVAL, 0},
		{"0x10", 16, -EINVAL, 0},
		{"a", 10, -EINVAL, 0},
		{"1\xff", 10, -EINVAL, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = UNTOUCHED;

		cr_expect_eq(parse_u64(cases[i].text, cases[i].base, &v), cases[i].want, "%s", cases[i].text);
		cr_expect_eq(v, cases[i].want ? UNTOUCHED : cases[i].value, "%s", cases[i].text);
	}
}

Test(parse, u32)
{
	uint32_t v = 7;

	cr_expect_eq(parse_u32("4294967296", &v), -ERANGE);
	cr_expect_eq(parse_u32("x", &v), -EINVAL);
	cr_expect_eq(v, 7);
	cr_expect_eq(parse_u32("4294967295", &v), 0);
	cr_expect_eq(v, UINT32_MAX);
}

static void run(int (*parse)(const char *, uint64_t *), const struct number_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t v = UNTOUCHED;

		cr_expect_eq(parse(cases[i].text, &v), cases[i].want, "%s", cases[i].text);
		cr_expect_eq(v, cases[i].want ? UNTOUCHED : cases[i].value, "%s: %lu", cases[i].text, v);
	}
}

Test(parse, durations)
{
	static const struct number_case cases[] = {
		{"10s", 0, 10000000000},
		{"1m", 0, 60000000000},
		{"250ms", 0, 250000000},
		{"2h", 0, 7200000000000},
		{"100us", 0, 100000},
		{"5ns", 0, 5},
		{"0s", 0, 0},
		{"1.5s", 0, 1500000000},
		{"0.25ms", 0, 250000},
		{"10", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{"-1s", -EINVAL, 0},
		{"1 s", -EINVAL, 0},
		{" 1s", -EINVAL, 0},
		{"1sec", -EINVAL, 0},
		{"1m30s", -EINVAL, 0},
		{"0x10s", -EINVAL, 0},
		{"infs", -EINVAL, 0},
		{"nan", -EINVAL, 0},
		{"9999999h", -ERANGE, 0},
		{"1e400s", -ERANGE, 0},
	};

	run(parse_duration_ns, cases, ARRAY_SIZE(cases));
}

Test(parse, sizes)
{
	static const struct number_case cases[] = {
		{"64MiB", 0, 64 << 20}, {"1GiB", 0, 1 << 30},
		{"4KiB", 0, 4096},	{"512B", 0, 512},
		{"512", 0, 512},	{"0", 0, 0},
		{"1.5KiB", 0, 1536},	{"64MB", -EINVAL, 0},
		{"64M", -EINVAL, 0},	{"", -EINVAL, 0},
		{"MiB", -EINVAL, 0},	{"-1", -EINVAL, 0},
		{"1 MiB", -EINVAL, 0},	{"64mib", -EINVAL, 0},
		{"0x10", -EINVAL, 0},	{"99999999999GiB", -ERANGE, 0},
	};

	run(parse_size_bytes, cases, ARRAY_SIZE(cases));
}

Test(parse, percentages)
{
	static const struct {
		const char *text;
		int want;
		double value;
	} cases[] = {
		{"5%", 0, 0.05},     {"12.5%", 0, 0.125}, {"0%", 0, 0},	     {"100%", 0, 1},
		{"400%", 0, 4},	     {"5", -EINVAL, 0},	  {"%", -EINVAL, 0}, {"5 %", -EINVAL, 0},
		{"-5%", -EINVAL, 0}, {"", -EINVAL, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		double v = -1;

		cr_expect_eq(parse_percent(cases[i].text, &v), cases[i].want, "%s", cases[i].text);
		cr_expect(fabs(v - (cases[i].want ? -1 : cases[i].value)) < 1e-9, "%s: %f", cases[i].text, v);
	}
}

Test(parse, booleans)
{
	static const char *const truths[] = {"true", "yes", "on"}, *const lies[] = {"false", "no", "off"};
	static const char *const others[] = {"", "1", "0", "True", "y", "true ", "onn"};
	bool v;

	for (size_t i = 0; i < 3; i++) {
		v = false;
		cr_expect(parse_bool(truths[i], &v) == 0 && v, "%s", truths[i]);
		cr_expect(parse_bool(lies[i], &v) == 0 && !v, "%s", lies[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cr_expect_eq(parse_bool(others[i], &v), -EINVAL, "%s", others[i]);
}

Test(parse, hex_digits)
{
	for (int c = 0; c < 256; c++) {
		const char *at = c ? strchr("0123456789abcdef", c) ?: strchr("0123456789ABCDEF", c) : NULL;
		int want = !at ? -1 : c <= '9' ? c - '0' : (c | 32) - 'a' + 10;

		cr_expect_eq(parse_hex_digit((char)c), want, "%d", c);
	}
}

Test(parse, percent_encoded)
{
	static const struct {
		const char *text;
		int want;
		const char *value;
	} cases[] = {
		{"", 0, ""},
		{"plain", 0, "plain"},
		{"%41%62", 0, "Ab"},
		{"a%2Cb%3dc", 0, "a,b=c"},
		{"%25", 0, "%"},
		{"%2525", 0, "%25"},
		{"%ff", 0, "\xff"},
		{"%", -EINVAL, NULL},
		{"%4", -EINVAL, NULL},
		{"a%4g", -EINVAL, NULL},
		{"%zz", -EINVAL, NULL},
		{"a%00b", -EINVAL, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char s[32];

		strcpy(s, cases[i].text);
		cr_expect_eq(parse_percent_decode(s), cases[i].want, "%s", cases[i].text);
		if (!cases[i].want)
			cr_expect_str_eq(s, cases[i].value, "%s", cases[i].text);
	}
}
