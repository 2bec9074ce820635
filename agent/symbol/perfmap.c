// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/perfmap.h"

#include <errno.h>
#include <string.h>

#include "agent/base/parse.h"
#include "agent/symbol/jittable.h"

/* Reads 1–16 hex digits with an optional 0x, and the blanks behind them. */
static bool take_hex(const char **p, const char *end, uint64_t *ret)
{
	const char *start;
	uint64_t v = 0;

	if (end - *p > 2 && (*p)[0] == '0' && ((*p)[1] | 0x20) == 'x')
		*p += 2;
	for (start = *p; *p < end && parse_hex_digit(**p) >= 0; (*p)++)
		v = v << 4 | (uint64_t)parse_hex_digit(**p);
	if (*p == start || *p - start > 16 || *p == end || **p != ' ')
		return false;
	while (*p < end && **p == ' ')
		(*p)++;
	*ret = v;
	return true;
}

static int parse_line(struct jit_builder *b, const char *line, size_t len)
{
	const char *p = line, *end = line + len;
	uint64_t start, size;

	while (end > p && (end[-1] == '\r' || end[-1] == ' '))
		end--;
	if (!take_hex(&p, end, &start) || !take_hex(&p, end, &size))
		return -EINVAL;
	return jit_builder_add(b, start, size, p, (size_t)(end - p));
}

int perfmap_parse(struct perfmap *m, struct jit_builder *b, const char *text, size_t len, size_t *ret_used)
{
	const char *p = text, *end = text + len, *newline;
	int r = 0;

	*ret_used = 0;
	while ((newline = memchr(p, '\n', (size_t)(end - p)))) {
		r = m->skipping ? 0 : parse_line(b, p, (size_t)(newline - p));
		if (r == -ENOSPC || r == -ENOMEM)
			return r;
		m->n_bad += r < 0;
		m->skipping = false;
		p = newline + 1;
		*ret_used = (size_t)(p - text);
	}
	if (end - p >= (ptrdiff_t)PERFMAP_LINE_MAX) {
		m->n_bad += !m->skipping;
		m->skipping = true;
		*ret_used = len;
	}
	return 0;
}
