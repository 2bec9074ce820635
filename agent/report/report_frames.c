// SPDX-License-Identifier: Apache-2.0
#include "agent/proc/image.h"
#include "agent/report/report_private.h"

/* The root frame that says why a stack is cut: X-macro of bpf/abi.h, one constant string each. */
static const char *const ending_names[ENDINGS] = {
#define X(name, text, complete) [ENDING_##name] = "[truncated: " text "]",
	UNWIND_ENDINGS(X)
#undef X
};

/*
 * Numbers of frames in a window. A user frame is its own number, with 0 for the file of those that have none:
 * the kernel's addresses begin with all ones, and in the first page of its half lies no code.
 */
#define ENDING_FIRST 0xffff000000000000ull

size_t report_frame_ids(struct names *names, const struct sample_entry *e, uint64_t *ret, bool *ret_own)
{
	const struct sample_stack *stack = e->stack;
	const struct proc_image *image = e->owner;
	size_t k = 0, n = (size_t)stack->n_kernel + stack->n_user;

	*ret_own = false;
	for (; k < n; k++) {
		ret[k] = stack->frames[k];
		if (k < stack->n_kernel)
			continue;
		ret[k] = names_frame_id(names, image->process, ret[k]);
		*ret_own |= ret[k] != stack->frames[k];
		if (sample_frame_file(ret[k]) == FILE_ANONYMOUS)
			ret[k] = sample_frame_va(ret[k]);
	}
	if (!unwind_ending_complete(stack->ending))
		ret[k++] = ENDING_FIRST | (uint64_t)stack->ending;
	return k;
}

void report_frame(void *names, uint64_t id, struct frame *ret)
{
	if (id >= ENDING_FIRST && id < ENDING_FIRST + ENDINGS)
		*ret = (struct frame){.kind = FRAME_ENDING, .function = ending_names[id - ENDING_FIRST]};
	else if (id >= ENDING_FIRST)
		names_kernel_frame(names, id, ret);
	else
		names_user_frame(names,
				 sample_frame_file(id) ? id : id | (uint64_t)FILE_ANONYMOUS << FRAME_VA_BITS,
				 ret);
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
