// SPDX-License-Identifier: Apache-2.0
/* Decodes a record of the BPF program (struct sample of bpf/abi.h) and checks it. Pure. */
#ifndef PROFLET_SAMPLE_DECODE_H
#define PROFLET_SAMPLE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/sample/endings.h"
#include "agent/sample/frames.h"
#include "bpf/abi.h"

/* A view of a record: its pointers are valid as long as the record's bytes are. */
struct sample_view {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t value;	  /* in the unit of the origin */
	uint32_t pid, tid, generation;
	uint32_t unloaded; /* as in struct sample_record */
	uint16_t origin;   /* enum sample_origin */
	uint16_t cpu;
	enum unwind_ending ending;
	uint32_t ending_detail; /* agent/sample/endings.h */
	bool kernel_mode;
	bool caller_omitted; /* SAMPLE_CALLER_OMITTED */
	bool from_start; /* the saved stack begins at the sample's registers, not where the unwind stopped */
	uint16_t n_kernel, n_user;	      /* words */
	uint16_t omitted;		      /* index of the word with FRAME_TAG_OMITTED; 0: there is none */
	const uint64_t *frames;		      /* n_kernel, then n_user; each part leaf first */
	const struct sample_context *context; /* NULL: the sample has none */
	/* Frames of the process's language runtime, which are not in `frames` yet; NULL: there are none. */
	const struct runtime_part *runtime;
	const struct runtime_segment *segments; /* runtime->n_segments, innermost first */
	const uint64_t *runtime_words;		/* runtime->n_words */
	const struct sample_task *task;		/* that its event loop ran; NULL: none */
	const char *task_name;			/* set by the agent, of `task`: UTF-8; NULL: none */
	/* The stack and registers from which the agent completes the unwind; NULL: the unwind is final. */
	const struct saved_stack *saved;
	const uint8_t *stack; /* its bytes, saved->stack_bytes */
};

/*
 * Checks the record and fills in *ret. 0; -EBADMSG: the bytes are not a valid record. `bytes` is
 * 8-byte aligned.
 */
int sample_decode(const void *bytes, size_t len, struct sample_view *ret);
/* The value of `omitted` for the view's frames. */
uint16_t sample_find_omitted(const struct sample_view *v);

#endif
