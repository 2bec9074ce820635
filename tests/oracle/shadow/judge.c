// SPDX-License-Identifier: Apache-2.0
#include "tests/oracle/shadow/judge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "tests/oracle/shadow/exclude.h"
#include "bpf/abi.h"

#define SPOTS_MAX 1000000
#define ARGUMENTS_MAX 4096u /* bytes */

const char *const verdict_texts[VERDICTS] = {
#define X(name, text, covered) text,
	JUDGE_VERDICTS(X)
#undef X
};

static const bool verdict_covered[VERDICTS] = {
#define X(name, text, covered) covered,
	JUDGE_VERDICTS(X)
#undef X
};

void judge_init(struct judge *j)
{
	*j = (struct judge){0};
	map_init(&j->spots, SPOTS_MAX);
}

void judge_fini(struct judge *j)
{
	struct map_node *n;

	map_for_each (&j->spots, n, it)
		free(container_of(n, struct spot, node));
	map_fini(&j->spots);
	free(j->disputes);
}

static bool spot_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct spot, node)->frame == *(const uint64_t *)key;
}

static struct spot *spot_at(struct judge *j, const struct unwound *got)
{
	struct map_node *n = map_find(&j->spots, hash_u64(got->frame), spot_is, &got->frame);
	struct spot *s;

	if (n)
		return container_of(n, struct spot, node);
	s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->frame = got->frame;
	s->rule = got->rule;
	if (map_insert(&j->spots, &s->node, hash_u64(got->frame)) < 0) {
		free(s);
		return NULL;
	}
	return s;
}

static void count_frame(struct judge *j, uint64_t frame, enum verdict v, uint64_t n)
{
	j->n[v] += n;
	j->by[tables_place(j->tables, frame)][v] += n;
}

static void count(struct judge *j, struct spot *s, enum verdict v, uint64_t n)
{
	count_frame(j, s->frame, v, n);
	s->n[v] += n;
}

static bool is_caller(const struct unwound *got, struct truth t)
{
	return got->ending < 0 && got->ra == t.ra && got->sp == t.sp;
}

/* Whether the code is V8's, or was made at run time: such code takes off what others have pushed. */
static bool drops_arguments(const struct judge *j, const struct unwound *got)
{
	return tables_place(j->tables, got->frame) != PLACE_FILES;
}

/* The caller is right, but what was pushed for the call, or is taken off behind it, was not known. */
static bool is_caller_elsewhere(const struct judge *j, const struct unwound *got, struct truth t)
{
	return drops_arguments(j, got) && got->ending < 0 && got->ra == t.ra && got->fp == t.fp &&
	       got->sp != t.sp;
}

static bool is_truth(const struct unwound *got, struct truth t)
{
	return is_caller(got, t) && got->fp == t.fp;
}

static bool is_same(const struct unwound *a, const struct unwound *b)
{
	return a->ending == b->ending && a->ra == b->ra && a->sp == b->sp && a->fp == b->fp;
}

static struct truth truth_of(const struct shadow_frame *f)
{
	return (struct truth){f->ra, f->sp, f->fp};
}

static unsigned cfa_of(const struct unwound *got)
{
	return got->rule >> 48 & UNWIND_CFA_MASK;
}

/* The verdict on a step that no row covered, VERDICTS if one did. */
static enum verdict uncovered(const struct unwound *got, bool right)
{
	if (got->ending == ENDING_NO_MAPPING || got->ending == ENDING_NO_PROCESS)
		return VERDICT_NO_MAPPING;
	if (got->ending == ENDING_UNSUPPORTED_RULE)
		return VERDICT_UNSUPPORTED;
	if (got->ending == ENDING_NO_ROW && cfa_of(got) == UNWIND_CFA_INTERPRETED)
		return VERDICT_NO_ROW; /* the frame pointer is not this frame's, and the rule has seen it */
	if (cfa_of(got) != UNWIND_CFA_NONE)
		return VERDICTS;
	if (got->ending >= 0 && got->ending != ENDING_ROOT)
		return got->ending == ENDING_NO_TABLE ? VERDICT_NO_TABLE : VERDICT_NO_ROW;
	if (got->reason == ENDING_NO_TABLE)
		return right ? VERDICT_NO_TABLE_FP : VERDICT_NO_TABLE_FP_WRONG;
	return right ? VERDICT_NO_ROW_FP : VERDICT_NO_ROW_FP_WRONG;
}

static struct dispute *dispute_new(struct judge *j)
{
	if (j->n_disputes == j->cap_disputes) {
		size_t cap = j->cap_disputes ? j->cap_disputes * 2 : 64;
		struct dispute *more = realloc(j->disputes, cap * sizeof *more);

		if (!more)
			return NULL;
		j->disputes = more;
		j->cap_disputes = cap;
	}
	return &j->disputes[j->n_disputes++];
}

/* The CFA is right, and so is where the frame pointer was saved: it is what lies there that changed. */
static bool is_overwritten(const struct unwound *got, const struct shadow_frame *f)
{
	return got->ending < 0 && got->sp == f->sp && !(got->rule >> 48 & UNWIND_RA_REG) &&
	       (got->fp == f->fp || (f->fp_slot && tables_fp_slot(got) == f->fp_slot));
}

static struct need need_of(const struct tables *t, const struct user_regs_struct *regs, struct truth truth)
{
	struct need need = {.cfa = (int64_t)(truth.sp - regs->rsp)};
	uint64_t words[NEED_WORDS];
	uint64_t start = truth.sp - 8 - sizeof words;

	if (regs->rbp == truth.fp)
		need.fps = NEED_FP_SAME;
	if (!tables_read(t, start, words, sizeof words))
		return need;
	for (unsigned i = 0; i < NEED_WORDS && truth.sp - 16 - 8ull * i >= regs->rsp; i++)
		if (words[NEED_WORDS - 1 - i] == truth.fp)
			need.fps |= 1ull << i;
	return need;
}

static int dispute_add(struct judge *j, const struct tables *t, struct dispute new)
{
	struct dispute *d;

	for (size_t i = 0; i < j->n_disputes; i++) {
		d = &j->disputes[i];
		if (d->id == new.id && d->spot == new.spot &&is_same(&d->got, &new.got)) {
			d->n++;
			return 0;
		}
	}
	d = dispute_new(j);
	if (!d)
		return -ENOMEM;
	*d = new;
	d->need = need_of(t, &new.regs, new.truth);
	return 0;
}

static void spot_example(struct spot *s, const struct unwound *got, struct truth truth,
			 const struct user_regs_struct *regs)
{
	s->rule = got->rule;
	s->got = *got;
	s->truth = truth;
	s->regs = *regs;
}

static void settle(struct judge *j, const struct dispute *d, enum verdict v)
{
	if (v == d->if_wrong) {
		struct need *need = &d->spot->need;

		if (!d->spot->n[v]) {
			spot_example(d->spot, &d->got, d->truth, &d->regs);
			*need = d->need;
		}
		need->cfa = need->cfa == d->need.cfa ? need->cfa : 0;
		need->fps &= d->need.fps;
	}
	count(j, d->spot, v, d->n);
}

/* It went back to where the row said, with more taken off the stack than the return address. */
static bool pops_arguments(const struct unwound *got, const struct user_regs_struct *to)
{
	return got->ending < 0 && to->rip == got->ra && to->rbp == got->fp && to->rsp > got->sp &&
	       to->rsp - got->sp <= ARGUMENTS_MAX;
}

/* It went back to where the row said, with the frame that it has made for its caller (V8). */
static bool has_made_frame(const struct judge *j, const struct unwound *got,
			   const struct user_regs_struct *to)
{
	return drops_arguments(j, got) && got->ending < 0 && to->rip == got->ra && to->rbp == got->fp;
}

static enum verdict verdict_at_end(const struct judge *j, const struct dispute *d,
				   const struct shadow_frame *f, enum shadow_end how,
				   const struct user_regs_struct *to)
{
	if (how == SHADOW_FORGOTTEN)
		return VERDICT_FORGOTTEN;
	if (is_truth(&d->got, (struct truth){to->rip, to->rsp, to->rbp}))
		return d->if_right;
	if (how == SHADOW_RETURNED && to->rip == f->ra && to->rbp != f->fp && is_caller(&d->got, truth_of(f)))
		return d->if_wrong == VERDICT_WRONG ? VERDICT_FP_LOST : d->if_right;
	if (d->if_wrong == VERDICT_WRONG && pops_arguments(&d->got, to))
		return VERDICT_POPPED;
	if (d->if_wrong == VERDICT_WRONG && how == SHADOW_RETURNED && has_made_frame(j, &d->got, to))
		return VERDICT_SP_LOST;
	if (d->overwritten && to->rip != f->ra)
		return VERDICT_OVERWRITTEN;
	return d->if_wrong;
}

void judge_frame_end(const struct shadow_frame *f, enum shadow_end how, const struct user_regs_struct *to,
		     void *data)
{
	struct judge *j = data;

	for (size_t i = 0; i < j->n_disputes;) {
		const struct dispute *d = &j->disputes[i];

		if (d->id != f->id) {
			i++;
			continue;
		}
		settle(j, d, verdict_at_end(j, d, f, how, to));
		j->disputes[i] = j->disputes[--j->n_disputes];
	}
}

static void excuse(struct judge *j, struct spot *s)
{
	uint64_t n = s->n[VERDICT_WRONG], walks = s->walks_wrong;

	count(j, s, VERDICT_SWITCHES, n);
	count_frame(j, s->frame, VERDICT_WRONG, -n);
	s->n[VERDICT_WRONG] = 0;
	j->walk.wrong -= walks;
	j->walk.ended += walks;
	s->walks_wrong = 0;
}

void judge_finish(struct judge *j, const struct tables *t)
{
	struct map_node *n;

	for (; j->n_disputes; j->n_disputes--)
		settle(j, &j->disputes[j->n_disputes - 1], j->disputes[j->n_disputes - 1].if_wrong);
	map_for_each (&j->spots, n, it) {
		struct spot *s = container_of(n, struct spot, node);

		if ((s->n[VERDICT_WRONG] || s->walks_wrong) && s->got.ending == ENDING_ROOT &&
		    exclude_root(t, s->frame))
			excuse(j, s);
	}
}

/* Below the first frame there is nothing: right is to say so. */
static int judge_first(struct judge *j, const struct shadow *s, const struct user_regs_struct *regs,
		       const struct unwound *got)
{
	bool root = got->ending == ENDING_ROOT;
	enum verdict v = uncovered(got, root);
	struct spot *spot;

	if (!s->now.rooted || (v == VERDICTS && root)) {
		count_frame(j, got->frame, s->now.rooted ? VERDICT_RIGHT : VERDICT_UNKNOWN, 1);
		return 0;
	}
	spot = spot_at(j, got);
	if (!spot)
		return -ENOMEM;
	if (v == VERDICTS) {
		v = VERDICT_WRONG;
		if (!spot->n[v])
			spot_example(spot, got, (struct truth){0}, regs);
	}
	count(j, spot, v, 1);
	return 0;
}

/*
 * The frames behind one that was just unwound with a wrong frame pointer, or stack pointer: are they right up
 * to one that has the right ones again? VERDICT_UNKNOWN where the shadow stack ends before.
 */
static enum verdict recovers(const struct judge *j, const struct shadow *s, struct tables *t)
{
	struct unwound next;

	if (s->leaving.id)
		return VERDICT_WRONG;
	for (size_t n = s->now.n - 1; n > 0; n--) {
		struct truth truth = truth_of(&s->now.frames[n - 1]);

		if (s->now.frames[n].switched)
			return VERDICT_UNKNOWN; /* its callers are on another stack */
		tables_unwind_on(t, &next);
		if (is_caller_elsewhere(j, &next, truth))
			continue;
		if (!is_caller(&next, truth))
			return VERDICT_WRONG;
		if (next.fp == truth.fp)
			return VERDICT_FP_LOST;
	}
	return s->now.rooted ? VERDICT_FP_LOST : VERDICT_UNKNOWN;
}

int judge_step(struct judge *j, struct shadow *s, struct tables *t, const struct user_regs_struct *regs,
	       const struct unwound *got)
{
	struct shadow_frame *f = shadow_current(s);
	bool right = f && is_truth(got, truth_of(f));
	enum verdict v, v_wrong;
	struct spot *spot;

	if (!f)
		return judge_first(j, s, regs, got);
	if (f->unknown) {
		count_frame(j, got->frame, VERDICT_UNKNOWN, 1);
		return 0;
	}
	v = uncovered(got, true);
	if (v == VERDICTS && right) {
		f->fp_slot = tables_fp_slot(got);
		count_frame(j, got->frame, VERDICT_RIGHT, 1);
		return 0;
	}
	spot = spot_at(j, got);
	if (!spot)
		return -ENOMEM;
	if (v == VERDICTS && (is_caller(got, truth_of(f)) || is_caller_elsewhere(j, got, truth_of(f)))) {
		v_wrong = recovers(j, s, t);
		if (v_wrong == VERDICT_FP_LOST && !is_caller(got, truth_of(f)))
			v_wrong = VERDICT_SP_LOST;
		if (v_wrong != VERDICT_WRONG) {
			count(j, spot, v_wrong, 1);
			return 0;
		}
	}
	v_wrong = v == VERDICTS ? VERDICT_WRONG : uncovered(got, false);
	if (v == VERDICTS && !right && s->leaving.id && f->sp < regs->rsp &&
	    drops_arguments(j, got)) /* its caller is not that any more */
		v = v_wrong = VERDICT_UNKNOWN;
	if (right || v == v_wrong) {
		count(j, spot, v, 1);
		return 0;
	}
	f->disputed = true;
	return dispute_add(j, t,
			   (struct dispute){.id = f->id,
					    .spot = spot,
					    .got = *got,
					    .truth = truth_of(f),
					    .regs = *regs,
					    .n = 1,
					    .overwritten = is_overwritten(got, f),
					    .if_right = v == VERDICTS ? VERDICT_RIGHT_LATER : v,
					    .if_wrong = v_wrong});
}

void judge_agreed(struct judge *j, const struct tables *t, uint64_t ip)
{
	count_frame(j, tables_frame(t, ip), VERDICT_RIGHT, 1);
	j->n_by_rule++;
}

static int walk_wrong(struct judge *j, const struct unwound *got, struct truth truth,
		      const struct user_regs_struct *regs)
{
	struct spot *spot = spot_at(j, got);

	j->walk.wrong++;
	if (!spot)
		return -ENOMEM;
	if (!spot->walks_wrong++ && !spot->n[VERDICT_WRONG])
		spot_example(spot, got, truth, regs);
	return 0;
}

int judge_walk(struct judge *j, const struct shadow *s, struct tables *t, struct unwound got,
	       const struct user_regs_struct *regs)
{
	size_t n = s->now.n;

	if (s->leaving.id || (n && s->now.frames[n - 1].unknown))
		return 0;
	j->walk.walks++;
	for (; n > 0; n--) {
		const struct shadow_frame *f = &s->now.frames[n - 1];

		if (f->unknown) {
			j->walk.partial++;
			return 0;
		}
		/* a wrong frame pointer shows further down, if it matters */
		if (!is_caller(&got, truth_of(f))) {
			/* the innermost frame's step is judged by itself */
			if (uncovered(&got, false) == VERDICTS && n < s->now.n && !is_overwritten(&got, f))
				return walk_wrong(j, &got, truth_of(f), regs);
			j->walk.ended++;
			return 0;
		}
		j->walk.frames++;
		if (f->switched || (n == 1 && !s->now.rooted)) {
			j->walk.partial++;
			return 0;
		}
		tables_unwind_on(t, &got);
	}
	if (!s->now.rooted)
		return 0;
	if (got.ending != ENDING_ROOT)
		return walk_wrong(j, &got, (struct truth){0}, regs);
	j->walk.complete++;
	return 0;
}

uint64_t judge_total(const struct judge *j)
{
	uint64_t sum = 0;

	for (int i = 0; i < VERDICTS; i++)
		sum += j->n[i];
	return sum;
}

uint64_t judge_covered(const struct judge *j)
{
	uint64_t sum = 0;

	for (int i = 0; i < VERDICTS; i++)
		sum += verdict_covered[i] ? j->n[i] : 0;
	return sum;
}
