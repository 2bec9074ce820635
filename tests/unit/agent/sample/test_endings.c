// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/sample/endings.h"
#include "agent/sample/frames.h"

Test(endings, every_ending_has_a_text)
{
	for (int i = 0; i < ENDINGS; i++) {
		cr_expect_not_null(unwind_ending_text((enum unwind_ending)i));
		for (int k = 0; k < i; k++)
			cr_expect_str_neq(unwind_ending_text((enum unwind_ending)i),
					  unwind_ending_text((enum unwind_ending)k));
	}
	cr_expect(unwind_ending_complete(ENDING_ROOT));
	cr_expect(unwind_ending_complete(ENDING_KERNEL_THREAD));
	cr_expect_not(unwind_ending_complete(ENDING_NO_TABLE));
}

/* The frame numbers of endings are distinct, differ from those of other frames, and have texts. */
Test(endings, frames)
{
	for (uint32_t i = 0; i < ENDINGS; i++) {
		uint64_t number = ending_frame((enum unwind_ending)i, 0);
		char want[64];

		snprintf(want, sizeof want, "[truncated: %s]", unwind_ending_text((enum unwind_ending)i));
		cr_expect_str_eq(ending_frame_text(number), want);
	}
	cr_expect_null(ending_frame_text(ending_frame((enum unwind_ending)ENDINGS, 0)));
	cr_expect_null(ending_frame_text(frame_native(1, 0)));
	cr_expect_null(ending_frame_text(0xffffffff81000000));
	cr_expect_null(ending_frame_text((uint64_t)FRAME_TAG_ENDING << FRAME_VA_BITS | 1ull << 40),
		       "damaged");
}

Test(endings, runtimes_say_which_and_why)
{
	char last[64] = "";

	for (uint32_t runtime = RUNTIME_NONE + 1; runtime < RUNTIMES; runtime++) {
		for (uint32_t reason = 0; reason < RUNTIME_REASONS_N; reason++) {
			uint32_t detail = ending_detail(runtime, reason);
			const char *text = unwind_ending_reason(ENDING_RUNTIME, detail);
			char want[80];

			cr_expect_not_null(strchr(text, ':'), "%s", text);
			cr_expect_str_neq(text, last);
			snprintf(last, sizeof last, "%s", text);
			snprintf(want, sizeof want, "[truncated: %s]", text);
			cr_expect_str_eq(ending_frame_text(ending_frame(ENDING_RUNTIME, detail)), want);
			cr_expect_str_eq(unwind_ending_reason(ENDING_NO_TABLE, detail), "no table");
		}
	}
	cr_expect_str_eq(unwind_ending_reason(ENDING_RUNTIME,
					      ending_detail(RUNTIME_CPYTHON, RUNTIME_REASON_NO_THREAD)),
			 "cpython: no thread state");
}

Test(endings, an_unknown_runtime_or_reason_leaves_the_ending)
{
	static const uint32_t details[] = {0, RUNTIMES << 8, RUNTIME_PHP << 8 | RUNTIME_REASONS_N,
					   0xffffffff};

	for (size_t i = 0; i < sizeof details / sizeof *details; i++) {
		cr_expect_str_eq(unwind_ending_reason(ENDING_RUNTIME, details[i]), "runtime not walked");
		cr_expect_str_eq(ending_frame_text(ending_frame(ENDING_RUNTIME, details[i])),
				 "[truncated: runtime not walked]");
	}
}
