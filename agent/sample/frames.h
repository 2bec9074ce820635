// SPDX-License-Identifier: Apache-2.0
/*
 * Iterates over the frames of a stack; bpf/abi.h says what its words are. The iterator stays inside the
 * words, whatever they claim: it skips what it does not know, and ends at a frame that claims more words than
 * are left.
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
	STACK_FRAME_RUNTIME,   /* frame_runtime_of(frame.word), a known one */
};

struct stack_frame {
	enum stack_frame_kind kind;
	uint32_t index; /* of its first word in the stack */
	uint64_t word;
	const uint64_t *following; /* words of a runtime frame behind its head; borrowed */
	uint32_t n_following;
};

/* Initialise with STACK_FRAMES or STACK_USER_FRAMES. */
struct stack_frames {
	const uint64_t *words; /* borrowed */
	uint32_t at, n_kernel, n;
};

/* All frames of anything with frames, n_kernel and n_user, leaf first: a sample_view or a sample_stack. */
#define STACK_FRAMES(s) \
	((struct stack_frames){(s)->frames, 0, (s)->n_kernel, (uint32_t)(s)->n_kernel + (s)->n_user})
/* Those of the user's part alone. */
#define STACK_USER_FRAMES(s)                                              \
	((struct stack_frames){(s)->frames, (s)->n_kernel, (s)->n_kernel, \
			       (uint32_t)(s)->n_kernel + (s)->n_user})

/* The next frame; false at the end. */
bool stack_frames_next(struct stack_frames *frames, struct stack_frame *ret);

/*
 * Numbers for frames, equal ones for equal frames: the word itself for native and anonymous frames and for
 * those of the kernel. Numbers with these tags mean what no record has.
 */
#define FRAME_TAG_PROCESS \
	0xf000u /* + slot of a process; the low bits are an address that has names there alone */
#define FRAME_PROCESS_SLOTS 0x800u
#define FRAME_TAG_ENDING 0xf800u /* why the unwind ended early: struct stack_ending */

#endif
