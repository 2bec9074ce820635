// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/shadow/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "bpf/abi.h"

#define CODE_BEFORE 96u
#define CODE_BEHIND 32u

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
	if (kind == UNWIND_CFA_DEREF_SP || kind == UNWIND_CFA_DEREF_FP || kind == UNWIND_CFA_DEREF_INDEX)
		fprintf(out, cfa[kind], (int16_t)rule.cfa, rule.cfa >> 16);
	else
		fprintf(out, cfa[kind], rule.cfa);
	fprintf(out, " FP ");
	fprintf(out, fp[where], rule.fp * 8);
#pragma GCC diagnostic pop
	if (rule.kind & UNWIND_RA_REG || kind == UNWIND_CFA_REG)
		fprintf(out, " register %u", rule.reg);
}

/* The code around an instruction in no file, which nobody can look up later. */
static void print_code(FILE *out, const struct tables *t, uint64_t address)
{
	uint8_t code[CODE_BEFORE + CODE_BEHIND];

	if (tables_is_file(t, address) || !tables_read(t, address - CODE_BEFORE, code, sizeof code))
		return;
	fprintf(out, "      code:");
	for (size_t i = 0; i < sizeof code; i++)
		fprintf(out, "%s%02x", i == CODE_BEFORE ? " > " : " ", code[i]);
	fprintf(out, "\n");
}

static void print_difference(FILE *out, const struct tables *t, const struct spot *s)
{
	const struct unwound *g = &s->got;

	fprintf(out, "      ");
	print_rule(out, s->rule);
	fprintf(out, "; rip %#llx rsp %#llx rbp %#llx\n", s->regs.rip, s->regs.rsp, s->regs.rbp);
	print_code(out, t, s->regs.rip);
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

/*
 * Places of one verdict, most steps first. Differences are shown by instruction; what was not covered, by
 * function or, where there is no name, by stretch of code.
 */
#define STRETCH_GAP 64 /* bytes */

struct place {
	const struct spot *first;
	uint64_t end; /* frame of the last instruction */
	uint64_t n, instructions;
	struct elf_symbol symbol; /* name owned */
};

struct places {
	struct place *list;
	size_t n;
};

static void places_fini(struct places *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->list[i].symbol.name);
	free(p->list);
}

static int by_frame(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->first->frame < y->first->frame ? -1 : x->first->frame > y->first->frame;
}

static int by_steps(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->n < y->n ? 1 : x->n > y->n ? -1 : by_frame(a, b);
}

static uint64_t steps_of(const struct spot *s, int verdict)
{
	return verdict == VERDICTS ? s->walks_wrong : s->n[verdict];
}

/* Every instruction with that verdict, by address. */
static void places_collect(struct places *p, const struct judge *j, int verdict)
{
	struct map_node *node;

	p->list = calloc(j->spots.len + 1, sizeof *p->list);
	map_for_each (&j->spots, node, it) {
		const struct spot *s = container_of(node, struct spot, node);
		uint64_t n = steps_of(s, verdict);

		if (p->list && n)
			p->list[p->n++] = (struct place){s, s->frame, n, 1, {0}};
	}
	if (p->n)
		qsort(p->list, p->n, sizeof *p->list, by_frame);
}

static bool belongs(const struct place *p, const struct place *next)
{
	uint64_t file = p->end >> FRAME_VA_BITS;

	if (file != next->end >> FRAME_VA_BITS)
		return false;
	if (p->symbol.name && (next->end & FRAME_VA_MASK) < p->symbol.end)
		return true;
	return next->end - p->end <= STRETCH_GAP && (!p->symbol.name || !file);
}

static void places_join(struct places *p, const struct tables *t)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct place next = p->list[i];

		if (n && belongs(&p->list[n - 1], &next)) {
			p->list[n - 1].end = next.end;
			p->list[n - 1].n += next.n;
			p->list[n - 1].instructions++;
			continue;
		}
		if (tables_symbol(t, next.end, &next.symbol) < 0)
			next.symbol = (struct elf_symbol){0};
		p->list[n++] = next;
	}
	p->n = n;
}

static void print_place(FILE *out, const struct tables *t, const struct place *p)
{
	uint64_t va = p->first->frame & FRAME_VA_MASK, end = p->end & FRAME_VA_MASK;
	const char *module = tables_module(t, p->first->frame);

	fprintf(out, "    %10" PRIu64 "  %s+0x%" PRIx64, p->n, module ?: "(no file)", va);
	if (end != va)
		fprintf(out, "..0x%" PRIx64, end);
	if (p->symbol.name)
		fprintf(out, " %s+0x%" PRIx64, p->symbol.name, va - p->symbol.start);
	if (p->instructions > 1)
		fprintf(out, " (%" PRIu64 " instructions)", p->instructions);
	fputc('\n', out);
}

/* verdict VERDICTS: walks. */
static void print_places(FILE *out, const struct judge *j, const struct tables *t, int verdict, size_t limit)
{
	_cleanup_(places_fini) struct places p = {0};
	bool differences = verdict == VERDICT_WRONG || verdict == VERDICTS;

	places_collect(&p, j, verdict);
	if (!p.n)
		return;
	fprintf(out, "  %s: %zu instructions\n",
		verdict == VERDICTS ? "walks that went wrong" : verdict_texts[verdict], p.n);
	if (!differences)
		places_join(&p, t);
	qsort(p.list, p.n, sizeof *p.list, by_steps);
	for (size_t i = 0; i < p.n && i < limit; i++) {
		if (differences && tables_symbol(t, p.list[i].end, &p.list[i].symbol) < 0)
			p.list[i].symbol = (struct elf_symbol){0};
		print_place(out, t, &p.list[i]);
		if (differences)
			print_difference(out, t, p.list[i].first);
	}
	if (p.n > limit)
		fprintf(out, "    and %zu more\n", p.n - limit);
}

/* --- rows that would have been right, from the wrong ones: for an override list */

static bool same_need(const struct spot *a, const struct spot *b)
{
	return a->need.cfa == b->need.cfa && (a->need.fps & b->need.fps || a->need.fps == b->need.fps);
}

static void print_need(FILE *out, const struct tables *t, const struct place *first, const struct place *last,
		       uint64_t fps)
{
	const char *id = tables_build_id(t, first->first->frame);

	fprintf(out, "    %s 0x%" PRIx64 "..0x%" PRIx64 " CFA sp%+" PRId64, id ?: "(no build id)",
		(uint64_t)(first->first->frame & FRAME_VA_MASK), (uint64_t)(last->end & FRAME_VA_MASK),
		first->first->need.cfa);
	if (fps & NEED_FP_SAME)
		fprintf(out, " FP same\n");
	else if (fps)
		fprintf(out, " FP cfa-%d\n", 16 + 8 * __builtin_ctzll(fps));
	else
		fprintf(out, " FP not found\n");
}

static void print_needs(FILE *out, const struct judge *j, const struct tables *t, size_t limit)
{
	_cleanup_(places_fini) struct places p = {0};

	places_collect(&p, j, VERDICT_WRONG);
	if (p.n)
		fprintf(out,
			"  rows that would have been right, from and to the instructions that were seen:\n");
	for (size_t i = 0, end, lines = 0; i < p.n && lines < limit; i = end, lines++) {
		uint64_t fps = p.list[i].first->need.fps;

		for (end = i + 1; end < p.n && same_need(p.list[i].first, p.list[end].first) &&
				  p.list[end].end - p.list[end - 1].end <= STRETCH_GAP;
		     end++)
			fps &= p.list[end].first->need.fps ?: fps;
		print_need(out, t, &p.list[i], &p.list[end - 1], fps);
	}
}

/* What is counted apart. */
static void print_parts(FILE *out, const struct judge *j)
{
	static const char *const names[PLACES] = {
		[PLACE_PART] = "the part", [PLACE_NO_FILE] = "code that is in no file"};

	for (int i = 0; i < PLACES; i++) {
		uint64_t total = 0;

		for (int v = 0; v < VERDICTS; v++)
			total += j->by[i][v];
		if (!names[i] || !total)
			continue;
		fprintf(out, "  in %s: %" PRIu64 "\n", names[i], total);
		for (int v = 0; v < VERDICTS; v++)
			if (j->by[i][v])
				fprintf(out, "  %16" PRIu64 "  %8.4f %%  %s\n", j->by[i][v],
					100.0 * (double)j->by[i][v] / (double)total, verdict_texts[v]);
	}
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
	print_parts(out, j);
	fprintf(out, "  %" PRIu64 " of the right ones by rule and registers, the others read the stack\n",
		j->n_by_rule);
	for (int v = VERDICT_RIGHT_LATER; v <= VERDICTS; v++)
		print_places(out, j, t, v, limit);
	print_needs(out, j, t, limit);
}
