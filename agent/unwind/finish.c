// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/finish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/unwind/arena.h"
#include "bpf/unwind.h"

struct finisher {
	struct arena *arena;
	uint32_t user_frames;
	const struct sample_view *view; /* during a walk */
	struct unwind_area area;
};

int finisher_new(struct finisher **ret, struct arena *arena, uint32_t user_frames)
{
	struct finisher *f = calloc(1, sizeof *f);

	if (!f)
		return -ENOMEM;
	f->arena = arena;
	f->user_frames = user_frames < USER_FRAMES_MAX ? user_frames : USER_FRAMES_MAX;
	*ret = f;
	return 0;
}

void finisher_free(struct finisher *f)
{
	free(f);
}

static struct segment *segment(void *data, __u32 index)
{
	struct finisher *f = data;

	return arena_segment(f->arena, index);
}

/* The only memory of the process that is left: what the record brought. */
static int read_user(void *data, void *to, __u32 bytes, __u64 address)
{
	struct finisher *f = data;
	const struct sample_rest *rest = f->view->rest;
	__u64 offset = address - rest->sp;

	if (offset > rest->stack_bytes || bytes > rest->stack_bytes - offset)
		return -EFAULT;
	memcpy(to, f->view->stack + offset, bytes);
	return 0;
}

static void state_restore(struct finisher *f, const struct sample_view *v, uint32_t list)
{
	struct unwind_state *t = &f->area.state;
	uint32_t n = (uint32_t)v->n_kernel + v->n_user;

	memcpy(f->area.frames, v->frames, n * sizeof *v->frames);
	memset(t, 0, sizeof *t);
	t->ip = v->rest->ip;
	t->sp = v->rest->sp;
	t->fp = v->rest->fp;
	t->list = list;
	/* the frame that had no table is in the record already, and comes again */
	t->n = n - (v->ending == ENDING_NO_TABLE && v->n_user);
	t->limit = v->n_kernel + f->user_frames;
	t->innermost = v->rest->innermost;
	t->have_regs = 1;
	memcpy(t->regs, v->rest->regs, sizeof t->regs);
}

/* The rounds of profiler.bpf.c, without its bounds: each round adds a frame or ends. */
static int walk(void)
{
	int next = NEXT_MAPPING;

	while (next >= ENDINGS) {
		if (next == NEXT_MAPPING)
			next = unwind_mapping();
		if (next == NEXT_FRAMES || next == NEXT_REGISTERS)
			next = unwind_frames();
	}
	return next;
}

bool finisher_walk(struct finisher *f, const struct sample_view *v, uint32_t list, struct sample_view *ret)
{
	const struct env env = {&f->area, segment, read_user, f};

	f->view = v;
	state_restore(f, v, list);
	env_current = &env;
	*ret = *v;
	ret->ending = (enum unwind_ending)walk();
	env_current = NULL;
	f->view = NULL;
	ret->n_user = (uint16_t)(f->area.state.n - v->n_kernel);
	ret->frames = (const uint64_t *)f->area.frames;
	ret->rest = NULL;
	ret->stack = NULL;
	return !(ret->ending == ENDING_NO_TABLE && f->area.state.pending) &&
	       !(ret->ending == ENDING_NO_MAPPING && !f->area.state.fallback);
}
