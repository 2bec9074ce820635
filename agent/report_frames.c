// SPDX-License-Identifier: Apache-2.0
#include "agent/report_private.h"

/* The root frame that says why a stack is cut: X-macro of bpf/abi.h, one constant string each. */
static const char *const ending_names[ENDINGS] = {
#define X(name, text, complete) [ENDING_##name] = "[truncated: " text "]",
	UNWIND_ENDINGS(X)
#undef X
};

size_t report_frames(struct names *n, const struct sample_stack *stack, struct frame *ret)
{
	size_t k = 0;

	for (uint16_t i = 0; i < stack->n_kernel; i++)
		names_kernel_frame(n, stack->frames[i], &ret[k++]);
	for (uint16_t i = 0; i < stack->n_user; i++)
		names_user_frame(n, stack->frames[stack->n_kernel + i], &ret[k++]);
	if (!unwind_ending_complete(stack->ending))
		ret[k++] = (struct frame){.kind = FRAME_ENDING, .function = ending_names[stack->ending]};
	return k;
}
