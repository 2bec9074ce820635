// SPDX-License-Identifier: Apache-2.0
/*
 * Walks both tables by address. Each range for which readelf has a rule must be covered by rows of proflet
 * with an equal rule. Rows of proflet between these ranges must have one of the reasons in COMPARE_COUNTS.
 */
#include "tests/oracle/equality/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PADDING_BYTES 16 /* ELF_GAP_MIN of agent/elf/cfi/rows.h */

struct walk {
	const struct compare_input *in;
	struct compare_result *result;
	size_t at;	 /* the first row of proflet that ends behind `done` */
	uint64_t done;	 /* end of the compared addresses */
	bool behind_fde; /* an FDE ended at `done` */
};

static bool is(const char *s, const char *text)
{
	return s && strcmp(s, text) == 0;
}

static void differs(struct walk *w, uint64_t va, const struct rule_text *want, const struct rule_text *ours)
{
	w->result->without_fde += !want;
	if (++w->result->differing > w->in->show)
		return;
	printf("  %016" PRIx64 "  readelf ", va);
	if (want)
		printf("%s %s %s", want->cfa, want->fp ? want->fp : "-", want->ra);
	else
		printf("has no FDE");
	if (ours)
		printf("  proflet %s %s %s\n", ours->cfa, ours->fp, ours->ra);
	else
		printf("  proflet has no row\n");
}

/* Texts are from one struct texts: equal ones have one address. */
static bool equal_but_fp(const struct rule_text *want, const struct rule_text *ours)
{
	/* aarch64: the return address has not changed since the call; readelf shows no rule */
	if (want->ra != ours->ra && !((is(want->ra, "undef") || is(want->ra, "same")) && is(ours->ra, "x30")))
		return false;
	return want->cfa == ours->cfa || (is(ours->ra, "undef") && is(ours->cfa, "undef"));
}

static bool equal_fp(struct walk *w, const struct rule_text *want, const struct rule_text *ours)
{
	if (want->fp)
		return want->fp == ours->fp;
	if (is(ours->fp, "undef")) {
		w->result->counts[COUNT_UNDEFINED_FP]++;
		return true;
	}
	return is(ours->fp, "same");
}

static bool of_the_go_runtime(const struct rule_text *want, const struct rule_text *ours)
{
	if (is(want->ra, "undef") || !ours || is(ours->cfa, "undef") || is(ours->cfa, "signal"))
		return true;
	if (strncmp(ours->cfa, "switch(", 7) == 0)
		return true;
	return !is(ours->ra, "x30") && strncmp(ours->ra, "cfa", 3) != 0;
}

static bool is_unsupported(const struct rule_text *ours)
{
	return ours && (is(ours->cfa, "unsupported") || is(ours->ra, "unsupported"));
}

/* Finds the first row of proflet in the range that differs. False: there is none. */
static bool find_difference(struct walk *w, const struct layout_part *part, bool go, uint64_t *ret_va,
			    const struct rule_text **ret_ours)
{
	const struct rule_text *want = &w->in->expected->rules[part->rule];
	const struct table *t = w->in->table;

	for (*ret_va = part->start; *ret_va < part->end; *ret_va = t->rows[w->at].end) {
		while (w->at < t->n_rows && t->rows[w->at].end <= *ret_va)
			w->at++;
		if (w->at == t->n_rows || t->rows[w->at].start > *ret_va) {
			*ret_ours = NULL;
			return true;
		}
		*ret_ours = &t->rules[t->rows[w->at].rule];
		if (part->in_part && is_unsupported(*ret_ours))
			continue;
		if (!equal_but_fp(want, *ret_ours) || (!go && !equal_fp(w, want, *ret_ours)))
			return true;
	}
	return false;
}

/* Handles a row of proflet, or the part of it, where there is no FDE. */
static void outside(struct walk *w, uint64_t start, uint64_t end, const struct table_row *row)
{
	const struct rule_text *rule = &w->in->table->rules[row->rule];
	size_t *counts = w->result->counts;

	if (w->behind_fde && start == w->done && row->start < start && end - start < PADDING_BYTES)
		counts[COUNT_PADDING]++;
	else if (binary_in_plt(w->in->binary, start) && binary_in_plt(w->in->binary, end - 1))
		counts[COUNT_PLT]++;
	else if (w->in->binary->go)
		counts[COUNT_GO]++;
	else if (end - start == 1 && is(rule->cfa, "undef") && is(rule->ra, "undef"))
		counts[COUNT_ROOT]++;
	else if (w->in->binary->analysed && binary_in_code(w->in->binary, start, end, PADDING_BYTES))
		counts[COUNT_CODE]++;
	else
		differs(w, start, NULL, rule);
}

static void gap(struct walk *w, uint64_t to)
{
	const struct table *t = w->in->table;

	while (w->at < t->n_rows && t->rows[w->at].end <= w->done)
		w->at++;
	for (size_t i = w->at; i < t->n_rows && t->rows[i].start < to; i++) {
		const struct table_row *row = &t->rows[i];

		outside(w, row->start > w->done ? row->start : w->done, row->end < to ? row->end : to, row);
	}
}

static void compare_piece(struct walk *w, const struct layout_part *piece)
{
	struct compare_result *result = w->result;
	bool go = w->in->binary->go && piece->kind != EH_FRAME;
	const struct rule_text *ours;
	uint64_t va;

	result->rows++;
	result->counts[COUNT_GO_FP] += go;
	result->counts[COUNT_DEBUG_FILE] += piece->kind == DEBUG_FILE;
	if (!find_difference(w, piece, go, &va, &ours))
		return;
	const struct rule_text *want = &w->in->expected->rules[piece->rule];
	if (go && result->counts[COUNT_GO_RUNTIME] < GO_RUNTIME_ROWS && of_the_go_runtime(want, ours))
		result->counts[COUNT_GO_RUNTIME]++;
	else
		differs(w, va, want, ours);
}

/* The first range with addresses between `from` and `to`, or NULL. */
static const struct compare_range *next_overridden(const struct compare_input *in, uint64_t from, uint64_t to)
{
	const struct compare_range *first = NULL;

	for (size_t i = 0; i < in->n_overridden; i++) {
		const struct compare_range *r = &in->overridden[i];

		if (r->end > from && r->start < to && (!first || r->start < first->start))
			first = r;
	}
	return first;
}

static int compare_part(const struct layout_part *part, void *data)
{
	struct walk *w = data;
	struct layout_part piece = *part;

	if (part->start > w->done)
		gap(w, part->start);
	while (piece.start < part->end) {
		const struct compare_range *r = next_overridden(w->in, piece.start, part->end);

		piece.end = r ? r->start : part->end;
		if (piece.end > piece.start)
			compare_piece(w, &piece);
		w->result->counts[COUNT_OVERRIDDEN] += r != NULL;
		piece.start = r ? r->end : part->end;
	}
	w->done = part->end;
	w->behind_fde = true;
	return 0;
}

int compare_run(const struct compare_input *in, struct compare_result *ret)
{
	struct walk w = {.in = in, .result = ret};

	*ret = (struct compare_result){0};
	int r = layout_walk(in->expected, in->skips, in->n_skips, &ret->counts[COUNT_SKIPPED], compare_part,
			    &w);
	if (r == 0)
		gap(&w, UINT64_MAX);
	return r;
}
