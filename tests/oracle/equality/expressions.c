// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/equality/expressions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

#define NAME 16	    /* bytes of a register's name */
#define REMEMBER 64 /* depth of remembered states */

/* The entry of the dump whose instructions are being read. */
struct walk {
	struct expressions *x;
	struct frames *f;
	struct frames_entry *entry; /* NULL: the entry is skipped */
	uint64_t va;
	struct expression_state state, initial, remembered[REMEMBER];
	size_t n_remembered;
	struct expression_state *cies; /* states at the end of the CIEs */
};

int column_of(const char *name)
{
	static const struct {
		const char *name;
		enum column column;
	} names[] = {{"rbp", COLUMN_FP}, {"x29", COLUMN_FP}, {"rsp", COLUMN_SP},
		     {"sp", COLUMN_SP},	 {"rip", COLUMN_RA}, {"x30", COLUMN_RA}};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(name, names[i].name) == 0)
			return names[i].column;
	}
	return -1;
}

void expressions_fini(struct expressions *x)
{
	free(x->steps);
	*x = (struct expressions){0};
}

const struct expression_state *expressions_at(const struct expressions *x, const struct frames_entry *fde,
					      uint64_t va)
{
	static const struct expression_state none;
	const struct expression_state *found = &none;

	for (size_t i = 0; i < fde->n_steps && x->steps[fde->first_step + i].va <= va; i++)
		found = &x->steps[fde->first_step + i].state;
	return found;
}

static int put_step(struct walk *w)
{
	struct expressions *x = w->x;

	if (x->n == x->cap && texts_grow(&x->steps, &x->cap, sizeof *x->steps) < 0)
		return -ENOMEM;
	x->steps[x->n++] = (struct expression_step){w->va, w->state};
	w->entry->n_steps++;
	return 0;
}

/* "r6 (rbp) (DW_OP_breg6 (rbp): 0)" → its column; *ret_ops is the text in the last brackets, cut to it. */
static int register_of(char *s, char **ret_ops)
{
	char *open = strchr(s, '('), *close = open ? strchr(open, ')') : NULL;
	char name[NAME];

	if (!close)
		return -1;
	snprintf(name, sizeof name, "%.*s", (int)(close - open - 1), open + 1);
	open = strchr(close, '(');
	close = open ? strrchr(open, ')') : NULL;
	*ret_ops = close ? open + 1 : NULL;
	if (close)
		*close = '\0';
	return column_of(name);
}

/* "6 to 0000000000026006" */
static int advance(struct walk *w, char *rest)
{
	const char *last = strrchr(rest, ' ');

	w->va = strtoull(last ? last + 1 : rest, NULL, 16);
	return 0;
}

static int set_cfa(struct walk *w, char *ops)
{
	char *close = strrchr(ops, ')');

	if (*ops != '(' || !close)
		return -EINVAL;
	*close = '\0';
	w->state.text[COLUMN_CFA] = expressions_text(w->f->texts, ops + 1);
	return w->state.text[COLUMN_CFA] ? put_step(w) : -ENOMEM;
}

static int set_register(struct walk *w, char *rest)
{
	char *ops;
	int column = register_of(rest, &ops);

	if (column < 0 || !ops)
		return 0;
	const char *text = expressions_text(w->f->texts, ops);
	w->state.text[column] = text ? texts_printf(w->f->texts, "*(%s)", text) : NULL;
	return w->state.text[column] ? put_step(w) : -ENOMEM;
}

static int set_value(struct walk *w, char *rest)
{
	char *ops;
	int column = register_of(rest, &ops);

	if (column < 0 || !ops)
		return 0;
	w->state.text[column] = expressions_text(w->f->texts, ops);
	return w->state.text[column] ? put_step(w) : -ENOMEM;
}

static int restore_register(struct walk *w, char *rest)
{
	char *ops;
	int column = register_of(rest, &ops);

	if (column < 0)
		return 0;
	w->state.text[column] = w->initial.text[column];
	return put_step(w);
}

static int remember(struct walk *w, char *rest)
{
	(void)rest;
	if (w->n_remembered == REMEMBER)
		return -EINVAL;
	w->remembered[w->n_remembered++] = w->state;
	return 0;
}

static int restore(struct walk *w, char *rest)
{
	(void)rest;
	if (w->n_remembered == 0)
		return 0;
	w->state = w->remembered[--w->n_remembered];
	return put_step(w);
}

static int instruction(struct walk *w, char *line)
{
	static const struct {
		const char *name;
		int (*run)(struct walk *w, char *rest);
	} known[] = {
		{"DW_CFA_advance_loc", advance},      {"DW_CFA_advance_loc1", advance},
		{"DW_CFA_advance_loc2", advance},     {"DW_CFA_advance_loc4", advance},
		{"DW_CFA_set_loc", advance},	      {"DW_CFA_def_cfa_expression", set_cfa},
		{"DW_CFA_expression", set_register},  {"DW_CFA_val_expression", set_value},
		{"DW_CFA_restore", restore_register}, {"DW_CFA_restore_extended", restore_register},
		{"DW_CFA_remember_state", remember},  {"DW_CFA_restore_state", restore},
	};
	char *name = line + strspn(line, " "), *rest = name + strcspn(name, ": ");
	size_t n = (size_t)(rest - name);

	rest += strspn(rest, ": ");
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strlen(known[i].name) == n && memcmp(known[i].name, name, n) == 0)
			return known[i].run(w, rest);
	}
	return 0;
}

/* Begins an entry. The raw dump has the entries in the order of the interpreted one. */
static int begin(struct walk *w, const struct frames_line *line, size_t n_cie, size_t n_fde)
{
	struct frames_entry *entry;

	if (line->is_cie ? n_cie >= w->f->n_cies : n_fde >= w->f->n_fdes)
		return -EINVAL;
	entry = line->is_cie ? &w->f->cies[n_cie] : &w->f->fdes[n_fde];
	if (entry->offset != line->offset)
		return -EINVAL;
	w->entry = line->is_cie || entry->expression ? entry : NULL;
	if (!w->entry)
		return 0;
	w->state =
		line->is_cie || entry->cie == SIZE_MAX ? (struct expression_state){0} : w->cies[entry->cie];
	w->initial = w->state;
	w->n_remembered = 0;
	w->va = line->start;
	entry->first_step = w->x->n;
	return put_step(w);
}

/* The last FDE that has an expression. */
static size_t last_needed(const struct frames *f)
{
	size_t n = f->n_fdes;

	while (n > 0 && !f->fdes[n - 1].expression)
		n--;
	return n;
}

static int read_entries(struct walk *w, struct lines *from)
{
	size_t n_cie = 0, n_fde = 0, needed = last_needed(w->f), len;
	struct frames_line entry;
	enum section_kind kind;
	char *line;
	int r = 0;
	bool wanted = false;

	while (r == 0 && (line = lines_next(from, &len))) {
		if (strncmp(line, "  DW_CFA_", 9) == 0) {
			r = w->entry ? instruction(w, line) : 0;
			continue;
		}
		if (w->entry && n_cie > 0 && w->entry == &w->f->cies[n_cie - 1])
			w->cies[n_cie - 1] = w->state;
		if (strncmp(line, "Contents of the ", 16) == 0)
			wanted = frames_section_line(line, w->f->path, &kind);
		if (!wanted || !frames_entry_line(line, &entry))
			continue;
		if (n_fde == needed)
			break;
		r = begin(w, &entry, n_cie, n_fde);
		n_cie += entry.is_cie;
		n_fde += !entry.is_cie;
	}
	return r < 0 || n_fde >= needed ? r : -EINVAL;
}

int expressions_read(struct expressions *x, struct frames *f, struct lines *from)
{
	_cleanup_free_ struct expression_state *cies = calloc(f->n_cies + 1, sizeof *cies);
	_cleanup_free_ struct walk *w = calloc(1, sizeof *w);

	*x = (struct expressions){0};
	if (!cies || !w)
		return -ENOMEM;
	w->x = x;
	w->f = f;
	w->cies = cies;
	return read_entries(w, from);
}
