// SPDX-License-Identifier: Apache-2.0
/* A record of the BPF program as a checked view. Pure. */
#ifndef PROFLET_SAMPLE_DECODE_H
#define PROFLET_SAMPLE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/sample/endings.h"
#include "agent/sample/frames.h"
#include "bpf/abi.h"

/* Valid as long as the bytes that it was made from. */
struct sample_view {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t value;	  /* in the unit of the origin */
	uint32_t pid, tid, generation;
	uint16_t origin; /* enum sample_origin */
	uint16_t cpu;
	enum unwind_ending ending;
	uint32_t ending_detail; /* agent/sample/endings.h */
	bool kernel_mode;
	bool from_start; /* the saved stack is that of the sample, not of where the unwind stopped */
	uint16_t n_kernel, n_user;	      /* words */
	const uint64_t *frames;		      /* n_kernel, then n_user; each part leaf first */
	const struct sample_context *context; /* NULL: none */
	const struct saved_stack *saved;      /* NULL: the unwind is final */
	const uint8_t *stack;		      /* saved->stack_bytes */
};

/* 0, or -EBADMSG for bytes that are no record. `bytes` is 8-byte aligned. */
int sample_decode(const void *bytes, size_t len, struct sample_view *ret);

#endif
