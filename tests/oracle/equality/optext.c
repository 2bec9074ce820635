// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "tests/oracle/equality/expressions.h"

#define OPS_MAX 16
#define OP_BYTES 64
#define NAME 16

struct ops {
	char op[OPS_MAX][OP_BYTES];
	size_t n, at;
};

/* At "; ". False: more or longer ones than any shape has. */
static bool split(const char *s, struct ops *ret)
{
	*ret = (struct ops){0};
	while (*s) {
		size_t n = strcspn(s, ";");

		if (ret->n == OPS_MAX || n >= OP_BYTES)
			return false;
		memcpy(ret->op[ret->n++], s, n);
		s += n + (s[n] == ';');
		s += strspn(s, " ");
	}
	return true;
}

static const char *peek(const struct ops *o, size_t ahead)
{
	return o->at + ahead < o->n ? o->op[o->at + ahead] : "";
}

/* "DW_OP_breg7 (rsp): 8" */
static bool base(const char *op, char ret_name[NAME], long *ret_off)
{
	static const char start[] = "DW_OP_breg";
	const char *open = strchr(op, '('), *close = open ? strchr(open, ')') : NULL;
	char *end;

	if (strncmp(op, start, sizeof start - 1) != 0 || !close || close[1] != ':' || close - open > NAME)
		return false;
	snprintf(ret_name, NAME, "%.*s", (int)(close - open - 1), open + 1);
	*ret_off = strtol(close + 2, &end, 10);
	return end != close + 2 && !*end;
}

static bool are(const struct ops *o, const char *const *wanted, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(peek(o, i), wanted[i]) != 0)
			return false;
	}
	return true;
}

/* What the linkers write for a lazy PLT: 8 more from `*ret_lit` bytes of a slot on. */
static bool is_plt(const struct ops *o, long *ret_lit)
{
	static const char *const before[] = {"DW_OP_breg16 (rip): 0", "DW_OP_lit15", "DW_OP_and"};
	static const char *const after[] = {"DW_OP_ge", "DW_OP_lit3", "DW_OP_shl", "DW_OP_plus"};
	static const char lit[] = "DW_OP_lit";
	struct ops tail = *o;
	char *end;

	if (o->n != 9 || !are(o, before, ARRAY_SIZE(before)) || strncmp(peek(o, 3), lit, sizeof lit - 1) != 0)
		return false;
	*ret_lit = strtol(peek(o, 3) + sizeof lit - 1, &end, 10);
	tail.at += 4;
	return !*end && are(&tail, after, ARRAY_SIZE(after));
}

const char *expressions_text(struct texts *texts, const char *s)
{
	static const char *const scaled[] = {"DW_OP_lit8", "DW_OP_mul", "DW_OP_plus"};
	static const char plus[] = "DW_OP_plus_uconst: ";
	char name[NAME], by[NAME], index[NAME + 4] = "", sum[24] = "";
	long off, more, add = 0;
	struct ops o;
	char *end;

	if (!split(s, &o) || !o.n || !base(o.op[0], name, &off))
		return texts_get(texts, "unsupported");
	o.at = 1;
	if (o.n == 1)
		return texts_printf(texts, "%s%+ld", name, off);
	if (is_plt(&o, &more))
		return texts_printf(texts, "plt(%s%+ld,%ld)", name, off, more);
	if (base(peek(&o, 0), by, &more)) {
		o.at++;
		if (!are(&o, scaled, ARRAY_SIZE(scaled)))
			return texts_get(texts, "unsupported");
		o.at += ARRAY_SIZE(scaled);
		snprintf(index, sizeof index, "+%s*8", by);
		off += 8 * more;
	}
	if (strcmp(peek(&o, 0), "DW_OP_deref") != 0)
		return texts_get(texts, "unsupported");
	o.at++;
	if (o.at < o.n) {
		if (o.n - o.at != 1 || strncmp(peek(&o, 0), plus, sizeof plus - 1) != 0)
			return texts_get(texts, "unsupported");
		add = strtol(peek(&o, 0) + sizeof plus - 1, &end, 10);
		if (*end)
			return texts_get(texts, "unsupported");
	}
	if (add)
		snprintf(sum, sizeof sum, "%+ld", add);
	return texts_printf(texts, "*(%s%s%+ld)%s", name, index, off, sum);
}
