// SPDX-License-Identifier: Apache-2.0
/*
 * Segments and native frames are both in order, leaf first, so both are gone through once. A segment that is
 * not tied to a native frame goes directly before the next one that is. Where no more are tied, native frames
 * that may be loops say where segments go; what is left goes to the end.
 *
 * A loop that has just returned from its last function, or has not called its first one yet, has no segment.
 * Where the whole stack and the whole list are known, and no segment has a marker, a surplus of loops is thus
 * at the leaf; and so is a surplus of Ruby's segments, as a function is prepared before its loop begins. (Not
 * where each frame is a segment: a stack of greenlets has loops without a list at its root. Nor with PHP,
 * where the list of a fiber goes on to whoever resumed it, whose loops are on another stack.)
 */
#include "agent/sample/splice.h"

#include <string.h>

#include "agent/sample/endings.h"
#include "agent/sample/frames.h"

/* The stack under construction. */
struct splicing {
	struct splice *s;
	const struct sample_view *v;
	const uint64_t *words; /* of the runtime's frames */
	uint32_t n;	       /* words written */
	uint32_t n_segments;   /* in s->segments */
	uint32_t segment;      /* the next one */
	uint32_t tied;	       /* the next one that is tied to a native frame; n_segments: there is none */
	uint32_t surplus;      /* loops at the leaf that have no segment */
	uint32_t lack;	       /* segments at the leaf that have no loop */
	uint64_t callee;       /* the native frame that was written last, if nothing is behind it; else 0 */
	bool paired;	       /* each loop has a segment, which may be empty */
	bool uncertain;
};

/* Where each frame is a segment, those that share one take their places one by one, without a marker. */
static void take_segments(struct splicing *p)
{
	const struct runtime_part *part = p->v->runtime;
	uint32_t begin = 0;

	for (uint32_t i = 0; i < part->n_segments; i++) {
		struct runtime_segment segment = p->v->segments[i];
		uint32_t end = segment.end;

		while (part->each && begin + 2 < end) {
			begin += 2;
			segment.end = (uint16_t)begin;
			p->s->segments[p->n_segments++] = segment;
			segment = (struct runtime_segment){.native = RUNTIME_NOT_TIED};
		}
		segment.end = (uint16_t)end;
		p->s->segments[p->n_segments++] = segment;
		begin = end;
	}
}

/* Segments that are paired with loops already. */
static void take_pairs(struct splicing *p)
{
	const struct pairing *pairing = &p->s->pairing;

	if (p->v->runtime->runtime == RUNTIME_LUA)
		sample_pair_states(&p->s->pairing, p->v);
	else
		sample_pair(&p->s->pairing, p->v, p->s->options.role, p->s->options.data);
	p->paired = true;
	p->uncertain = pairing->uncertain;
	p->words = pairing->words;
	p->n_segments = pairing->n_segments;
	memcpy(p->s->segments, pairing->segments, pairing->n_segments * sizeof *pairing->segments);
}

static uint32_t segment_begin(const struct splicing *p, uint32_t i)
{
	return i ? p->s->segments[i - 1].end : 0;
}

/* Writes segments up to and with number `last`. */
static void put_segments(struct splicing *p, uint32_t last)
{
	uint32_t from = segment_begin(p, p->segment), to = p->s->segments[last].end;

	memcpy(p->s->words + p->n, p->words + from, (to - from) * sizeof *p->s->words);
	p->n += to - from;
	p->segment = last + 1;
	p->callee = 0;
}

/* The first segment from number `i` on that is tied to a native frame; n_segments: there is none. */
static uint32_t next_tied(const struct splicing *p, uint32_t i)
{
	while (i < p->n_segments && p->s->segments[i].native == RUNTIME_NOT_TIED)
		i++;
	return i;
}

/* The number of the segments up to the last one that is tied to a native frame before `to`. */
static uint32_t tied_before(struct splicing *p, uint64_t to)
{
	uint32_t n = p->segment;

	while (p->tied < p->n_segments && p->s->segments[p->tied].native < to) {
		n = p->tied + 1;
		p->tied = next_tied(p, n);
	}
	return n;
}

static bool is_loop(const struct splicing *p, uint64_t word)
{
	const struct splice_options *o = &p->s->options;

	return o->is_loop && frame_tag(word) - 1u < FRAME_FILE_MAX && o->is_loop(word, o->data);
}

static bool is_hidden(const struct splicing *p, uint64_t word)
{
	const struct splice_options *o = &p->s->options;

	return o->is_inner_loop && !o->loop_frames && frame_tag(word) - 1u < FRAME_FILE_MAX &&
	       o->is_inner_loop(word, o->data);
}

/* Takes back the callee of a loop that is not shown, if it is a part of the loop. */
static void hide_callee(struct splicing *p, uint64_t loop)
{
	const struct splice_options *o = &p->s->options;

	if (!o->loop_frames && p->callee && frame_file(p->callee) == frame_file(loop) &&
	    o->calls_inner_loop && o->calls_inner_loop(loop, o->data))
		p->n--;
}

/*
 * A native frame that may be a loop, and nothing is tied from here on. Without a marker, it runs the next
 * segment. With one, the marker was not found, and the loop may be any.
 */
static bool put_by_loop(struct splicing *p)
{
	bool has_marker = p->s->segments[p->segment].marker != 0;

	p->uncertain |= has_marker;
	put_segments(p, has_marker ? p->n_segments - 1u : p->segment);
	return !has_marker;
}

/* Writes the word that stands for the native frames [from, to), after the segments that belong there. */
static void put_native(struct splicing *p, uint64_t word, uint64_t from, uint64_t to)
{
	uint32_t before = p->segment, end = tied_before(p, to);
	bool found = end > before;

	if (found) {
		for (uint32_t i = before; i < end; i++)
			p->uncertain |= p->s->segments[i].native == RUNTIME_NOT_TIED;
		if (to - from == 1)
			hide_callee(p, word);
		put_segments(p, end - 1);
	} else if (!p->paired && p->tied == p->n_segments && before < p->n_segments && is_loop(p, word)) {
		if (p->surplus)
			p->surplus--;
		else
			found = put_by_loop(p);
	}
	if ((found && to - from == 1 && !p->s->options.loop_frames &&
	     !(p->paired && p->s->segments[end - 1].kind)) ||
	    is_hidden(p, word))
		return;
	p->s->words[p->n++] = word;
	p->callee = frame_tag(word) - 1u < FRAME_FILE_MAX ? word : 0;
}

static void find_surplus(struct splicing *p)
{
	const struct sample_view *v = p->v;
	uint32_t n = 0;

	if (p->paired || v->runtime->each || !v->runtime->whole || v->ending != ENDING_ROOT)
		return;
	for (uint32_t i = 0; i < p->n_segments; i++)
		if (p->s->segments[i].marker)
			return;
	for (uint32_t i = 0; i < v->n_user; i++) {
		uint64_t word = v->frames[v->n_kernel + i];

		if (frame_tag(word) == FRAME_TAG_OMITTED)
			return;
		n += is_loop(p, word);
	}
	p->surplus = n > p->n_segments ? n - p->n_segments : 0;
	if (v->runtime->runtime == RUNTIME_RUBY && n && n < p->n_segments)
		p->lack = p->n_segments - n;
}

static void put_all(struct splicing *p)
{
	const struct sample_view *v = p->v;
	uint64_t native = 0;

	memcpy(p->s->words, v->frames, v->n_kernel * sizeof *v->frames);
	p->n = v->n_kernel;
	p->tied = next_tied(p, 0);
	find_surplus(p);
	if (p->lack) {
		p->uncertain = p->lack > 1;
		put_segments(p, p->lack - 1);
	}
	for (uint32_t i = 0; i < v->n_user; i++) {
		uint64_t word = v->frames[v->n_kernel + i],
			 frames = frame_tag(word) == FRAME_TAG_OMITTED ? frame_va(word) : 1;

		put_native(p, word, native, native + frames);
		native += frames;
	}
	if (p->segment < p->n_segments) {
		p->uncertain = true;
		put_segments(p, p->n_segments - 1u);
	}
}

/* A whole native stack with a loop in it is not the whole stack of the language. */
static void find_missing(struct splice *s, const struct sample_view *v, struct sample_view *ret)
{
	uint32_t detail = 0;

	if (!s->options.missing || !unwind_ending_complete(v->ending))
		return;
	for (uint32_t i = 0; i < v->n_user && !detail; i++) {
		uint64_t word = v->frames[v->n_kernel + i];

		if (frame_tag(word) - 1u < FRAME_FILE_MAX)
			detail = s->options.missing(v, word, s->options.data);
	}
	if (!detail)
		return;
	s->stats.missing[ending_detail_reason(detail)]++;
	ret->ending = ENDING_RUNTIME;
	ret->ending_detail = detail;
}

void sample_splice(struct splice *s, const struct sample_view *v, struct sample_view *ret)
{
	struct splicing p = {.s = s, .v = v, .words = v->runtime_words};

	*ret = *v;
	if (!v->runtime || !v->runtime->n_segments) {
		find_missing(s, v, ret);
		return;
	}
	if (v->runtime->runtime == RUNTIME_LUA || (v->runtime->runtime == RUNTIME_PERL && s->options.role))
		take_pairs(&p);
	else
		take_segments(&p);
	put_all(&p);
	s->stats.samples++;
	s->stats.uncertain += p.uncertain;
	s->stats.cut[v->runtime->reason] += !v->runtime->whole;
	ret->frames = s->words;
	ret->n_user = (uint16_t)(p.n - v->n_kernel);
	if (v->omitted)
		ret->omitted = sample_find_omitted(ret);
	if (!v->runtime->whole && unwind_ending_complete(v->ending)) {
		ret->ending = ENDING_RUNTIME;
		ret->ending_detail = ending_detail(v->runtime->runtime, v->runtime->reason);
	}
}
