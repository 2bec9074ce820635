// SPDX-License-Identifier: Apache-2.0
/*
 * Texts for the ways in which an unwind ends. Besides the ending, a sample has a detail: for ENDING_RUNTIME
 * it says which language runtime could not be unwound, and why; otherwise it is 0. All strings are static.
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

/* enum runtime_reason */
static inline uint32_t ending_detail_reason(uint32_t detail)
{
	return detail & 255;
}

const char *unwind_ending_text(enum unwind_ending ending); /* The text of an ending: "no table". */
bool unwind_ending_complete(enum unwind_ending ending);
/* The text of an ending with its detail: "no table", "cpython: layout not recognised". */
const char *unwind_ending_reason(enum unwind_ending ending, uint32_t detail);

/* The frame number (agent/sample/frames.h) of the outermost frame, which says why a stack is incomplete. */
uint64_t ending_frame(enum unwind_ending ending, uint32_t detail);
/* The text for such a frame number, "[truncated: no table]"; NULL: it is the number of another frame. */
const char *ending_frame_text(uint64_t number);

#endif
