// SPDX-License-Identifier: Apache-2.0
/*
 * Iterates over the frames of a stack, whose words bpf/abi.h describes. The iterator never reads past the
 * words: it skips frames of an unknown kind, and ends at a frame that claims more words than are left.
 */
#ifndef PROFLET_SAMPLE_FRAMES_H
#define PROFLET_SAMPLE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

enum stack_frame_kind {
	STACK_FRAME_KERNEL,    /* frame.word is the address */
	STACK_FRAME_NATIVE,    /* frame_file(frame.word), frame_va(frame.word) */
	STACK_FRAME_ANONYMOUS, /* frame_va(frame.word) is a process address */
	STACK_FRAME_RUNTIME,   /* frame_runtime_of(frame.word) is a known runtime */
	STACK_FRAME_OMITTED,   /* frame_va(frame.word) frames were omitted here */
};

struct stack_frame {
	enum stack_frame_kind kind;
	uint32_t index; /* of its first word in the stack */
	uint64_t word;
	const uint64_t *following; /* the words of a runtime frame after its first one; borrowed */
	uint32_t n_following;
};

/*
 * Of a native frame, what the word behind it says of its code (FRAME_CODE_*): the number that HotSpot gave to
 * the compilation, and more. `all`: words of the stack. 0: it says nothing.
 */
static inline uint64_t stack_frame_code(const struct stack_frame *f, const uint64_t *words, uint32_t all)
{
	return f->kind == STACK_FRAME_NATIVE && f->index + 1 < all &&
			       frame_tag(words[f->index + 1]) == FRAME_TAG_CODE
		       ? frame_va(words[f->index + 1])
		       : 0;
}

/* Initialised by STACK_FRAMES or STACK_USER_FRAMES. */
struct stack_frames {
	const uint64_t *words; /* borrowed */
	uint32_t at, n_kernel, n;
};

/*
 * Iterates over all frames of a struct with `frames`, `n_kernel` and `n_user` (sample_view, sample_stack),
 * leaf first.
 */
#define STACK_FRAMES(s) \
	((struct stack_frames){(s)->frames, 0, (s)->n_kernel, (uint32_t)(s)->n_kernel + (s)->n_user})
/* Iterates over the frames of the user's part only. */
#define STACK_USER_FRAMES(s)                                              \
	((struct stack_frames){(s)->frames, (s)->n_kernel, (s)->n_kernel, \
			       (uint32_t)(s)->n_kernel + (s)->n_user})

/* stack_frames_next for frames of every kind. */
bool stack_frames_next_any(struct stack_frames *frames, struct stack_frame *ret);

/*
 * Gives the next frame; false at the end. Nearly all frames are native, and every frame of every sample is
 * looked at more than once, so that case is inline.
 */
static inline bool stack_frames_next(struct stack_frames *frames, struct stack_frame *ret)
{
	uint32_t index = frames->at;

	if (index >= frames->n)
		return false;
	if (index < frames->n_kernel || frame_tag(frames->words[index]) - 1u >= FRAME_FILE_MAX)
		return stack_frames_next_any(frames, ret);
	frames->at = index + 1;
	ret->kind = STACK_FRAME_NATIVE;
	ret->index = index;
	ret->word = frames->words[index];
	ret->following = frames->words + index + 1;
	ret->n_following = 0;
	return true;
}

/*
 * Numbers for frames; equal frames have equal numbers. The number of a native, anonymous or kernel frame is
 * its word, and that of omitted frames frame_omitted(0), however many there are: stacks of one recursion
 * differ in nothing else. Numbers with the following tags belong to frames that no record contains.
 */
/* Plus the slot of a process; the low bits are an address that has a name in that process only. */
#define FRAME_TAG_PROCESS 0xf000u
#define FRAME_PROCESS_SLOTS 0x800u
#define FRAME_TAG_ENDING 0xf800u  /* why the unwind ended early: struct stack_ending */
#define FRAME_TAG_UNNAMED 0xf801u /* the low bits number a frame of a window that gets no name */
#define FRAME_TAG_LANGUAGE \
	0xf802u /* the low bits number a function and line of a language runtime in a window */

#endif
