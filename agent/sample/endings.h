// SPDX-License-Identifier: Apache-2.0
/*
 * How unwinds end, in words. Besides the ending there is a detail: with ENDING_RUNTIME which runtime could
 * not be walked, and why; else 0. All strings are static.
 */
#ifndef PROFLET_SAMPLE_ENDINGS_H
#define PROFLET_SAMPLE_ENDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/abi.h"

static inline uint32_t ending_detail(uint32_t runtime, uint32_t reason)
{
	return runtime << 8 | reason;
}

const char *unwind_ending_text(enum unwind_ending ending); /* "no table" */
bool unwind_ending_complete(enum unwind_ending ending);
/* With the detail: "no table", "cpython: layout not recognised". */
const char *unwind_ending_reason(enum unwind_ending ending, uint32_t detail);

/* The number (agent/sample/frames.h) of the outermost frame that says why a stack is incomplete. */
uint64_t ending_frame(enum unwind_ending ending, uint32_t detail);
/* What such a number says, "[truncated: no table]"; NULL when it is none. */
const char *ending_frame_text(uint64_t number);

#endif
