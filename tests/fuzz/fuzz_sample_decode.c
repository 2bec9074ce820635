// SPDX-License-Identifier: Apache-2.0
/*
 * Decodes any bytes as a record of the ring: all bytes of a decoded record must be readable, and its frames
 * must be inside its words.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sample/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t *copy = malloc(size + 8);
	volatile uint64_t sum = 0;
	struct sample_view v;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (sample_decode(copy, size, &v) == 0) {
		struct stack_frames frames = STACK_FRAMES(&v);
		struct stack_frame f;
		uint32_t n = 0, words = (uint32_t)v.n_kernel + v.n_user;

		for (uint32_t i = 0; i < words; i++)
			sum += v.frames[i];
		for (; stack_frames_next(&frames, &f); n++) {
			if (f.index + 1 + f.n_following > words || f.word != v.frames[f.index])
				abort();
			for (uint32_t i = 0; i < f.n_following; i++)
				sum += f.following[i];
		}
		if (n > words)
			abort();
		if (v.omitted && (v.omitted < v.n_kernel || v.omitted >= words ||
				  frame_tag(v.frames[v.omitted]) != FRAME_TAG_OMITTED))
			abort();
		for (uint32_t i = 0; v.saved && i < v.saved->stack_bytes; i++)
			sum += v.stack[i];
		if (v.saved)
			sum += v.saved->regs[SAVED_STACK_REGISTERS - 1];
		if (v.context)
			sum += v.context->trace_id[15] + v.context->span_id[7];
		for (uint32_t i = 0; v.task && i < v.task->bytes; i++)
			sum += v.task->object[i];
		sum += (uintptr_t)unwind_ending_reason(v.ending, v.ending_detail);
		sum += (uintptr_t)ending_frame_text(ending_frame(v.ending, v.ending_detail));
	}
	free(copy);
	return 0;
}
