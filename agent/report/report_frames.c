// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/image.h"
#include "agent/report/report_private.h"

/* Numbers of frames in a window: agent/sample/frames.h. Frames of runtimes have no names yet and are left
 * out. */
size_t report_frame_ids(struct names *names, const struct sample_entry *e, uint64_t *ret, bool *ret_own)
{
	const struct sample_stack *stack = e->stack;
	const struct proc_image *image = e->owner;
	struct stack_frames frames = STACK_FRAMES(stack);
	struct stack_frame f;
	size_t n = 0;

	*ret_own = false;
	while (stack_frames_next(&frames, &f)) {
		if (f.kind == STACK_FRAME_KERNEL) {
			ret[n++] = frame_native(FRAME_TAG_KERNEL, f.word);
		} else if (f.kind != STACK_FRAME_RUNTIME) {
			ret[n] = names_frame_id(names, image->process, &f);
			*ret_own |= ret[n++] != f.word;
		}
	}
	if (!unwind_ending_complete(stack->ending))
		ret[n++] = ending_frame(stack->ending, stack->ending_detail);
	return n;
}

void report_frame(void *names, uint64_t id, struct frame *ret)
{
	const char *ending = ending_frame_text(id);

	if (ending)
		*ret = (struct frame){.kind = FRAME_ENDING, .function = ending};
	else if (frame_tag(id) == FRAME_TAG_KERNEL)
		names_kernel_frame(names, id, ret);
	else
		names_user_frame(names, id, ret);
}

/* Inlined calls become frames of their own, at the same address, as long as `room` frames suffice. Returns
 * how many. */
static size_t expand(const struct frame *frame, size_t room, struct frame *ret)
{
	if (frame->n_lines < 2 || frame->n_lines > room) {
		*ret = *frame;
		if (frame->n_lines > room) {
			ret->lines += frame->n_lines - 1;
			ret->n_lines = 1;
		}
		return 1;
	}
	for (size_t i = 0; i < frame->n_lines; i++) {
		ret[i] = *frame;
		ret[i].function = frame->lines[i].function;
		if (i + 1 < frame->n_lines)
			ret[i].system_name = NULL;
		ret[i].lines = &frame->lines[i];
		ret[i].n_lines = 1;
	}
	return frame->n_lines;
}

size_t report_frames(struct names *n, const struct sample_entry *e, struct frame *ret)
{
	uint64_t ids[REPORT_FRAMES_MAX];
	size_t k, filled = 0;
	struct frame frame;
	bool own;

	k = report_frame_ids(n, e, ids, &own);
	for (size_t i = 0; i < k; i++) {
		report_frame(n, ids[i], &frame);
		filled += expand(&frame, REPORT_FRAMES_MAX - filled - (k - i - 1), ret + filled);
	}
	return filled;
}
