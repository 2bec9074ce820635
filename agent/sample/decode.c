// SPDX-License-Identifier: Apache-2.0
#include "agent/sample/decode.h"

#include <errno.h>
#include <string.h>

/* The bytes of the record that are not decoded yet: those from `at` on. */
struct reader {
	const uint8_t *at;
	size_t left;
};

/* Consumes the next `bytes` of the record; NULL: it has fewer. */
static const void *take(struct reader *r, size_t bytes)
{
	const uint8_t *at = r->at;

	if (bytes > r->left)
		return NULL;
	r->at += bytes;
	r->left -= bytes;
	return at;
}

/* Whether the segments divide the words in their order, and the words are frames of the runtime. */
static bool runtime_valid(const struct runtime_part *p, const struct runtime_segment *segments,
			  const uint64_t *words)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < p->n_segments; i++) {
		if (segments[i].end < end || segments[i].end > p->n_words || segments[i].end % 2 ||
		    segments[i].kind >= RUNTIME_SEGMENT_KINDS)
			return false;
		if (segments[i].end == end && !segments[i].kind)
			return false;
		end = segments[i].end;
	}
	for (uint32_t i = 0; i < p->n_words; i += 2)
		if (!frame_is_runtime(words[i]) || frame_runtime_of(words[i]) != p->runtime ||
		    frame_following(words[i]) != 1)
			return false;
	return end == p->n_words;
}

static bool take_runtime(struct reader *r, struct sample_view *v)
{
	const struct runtime_part *p = take(r, sizeof *p);

	if (!p || p->n_segments > (p->runtime == RUNTIME_V8 ? V8_SEGMENTS_MAX : RUNTIME_SEGMENTS_MAX) ||
	    p->n_words > 2 * RUNTIME_FRAMES_MAX || p->n_words % 2 || p->reason >= RUNTIME_REASONS_N ||
	    p->runtime >= RUNTIMES)
		return false;
	v->runtime = p;
	v->segments = take(r, p->n_segments * sizeof *v->segments);
	v->runtime_words = take(r, p->n_words * sizeof *v->runtime_words);
	return v->segments && v->runtime_words && runtime_valid(p, v->segments, v->runtime_words);
}

/* Decodes the parts that follow the frames. */
static bool take_parts(struct reader *r, uint8_t flags, struct sample_view *v)
{
	if (flags & SAMPLE_CONTEXT) {
		v->context = take(r, sizeof *v->context);
		if (!v->context)
			return false;
	}
	if (flags & SAMPLE_RUNTIME && !take_runtime(r, v))
		return false;
	if (flags & SAMPLE_TASK) {
		v->task = take(r, sizeof *v->task);
		if (!v->task || !v->runtime || v->task->bytes > SAMPLE_TASK_BYTES)
			return false;
	}
	if (flags & SAMPLE_SAVED_STACK) {
		v->saved = take(r, sizeof *v->saved);
		if (!v->saved || v->saved->stack_bytes > SAVED_STACK_MAX)
			return false;
		v->stack = take(r, v->saved->stack_bytes);
		if (!v->stack)
			return false;
	}
	return r->left == 0;
}

uint16_t sample_find_omitted(const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame f;

	while (stack_frames_next(&frames, &f))
		if (f.kind == STACK_FRAME_OMITTED)
			return (uint16_t)f.index;
	return 0;
}

int sample_decode(const void *bytes, size_t len, struct sample_view *ret)
{
	struct reader reader = {bytes, len};
	const struct sample_record *r = take(&reader, sizeof *r);
	struct sample_view v;

	if (!r || r->ending >= ENDINGS || r->n_kernel > KERNEL_FRAMES_MAX || r->n_user > USER_FRAMES_MAX)
		return -EBADMSG;
	v = (struct sample_view){
		.time_ns = r->time_ns,
		.value = r->value,
		.pid = r->pid,
		.tid = r->tid,
		.generation = r->generation,
		.unloaded = r->unloaded,
		.origin = r->origin,
		.cpu = r->cpu,
		.ending = (enum unwind_ending)r->ending,
		.kernel_mode = r->flags & SAMPLE_KERNEL_MODE,
		.from_start = r->flags & SAMPLE_FROM_START,
		.caller_omitted = r->flags & SAMPLE_CALLER_OMITTED,
		.n_kernel = r->n_kernel,
		.n_user = r->n_user,
	};
	if (v.ending == ENDING_RUNTIME)
		v.ending_detail = ending_detail(r->runtime, r->runtime_reason);
	v.frames = take(&reader, ((size_t)r->n_kernel + r->n_user) * sizeof *v.frames);
	if (!v.frames || !take_parts(&reader, r->flags, &v))
		return -EBADMSG;
	if (r->flags & SAMPLE_OMITTED)
		v.omitted = sample_find_omitted(&v);
	*ret = v;
	return 0;
}
