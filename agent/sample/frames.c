// SPDX-License-Identifier: Apache-2.0
#include "agent/sample/frames.h"

static bool is_known_runtime(uint64_t word)
{
	uint32_t runtime = frame_runtime_of(word);

	return runtime != RUNTIME_NONE && runtime < RUNTIMES;
}

/*
 * Decodes a frame. False: its kind is unknown. In the kernel's part every word is an address of the kernel.
 */
static bool kind_of(uint64_t word, bool kernel_part, enum stack_frame_kind *ret)
{
	if (kernel_part || frame_tag(word) == FRAME_TAG_KERNEL)
		*ret = STACK_FRAME_KERNEL;
	else if (frame_tag(word) == FILE_ANONYMOUS)
		*ret = STACK_FRAME_ANONYMOUS;
	else if (frame_tag(word) <= FRAME_FILE_MAX)
		*ret = STACK_FRAME_NATIVE;
	else if (frame_is_runtime(word) && is_known_runtime(word))
		*ret = STACK_FRAME_RUNTIME;
	else if (frame_tag(word) == FRAME_TAG_OMITTED)
		*ret = STACK_FRAME_OMITTED;
	else
		return false;
	return true;
}

bool stack_frames_next_any(struct stack_frames *f, struct stack_frame *ret)
{
	while (f->at < f->n) {
		uint32_t index = f->at;
		uint64_t word = f->words[index];
		bool kernel_part = index < f->n_kernel;
		uint32_t following = kernel_part ? 0 : frame_following(word);

		if (following > f->n - index - 1)
			break;
		f->at = index + 1 + following;
		ret->index = index;
		ret->word = word;
		ret->following = f->words + index + 1;
		ret->n_following = following;
		if (kind_of(word, kernel_part, &ret->kind))
			return true;
	}
	f->at = f->n;
	return false;
}
