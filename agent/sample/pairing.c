// SPDX-License-Identifier: Apache-2.0
/*
 * Segments and loops are two sequences of kinds, leaf first, which are aligned: the longest sequence that is
 * in both of them, in order, is paired. Where everything is as it should be, one loop more than segments is
 * that of an eval which is over, but whose loop runs what follows the eval; other differences are those of a
 * call that has just begun or ended.
 */
#include "agent/sample/pairing.h"

#include <string.h>

#include "agent/sample/frames.h"

struct loop {
	uint32_t native;
	uint8_t kind; /* enum runtime_segment_kind */
};

struct work {
	struct pairing *p;
	const struct sample_view *v;
	pairing_role_fn role;
	void *data;
	struct loop loops[PAIRING_LOOPS_MAX];
	uint32_t n_loops;
	uint32_t n_jumps; /* segments that are places to jump to, the first ones */
	/* length[i][j]: of the longest sequence that is in the segments from i and in the loops from j on */
	uint8_t length[RUNTIME_SEGMENTS_MAX + 1][PAIRING_LOOPS_MAX + 1];
};

static enum pairing_role role_of(const struct work *w, uint32_t word)
{
	const struct sample_view *v = w->v;
	uint64_t frame = word < v->n_user ? v->frames[v->n_kernel + word] : 0;

	return frame_tag(frame) - 1u < FRAME_FILE_MAX ? w->role(frame, w->data) : PAIRING_OTHER;
}

/* Whether a place to jump to is in that native frame. */
static bool has_jump(const struct work *w, uint32_t native)
{
	for (uint32_t i = 0; i < w->n_jumps; i++)
		if (w->v->segments[i].native == native)
			return true;
	return false;
}

/* What a loop runs, by the frame of its caller: word `caller` of the stack. */
static enum runtime_segment_kind kind_of(const struct work *w, uint32_t caller, uint32_t native)
{
	enum pairing_role role = role_of(w, caller);

	if (role == PAIRING_RUN || role_of(w, caller + 1) == PAIRING_RUN)
		return RUNTIME_SEGMENT_MAIN;
	if (role == PAIRING_STRING)
		return RUNTIME_SEGMENT_STRING;
	if (has_jump(w, native))
		return role == PAIRING_CALL ? RUNTIME_SEGMENT_CATCH : RUNTIME_SEGMENT_EVAL;
	return role == PAIRING_CALL ? RUNTIME_SEGMENT_CALL : RUNTIME_SEGMENT_MANY;
}

static void find_loops(struct work *w)
{
	const struct sample_view *v = w->v;
	uint32_t native = 0;

	while (w->n_jumps < v->runtime->n_segments && v->segments[w->n_jumps].kind == RUNTIME_SEGMENT_JUMP)
		w->n_jumps++;
	for (uint32_t i = 0; i < v->n_user && w->n_loops < PAIRING_LOOPS_MAX; i++) {
		uint64_t word = v->frames[v->n_kernel + i];

		if (role_of(w, i) == PAIRING_LOOP)
			w->loops[w->n_loops++] =
				(struct loop){native, (uint8_t)kind_of(w, i + 1, native + 1)};
		native += frame_tag(word) == FRAME_TAG_OMITTED ? (uint32_t)frame_va(word) : 1;
	}
}

static uint32_t n_segments(const struct work *w)
{
	return w->v->runtime->n_segments - w->n_jumps;
}

static bool fits(const struct work *w, uint32_t segment, uint32_t loop)
{
	enum runtime_segment_kind kind = w->v->segments[w->n_jumps + segment].kind;

	return w->loops[loop].kind == (kind == RUNTIME_SEGMENT_LAST ? RUNTIME_SEGMENT_CALL : kind);
}

static void align(struct work *w)
{
	for (uint32_t i = n_segments(w); i--;)
		for (uint32_t j = w->n_loops; j--;) {
			uint8_t skip = w->length[i + 1][j] > w->length[i][j + 1] ? w->length[i + 1][j]
										 : w->length[i][j + 1];
			uint8_t take = fits(w, i, j) ? (uint8_t)(w->length[i + 1][j + 1] + 1) : 0;

			w->length[i][j] = take > skip ? take : skip;
		}
}

static void put(struct pairing *p, uint32_t native, bool stays)
{
	p->segments[p->n_segments++] =
		(struct runtime_segment){.native = native, .end = (uint16_t)p->n_words, .kind = stays};
}

static void take_words(struct work *w, uint32_t segment)
{
	const struct runtime_segment *s = &w->v->segments[w->n_jumps + segment];
	uint32_t begin = segment ? s[-1].end : 0;

	memcpy(w->p->words + w->p->n_words, w->v->runtime_words + begin,
	       (s->end - begin) * sizeof *w->p->words);
	w->p->n_words += s->end - begin;
}

/* The native frame of the function that reads the program, if that calls what runs; or RUNTIME_NOT_TIED. */
static uint32_t parser_frame(const struct work *w)
{
	uint32_t native = w->n_jumps ? w->v->segments[w->n_jumps - 1].native : RUNTIME_NOT_TIED;

	return !w->v->omitted && role_of(w, native) == PAIRING_PARSE ? native : RUNTIME_NOT_TIED;
}

/* A segment that no loop runs. `loop`: the next loop, none of the segment's. */
static void put_unpaired(struct work *w, uint32_t segment, uint32_t loop)
{
	enum runtime_segment_kind kind = w->v->segments[w->n_jumps + segment].kind;
	bool whole = w->v->ending == ENDING_ROOT && !w->v->omitted && w->v->runtime->whole;
	uint32_t parser;

	if (whole && (kind == RUNTIME_SEGMENT_MANY || (kind == RUNTIME_SEGMENT_CALL && !loop)))
		return;
	if (kind == RUNTIME_SEGMENT_MAIN && whole) {
		parser = parser_frame(w);
		if (parser == RUNTIME_NOT_TIED)
			return;
		take_words(w, segment);
		put(w->p, parser, true);
		return;
	}
	take_words(w, segment);
	if (kind != RUNTIME_SEGMENT_EVAL && kind != RUNTIME_SEGMENT_CATCH && kind != RUNTIME_SEGMENT_LAST)
		w->p->uncertain = true; /* goes with the next one */
}

/* A loop without a segment. One that an eval has called runs what follows the eval. */
static void put_idle(struct work *w, uint32_t loop)
{
	if (loop && w->loops[loop].kind != RUNTIME_SEGMENT_EVAL)
		w->p->uncertain = true;
	put(w->p, w->loops[loop].native, false);
}

/* Whether the segment and the loop are a pair. One that was cut goes to any loop that is left. */
static bool is_pair(const struct work *w, uint32_t i, uint32_t j)
{
	if (i >= n_segments(w) || j >= w->n_loops)
		return false;
	return w->v->segments[w->n_jumps + i].kind == RUNTIME_SEGMENT_OPEN ||
	       (fits(w, i, j) && w->length[i][j] == w->length[i + 1][j + 1] + 1);
}

/* Whether the loop is that of an eval which is over: what the caller's loop ran, it runs now. */
static bool has_taken_over(const struct work *w, uint32_t i, uint32_t j)
{
	return j < w->n_loops && w->loops[j].kind == RUNTIME_SEGMENT_EVAL && !is_pair(w, i, j) &&
	       is_pair(w, i, j + 1);
}

static void put_all(struct work *w)
{
	uint32_t i = 0, j = 0, n = n_segments(w);

	while (i < n || j < w->n_loops) {
		if (is_pair(w, i, j)) {
			take_words(w, i++);
			put(w->p, w->loops[j++].native, false);
		} else if (has_taken_over(w, i, j)) {
			take_words(w, i++);
			put(w->p, w->loops[j++].native, false);
			put(w->p, w->loops[j++].native, false);
		} else if (i < n && (j == w->n_loops || w->length[i + 1][j] == w->length[i][j])) {
			put_unpaired(w, i++, j);
		} else {
			put_idle(w, j++);
		}
	}
	if (w->p->n_words > (w->p->n_segments ? w->p->segments[w->p->n_segments - 1].end : 0))
		put(w->p, RUNTIME_NOT_TIED, false);
}

void sample_pair(struct pairing *ret, const struct sample_view *v, pairing_role_fn role, void *data)
{
	struct work w = {.p = ret, .v = v, .role = role, .data = data};

	ret->n_segments = ret->n_words = 0;
	ret->uncertain = false;
	find_loops(&w);
	align(&w);
	put_all(&w);
}
