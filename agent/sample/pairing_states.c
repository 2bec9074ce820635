// SPDX-License-Identifier: Apache-2.0
/*
 * Segments of one coroutine's list follow each other in the record, and are of two kinds: frames, and loops
 * on the native stack; the n-th loop is tied to the n-th segment. That is who runs whom but for three cases.
 * At the leaf, a function may have no loop yet, or a loop no function any more: they differ in number by one.
 * The outermost loop of a coroutine that was suspended runs all that its list has left. And where a
 * coroutine's loops are not next to each other on the native stack, as native code has called into it from
 * another coroutine, the list is there once for each run of loops, each time from its beginning.
 */
#include <string.h>

#include "agent/sample/pairing.h"

struct pairing_work {
	struct pairing *p;
	const struct sample_view *v;
};

/* The segments [begin, end) of one coroutine. */
struct group {
	uint32_t begin, end;
	uint64_t state;
	uint32_t n_loops,
		n_runs; /* of loops; of segments with frames, without those of loops further inside */
	uint32_t run;	/* the first of these */
	bool is_last;	/* the coroutine has no loops further outside */
	bool resumed;	/* its outermost loop may run all that is left */
};

static uint32_t words_before(const struct sample_view *v, uint32_t segment)
{
	return segment ? v->segments[segment - 1].end : 0;
}

static bool has_frames(const struct sample_view *v, uint32_t segment)
{
	return v->segments[segment].end > words_before(v, segment);
}

static uint32_t group_end(const struct sample_view *v, uint32_t begin)
{
	uint32_t end = begin + 1;

	while (end < v->runtime->n_segments && v->segments[end].marker == v->segments[begin].marker)
		end++;
	return end;
}

static struct group group_at(const struct sample_view *v, uint32_t begin)
{
	struct group g = {.begin = begin, .end = group_end(v, begin), .state = v->segments[begin].marker};
	uint32_t skip = 0;

	g.is_last = true;
	for (uint32_t i = 0; i < v->runtime->n_segments; i++) {
		const struct runtime_segment *s = &v->segments[i];

		if (s->marker != g.state || !g.state)
			continue;
		skip += i < g.begin && s->native != RUNTIME_NOT_TIED;
		g.is_last = g.is_last && i < g.end;
	}
	g.run = g.begin;
	for (uint32_t i = g.begin; i < g.end; i++) {
		if (v->segments[i].native != RUNTIME_NOT_TIED) {
			g.n_loops++;
			g.resumed = v->segments[i].kind == RUNTIME_SEGMENT_RESUMED;
		}
		if (!has_frames(v, i))
			continue;
		if (skip) {
			skip--;
			g.run = i + 1;
		} else {
			g.n_runs++;
		}
	}
	return g;
}

static void put(struct pairing *p, uint32_t native)
{
	p->segments[p->n_segments++] =
		(struct runtime_segment){.native = native, .end = (uint16_t)p->n_words};
}

static void take(struct pairing_work *w, uint32_t segment)
{
	const uint32_t begin = words_before(w->v, segment), end = w->v->segments[segment].end;

	memcpy(w->p->words + w->p->n_words, w->v->runtime_words + begin, (end - begin) * sizeof *w->p->words);
	w->p->n_words += end - begin;
}

/* How many of the innermost segments have no loop, as none has begun to run them. */
static uint32_t not_begun(struct pairing_work *w, const struct group *g, bool whole)
{
	if (g->n_runs <= g->n_loops || !g->is_last || g->resumed || !whole)
		return 0;
	if (g->begin == 0 && g->n_runs == g->n_loops + 1)
		return 1;
	w->p->uncertain = true;
	return 0;
}

/* How many of the innermost loops have no segment, as they have run their functions. */
static uint32_t idle(struct pairing_work *w, const struct group *g)
{
	if (g->n_runs >= g->n_loops || !g->state)
		return 0;
	if (g->begin == 0 && g->n_runs + 1 == g->n_loops)
		return 1;
	w->p->uncertain = true;
	return 0;
}

static void put_group(struct pairing_work *w, const struct group *g)
{
	const struct sample_view *v = w->v;
	bool whole = unwind_ending_complete(v->ending) && v->runtime->whole;
	uint32_t run = g->run + not_begun(w, g, whole), n_idle = idle(w, g), loop = 0;

	for (uint32_t i = g->begin; i < g->end; i++) {
		if (v->segments[i].native == RUNTIME_NOT_TIED)
			continue;
		if (loop++ >= n_idle && run < g->end)
			take(w, run++);
		while (loop == g->n_loops && g->is_last && whole && run < g->end)
			take(w, run++);
		put(w->p, v->segments[i].native);
	}
	if (!g->is_last || run >= g->end)
		return;
	while (run < g->end)
		take(w, run++);
	put(w->p, RUNTIME_NOT_TIED);
}

void sample_pair_states(struct pairing *ret, const struct sample_view *v)
{
	struct pairing_work w = {.p = ret, .v = v};

	ret->n_segments = ret->n_words = 0;
	ret->uncertain = false;
	for (uint32_t i = 0; i < v->runtime->n_segments;) {
		const struct group g = group_at(v, i);

		put_group(&w, &g);
		i = g.end;
	}
}
