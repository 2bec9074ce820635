// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/equality/expected.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define WORD 64 /* bytes of the name or value of a column */

/* One row, split into the values of the columns that are compared; "" where there is none. */
struct values {
	char of[N_COLUMNS][WORD];
};

void expected_init(struct expected *e, struct frames *f, const struct expressions *x)
{
	*e = (struct expected){.texts = f->texts, .frames = f, .expressions = x};
}

void expected_fini(struct expected *e)
{
	free(e->rules);
	*e = (struct expected){0};
}

/* The next word, "" at the end. */
static const char *word(const char *s, char ret[WORD])
{
	size_t n;

	s += strspn(s, " ");
	n = strcspn(s, " ");
	snprintf(ret, WORD, "%.*s", (int)n, s);
	return s + n;
}

/*
 * Reads a value: "rsp+8", "c-16", "u", or a register like "r9 (r9)", of which the name in brackets is used. A
 * register without a name is reg90.
 */
static const char *value(const char *s, char ret[WORD])
{
	char name[WORD];
	const char *rest = word(s, ret);
	const char *after = word(rest, name);

	if (name[0] == '(') {
		snprintf(ret, WORD, "%.*s", (int)strcspn(name + 1, ")"), name + 1);
		return after;
	}
	if (ret[0] == 'r' && ret[1] && strspn(ret + 1, "0123456789") == strlen(ret + 1)) {
		snprintf(name, WORD, "reg%.32s", ret + 1);
		memcpy(ret, name, WORD);
	}
	return rest;
}

static void take_apart(const struct frames_text *t, struct values *ret)
{
	const char *columns = t->columns, *row = t->row;
	char name[WORD], text[WORD];
	bool first = true;

	*ret = (struct values){0};
	for (;; first = false) {
		columns = word(columns, name);
		row = first ? word(row, text) : value(row, text);
		if (!name[0] || !text[0])
			return;
		int column = first ? COLUMN_CFA : strcmp(name, "ra") == 0 ? COLUMN_RA : column_of(name);
		if (column >= 0)
			memcpy(ret->of[column], text, WORD);
	}
}

/* Where the register is saved, in the form of `proflet tables`; NULL where the column says nothing. */
static const char *place(struct texts *texts, const struct values *v, enum column column,
			 const struct expression_state *state)
{
	const char *s = v->of[column];

	if (!s[0] || strcmp(s, "u") == 0 || strcmp(s, "n") == 0)
		return NULL;
	if (strcmp(s, "s") == 0)
		return texts_get(texts, "same");
	if (s[0] == 'c')
		return texts_printf(texts, "cfa%s", s + 1);
	if (strcmp(s, "exp") == 0 || strcmp(s, "vexp") == 0)
		return state->text[column] ? state->text[column] : texts_get(texts, "unsupported");
	if (strcmp(s, "v+0") == 0 && column == COLUMN_SP)
		return NULL; /* the value that the stack pointer has without a rule; Go writes it */
	if (s[0] == 'v')
		return texts_get(texts, "unsupported");
	return texts_get(texts, s);
}

/* Turns "cfa-16" with a CFA of "rdi+8" into "*(rdi-8)". Does not change other texts. */
static const char *detach(struct texts *texts, const char *cfa, const char *text)
{
	size_t n = strcspn(cfa, "+-*(");
	char *end;
	long off = strtol(cfa + n, &end, 10);

	if (!text || strncmp(text, "cfa", 3) != 0 || n == 0 || end == cfa + n || *end)
		return text;
	return texts_printf(texts, "*(%.*s%+ld)", (int)n, cfa, off + strtol(text + 3, NULL, 10));
}

/* With a CFA of "rsp+16", turns "*(rsp+8)" into "cfa-8". Does not change other texts. */
static const char *attach(struct texts *texts, const char *cfa, const char *text)
{
	size_t n = strcspn(cfa, "+-*(");

	if (!text || strncmp(text, "*(", 2) != 0 || strncmp(text + 2, cfa, n) != 0 ||
	    !strchr("+-", text[2 + n]))
		return text;
	return texts_printf(texts, "cfa%+ld", strtol(text + 2 + n, NULL, 10) - strtol(cfa + n, NULL, 10));
}

static struct rule_text finish(struct texts *texts, struct rule_text r, const char *sp, bool signal)
{
	const char *cfa = r.cfa;

	if (!r.ra) {
		r.ra = texts_get(texts, "undef");
	} else if (signal && (strcmp(cfa, "*(rsp+160)") == 0 || strcmp(cfa, "x29+0") == 0)) {
		r.cfa = texts_get(texts, "signal");
		r.fp = detach(texts, cfa, r.fp);
		r.ra = detach(texts, cfa, r.ra);
	} else if (sp && strcmp(sp, "same") != 0) {
		sp = detach(texts, cfa, sp);
		r.cfa = sp[strcspn(sp, "*+-")] ? sp : texts_printf(texts, "%s+0", sp);
		r.fp = detach(texts, cfa, r.fp);
		r.ra = detach(texts, cfa, r.ra);
		if (sp[0] != '*') {
			r.fp = attach(texts, r.cfa, r.fp);
			r.ra = attach(texts, r.cfa, r.ra);
		}
	}
	return r;
}

static int64_t make(struct expected *e, const struct frames_text *t, bool signal,
		    const struct expression_state *state)
{
	struct texts *texts = e->texts;
	struct values v;

	take_apart(t, &v);
	const char *cfa = strcmp(v.of[COLUMN_CFA], "exp") ? v.of[COLUMN_CFA] : state->text[COLUMN_CFA];
	struct rule_text r = {texts_get(texts, cfa && cfa[0] ? cfa : "unsupported"),
			      place(texts, &v, COLUMN_FP, state), place(texts, &v, COLUMN_RA, state)};
	const char *sp = place(texts, &v, COLUMN_SP, state);
	if (!r.cfa)
		return -ENOMEM;
	r = finish(texts, r, sp, signal);
	if (!r.cfa || !r.ra)
		return -ENOMEM;
	if (e->n_rules == e->cap && texts_grow(&e->rules, &e->cap, sizeof *e->rules) < 0)
		return -ENOMEM;
	e->rules[e->n_rules] = r;
	return (int64_t)e->n_rules++;
}

/* The rule of an FDE without a row whose CIE has none either: readelf prints nothing. */
static int64_t nothing(struct expected *e)
{
	const struct frames_text t = {.columns = "CFA", .row = "?"};

	return make(e, &t, false, &(struct expression_state){0});
}

int64_t expected_rule(struct expected *e, const struct frames_entry *fde, size_t row)
{
	const struct frames_entry *cie = fde->cie == SIZE_MAX ? NULL : &e->frames->cies[fde->cie];
	bool signal = cie && cie->signal;

	uint64_t va = row == SIZE_MAX ? fde->start : e->frames->rows[row].va;
	if (row == SIZE_MAX) {
		if (!cie || !cie->n)
			return nothing(e);
		row = cie->first;
	}
	struct frames_text *t = &e->frames->list[e->frames->rows[row].text];
	if (t->expression)
		return make(e, t, signal, expressions_at(e->expressions, fde, va));
	if (t->rule[signal] < 0)
		t->rule[signal] = make(e, t, signal, &(struct expression_state){0});
	return t->rule[signal];
}
