// SPDX-License-Identifier: Apache-2.0
/* A record of the BPF program as a checked view. Pure. Rank 1. */
#ifndef PROFLET_SAMPLE_DECODE_H
#define PROFLET_SAMPLE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

/* Valid as long as the bytes it was made from. */
struct sample_view {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t pid, tid, generation;
	uint16_t cpu;
	enum unwind_ending ending;
	bool kernel_mode;
	bool from_start; /* `saved` is of the sample itself, not of where the unwind stopped */
	uint16_t n_kernel, n_user;
	const uint64_t *frames;		 /* n_kernel, then n_user; each leaf first */
	const struct saved_stack *saved; /* what it takes to go on, NULL: the unwind is what it is */
	const uint8_t *stack;		 /* saved->stack_bytes */
};

/* 0, or -EBADMSG for bytes that are no record. `bytes` is 8-byte aligned. */
int sample_decode(const void *bytes, size_t len, struct sample_view *ret);

static inline uint32_t sample_frame_file(uint64_t frame)
{
	return (uint32_t)(frame >> FRAME_VA_BITS);
}

static inline uint64_t sample_frame_va(uint64_t frame)
{
	return frame & FRAME_VA_MASK;
}

const char *unwind_ending_text(enum unwind_ending ending); /* "no table" */
bool unwind_ending_complete(enum unwind_ending ending);

#endif
