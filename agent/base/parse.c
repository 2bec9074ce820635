// SPDX-License-Identifier: Apache-2.0
#include "agent/base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int parse_u64(const char *s, unsigned base, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		unsigned digit;

		if (*s >= '0' && *s <= '9')
			digit = (unsigned)(*s - '0');
		else if (isalpha((unsigned char)*s))
			digit = (unsigned)(tolower((unsigned char)*s) - 'a') + 10;
		else
			return -EINVAL;
		if (digit >= base)
			return -EINVAL;
		if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit, &v))
			return -ERANGE;
	}
	*ret = v;
	return 0;
}

int parse_u32(const char *s, uint32_t *ret)
{
	uint64_t v;
	int r = parse_u64(s, 10, &v);

	if (r < 0)
		return r;
	if (v > UINT32_MAX)
		return -ERANGE;
	*ret = (uint32_t)v;
	return 0;
}

struct unit {
	const char *suffix;
	uint64_t factor;
};

/* NUMBER[.FRACTION]SUFFIX, the suffix from `units` (sentinel: suffix NULL). */
static int parse_with_unit(const char *s, const struct unit *units, uint64_t *ret)
{
	char *end;
	double v;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		return -EINVAL;
	errno = 0;
	v = strtod(s, &end);
	if (errno || !isfinite(v))
		return -ERANGE;
	for (; units->suffix; units++) {
		if (strcmp(end, units->suffix) != 0)
			continue;
		v *= (double)units->factor;
		if (v >= 9.0e18)
			return -ERANGE;
		*ret = (uint64_t)(v + 0.5);
		return 0;
	}
	return -EINVAL;
}

int parse_duration_ns(const char *s, uint64_t *ret)
{
	static const struct unit units[] = {
		{"ns", 1},	    {"us", 1000},	  {"ms", 1000000}, {"s", 1000000000},
		{"m", 60000000000}, {"h", 3600000000000}, {NULL, 0},
	};

	return parse_with_unit(s, units, ret);
}

int parse_size_bytes(const char *s, uint64_t *ret)
{
	static const struct unit units[] = {
		{"", 1}, {"B", 1}, {"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30}, {NULL, 0},
	};

	return parse_with_unit(s, units, ret);
}

int parse_percent(const char *s, double *ret)
{
	static const struct unit units[] = {{"%", 1000000}, {NULL, 0}};
	uint64_t v;
	int r = parse_with_unit(s, units, &v);

	if (r < 0)
		return r;
	*ret = (double)v / 1e8;
	return 0;
}

int parse_bool(const char *s, bool *ret)
{
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};

	for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcmp(s, words[i]) == 0) {
			*ret = i & 1;
			return 0;
		}
	}
	return -EINVAL;
}

int parse_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int parse_percent_decode(char *s)
{
	char *out = s;

	for (; *s; s++, out++) {
		*out = *s;
		if (*s == '%') {
			int high = parse_hex_digit(s[1]), low = high < 0 ? -1 : parse_hex_digit(s[2]);

			if (low < 0 || high + low == 0)
				return -EINVAL;
			*out = (char)(high << 4 | low);
			s += 2;
		}
	}
	*out = '\0';
	return 0;
}
