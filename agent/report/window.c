// SPDX-License-Identifier: Apache-2.0
#include "agent/report/window.h"

#include "agent/base/cleanup.h"
#include "agent/proc/image.h"

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
	int r;

	*w = (struct window){.samples = NULL};
	r = binary_set_init(&w->binaries, binaries);
	return r < 0 ? r : sample_aggregate_new(&w->samples, max_bytes, by_cpu, owner_hold, owner_release);
}

void window_fini(struct window *w)
{
	sample_aggregate_free(TAKE_PTR(w->samples));
	binary_set_fini(&w->binaries);
}

static void hold_binaries(struct window *w, const struct sample_view *v)
{
	struct stack_frames frames = STACK_USER_FRAMES(v);
	struct stack_frame f;

	while (stack_frames_next(&frames, &f))
		if (f.kind == STACK_FRAME_NATIVE)
			binary_set_add(&w->binaries, frame_file(f.word));
}

int window_add(struct window *w, const struct sampled_task *task, const struct sample_view *v)
{
	size_t before = sample_aggregate_stacks(w->samples);
	int r = sample_aggregate_add(w->samples, task->image, task->thread, v);

	if (sample_aggregate_stacks(w->samples) !=
	    before) /* the binaries of a known stack are held already */
		hold_binaries(w, v);
	return r;
}

void window_clear(struct window *w)
{
	sample_aggregate_clear(w->samples);
	binary_set_clear(&w->binaries);
}

size_t window_samples(const struct window *w)
{
	return sample_aggregate_samples(w->samples);
}

size_t window_bytes(const struct window *w)
{
	return sample_aggregate_bytes(w->samples);
}
