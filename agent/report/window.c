// SPDX-License-Identifier: Apache-2.0
#include "agent/report/window.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/binary/registry.h"
#include "agent/proc/image.h"
#include "agent/proc/sampled_task.h"

/* until the registry has them */
static bool binary_registry_hold(struct binary_registry *r, uint32_t index)
{
	return binary_registry_get(r, index) != NULL;
}
static void binary_registry_release(struct binary_registry *r, uint32_t index)
{
	(void)r;
	(void)index;
}

_Static_assert(SAMPLE_THREAD_NAME_LEN == PROC_TASK_COMM_LEN, "thread names");

static void owner_hold(void *owner)
{
	proc_image_ref(owner);
}

static void owner_release(void *owner)
{
	proc_image_unref(owner);
}

int window_init(struct window *w, struct binary_registry *binaries, size_t max_bytes, bool by_cpu)
{
	*w = (struct window){.binaries = binaries};
	return sample_aggregate_new(&w->samples, max_bytes, by_cpu, owner_hold, owner_release);
}

void window_fini(struct window *w)
{
	if (w->samples)
		window_clear(w);
	sample_aggregate_free(TAKE_PTR(w->samples));
	free(TAKE_PTR(w->held));
	w->cap_held = 0;
	memo_fini(&w->is_held);
}

/* Without memory for it a binary is not held: its names may be lost, its samples are not. */
static void hold_binaries(struct window *w, const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame f;
	uint32_t last = 0;
	int32_t known;

	while (stack_frames_next(&frames, &f)) {
		uint32_t index = frame_file(f.word);

		if (f.kind != STACK_FRAME_NATIVE || index == last)
			continue;
		last = index;
		if (memo_get(&w->is_held, index, &known) ||
		    array_reserve(&w->held, &w->cap_held, w->n_held + 1, sizeof *w->held) < 0 ||
		    !binary_registry_hold(w->binaries, index))
			continue;
		w->held[w->n_held++] = index;
		memo_put(&w->is_held, index, 1);
	}
}

int window_add(struct window *w, const struct sampled_task *task, const struct sample_view *v)
{
	size_t before = sample_aggregate_stacks(w->samples);
	int r = sample_aggregate_add(w->samples, task->image, task->thread, v);

	if (sample_aggregate_stacks(w->samples) != before) /* else the stack's are held already */
		hold_binaries(w, v);
	return r;
}

void window_clear(struct window *w)
{
	sample_aggregate_clear(w->samples);
	while (w->n_held)
		binary_registry_release(w->binaries, w->held[--w->n_held]);
	memo_clear(&w->is_held);
}

size_t window_samples(const struct window *w)
{
	return sample_aggregate_samples(w->samples);
}

size_t window_bytes(const struct window *w)
{
	return sample_aggregate_bytes(w->samples);
}
