// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/equality/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD 128 /* bytes of a column */

void table_fini(struct table *t)
{
	texts_fini(&t->keys);
	free(t->rules);
	free(t->rows);
	*t = (struct table){0};
}

static const char *column(struct texts *texts, const char **at)
{
	char s[WORD];
	size_t n = strcspn(*at, "\t");

	if (n >= sizeof s)
		return NULL;
	memcpy(s, *at, n);
	s[n] = '\0';
	*at += n + ((*at)[n] == '\t');
	return texts_get(texts, s);
}

static int64_t put_rule(struct table *t, struct texts *texts, const char *columns, size_t len)
{
	size_t n = t->keys.n;
	int64_t index = texts_index(&t->keys, columns, len);

	if (index < 0 || t->keys.n == n)
		return index;
	if (n == t->rules_cap && texts_grow(&t->rules, &t->rules_cap, sizeof *t->rules) < 0)
		return -ENOMEM;
	struct rule_text r = {0};
	r.cfa = column(texts, &columns);
	r.fp = column(texts, &columns);
	r.ra = column(texts, &columns);
	t->rules[n] = r;
	return r.cfa && r.fp && r.ra && r.ra[0] && !*columns ? index : -EINVAL;
}

/* Sixteen digits and a TAB. */
static bool address(const char *s, uint64_t *ret)
{
	uint64_t v = 0;

	for (int i = 0; i < 16; i++) {
		int c = s[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
		v = v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	*ret = v;
	return s[16] == '\t';
}

static int put_row(struct table *t, struct texts *texts, const char *line, size_t len)
{
	struct table_row row;

	if (len < 34 || !address(line, &row.start) || !address(line + 17, &row.end) || row.start >= row.end ||
	    (t->n_rows && row.start < t->rows[t->n_rows - 1].end))
		return -EINVAL;
	int64_t rule = put_rule(t, texts, line + 34, len - 34);
	if (rule < 0)
		return (int)rule;
	row.rule = (uint32_t)rule;
	if (t->n_rows == t->rows_cap && texts_grow(&t->rows, &t->rows_cap, sizeof *t->rows) < 0)
		return -ENOMEM;
	t->rows[t->n_rows++] = row;
	return 0;
}

int table_read(struct table *t, struct texts *texts, struct lines *from)
{
	const char *line;
	size_t len;
	int r = 0;

	*t = (struct table){0};
	texts_init(&t->keys);
	while (r == 0 && (line = lines_next(from, &len)))
		r = put_row(t, texts, line, len);
	return r;
}
