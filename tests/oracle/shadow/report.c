// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/shadow/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "bpf/abi.h"

static const char *const ending_texts[] = {
#define X(name, text, complete) text,
	UNWIND_ENDINGS(X)
#undef X
};

static void print_rule(FILE *out, uint64_t bits)
{
	static const char *const cfa[] = {
		"sp%+d", "fp%+d", "*(sp%+d)%+d", "*(fp%+d)%+d",	     "plt(%d)",	   "signal",
		"root",	 "none",  "reg+%d",	 "*(sp+r9*8%+d)%+d", "unsupported"};
	static const char *const fp[] = {"same", "cfa%+d", "*(fp%+d)", "undefined"};
	struct unwind_rule rule;
	unsigned kind, where;

	memcpy(&rule, &bits, sizeof rule);
	kind = rule.kind & UNWIND_CFA_MASK;
	where = (rule.kind & UNWIND_FP_MASK) >> UNWIND_FP_SHIFT;
	if (kind >= ARRAY_SIZE(cfa)) {
		fprintf(out, "rule %#" PRIx64, bits);
		return;
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	fprintf(out, "CFA ");
	if (kind == UNWIND_CFA_DEREF_SP || kind == UNWIND_CFA_DEREF_FP || kind == UNWIND_CFA_DEREF_R9)
		fprintf(out, cfa[kind], (int16_t)rule.cfa, rule.cfa >> 16);
	else
		fprintf(out, cfa[kind], rule.cfa);
	fprintf(out, " FP ");
	fprintf(out, fp[where], rule.fp * 8);
#pragma GCC diagnostic pop
	if (rule.kind & UNWIND_RA_REG || kind == UNWIND_CFA_REG)
		fprintf(out, " register %u", rule.reg);
}

static void print_place(FILE *out, const struct tables *t, uint64_t frame)
{
	_cleanup_free_ char *symbol = tables_symbol(t, frame);
	const char *module = tables_module(t, frame);

	if (module)
		fprintf(out, "%s+0x%" PRIx64 " %s", module, (uint64_t)(frame & FRAME_VA_MASK),
			symbol ? symbol : "?");
	else
		fprintf(out, "0x%" PRIx64 " in no file", (uint64_t)(frame & FRAME_VA_MASK));
}

static void print_difference(FILE *out, const struct spot *s)
{
	const struct unwound *g = &s->got;

	fprintf(out, "      ");
	print_rule(out, s->rule);
	fprintf(out, "; rip %#llx rsp %#llx rbp %#llx\n", s->regs.rip, s->regs.rsp, s->regs.rbp);
	if (g->ending >= 0) {
		fprintf(out,
			"      got the ending \"%s\", expected the caller ra %#" PRIx64 " cfa %#" PRIx64 "\n",
			ending_texts[g->ending], s->truth.ra, s->truth.sp);
		return;
	}
	fprintf(out,
		"     %s ra %#" PRIx64 " expected %#" PRIx64 "; cfa %#" PRIx64 " expected %#" PRIx64
		"; rbp %#" PRIx64 " expected %#" PRIx64 "\n",
		g->ra == s->truth.ra && g->sp == s->truth.sp ? " (rbp only)" : "", g->ra, s->truth.ra, g->sp,
		s->truth.sp, g->fp, s->truth.fp);
}

/* --- places of one verdict, most steps first */

struct place {
	const struct spot *spot;
	uint64_t n;
};

static int by_steps(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->n < y->n ? 1 : x->n > y->n ? -1 : x->spot->frame < y->spot->frame ? -1 : 1;
}

static uint64_t steps_of(const struct spot *s, int verdict)
{
	return verdict == VERDICTS ? s->walks_wrong : s->n[verdict];
}

/* verdict VERDICTS: walks. */
static void print_places(FILE *out, const struct judge *j, const struct tables *t, int verdict, size_t limit)
{
	_cleanup_free_ struct place *places = calloc(j->spots.len + 1, sizeof *places);
	struct map_node *node;
	size_t n = 0;

	map_for_each (&j->spots, node, it) {
		const struct spot *s = container_of(node, struct spot, node);

		if (places && steps_of(s, verdict))
			places[n++] = (struct place){s, steps_of(s, verdict)};
	}
	if (!n)
		return;
	qsort(places, n, sizeof *places, by_steps);
	fprintf(out, "  %s: %zu places\n",
		verdict == VERDICTS ? "walks that went wrong" : verdict_texts[verdict], n);
	for (size_t i = 0; i < n && i < limit; i++) {
		fprintf(out, "    %10" PRIu64 "  ", places[i].n);
		print_place(out, t, places[i].spot->frame);
		fputc('\n', out);
		if (verdict == VERDICT_WRONG || verdict == VERDICTS)
			print_difference(out, places[i].spot);
	}
	if (n > limit)
		fprintf(out, "    and %zu more\n", n - limit);
}

void report_print(FILE *out, const struct judge *j, const struct shadow *s, const struct tables *t,
		  size_t limit)
{
	uint64_t total = judge_total(j), covered = judge_covered(j);
	const struct shadow_counts *c = &s->counts;

	fprintf(out, "# steps=%" PRIu64 " covered=%" PRIu64 " wrong=%" PRIu64 " unknown=%" PRIu64, total,
		covered, j->n[VERDICT_WRONG], j->n[VERDICT_UNKNOWN] + j->n[VERDICT_FORGOTTEN]);
	fprintf(out,
		" walks=%" PRIu64 " complete=%" PRIu64 " partial=%" PRIu64 " ended=%" PRIu64
		" walks_wrong=%" PRIu64 "\n",
		j->walk.walks, j->walk.complete, j->walk.partial, j->walk.ended, j->walk.wrong);
	fprintf(out,
		"  calls %" PRIu64 ", returns %" PRIu64 ", frames left by jumps %" PRIu64
		", return addresses rewritten %" PRIu64 ", frame pointer changed by the callee %" PRIu64
		",\n  signals %" PRIu64 ", changes of stack %" PRIu64 ", returns from unknown frames %" PRIu64
		"\n",
		c->calls, c->returns, c->left, c->rewritten, c->fp_changed, c->signals, c->switches, c->lost);
	for (int v = 0; v < VERDICTS; v++)
		if (j->n[v])
			fprintf(out, "  %12" PRIu64 "  %8.4f %%  %s\n", j->n[v],
				100.0 * (double)j->n[v] / (double)total, verdict_texts[v]);
	fprintf(out, "  %" PRIu64 " of the right ones by rule and registers, the others read the stack\n",
		j->n_by_rule);
	for (int v = VERDICT_RIGHT_LATER; v <= VERDICTS; v++)
		print_places(out, j, t, v, limit);
}
