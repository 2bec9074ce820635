// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/sample/decode.h"

/* A record of 2 kernel and 3 user frames, with a saved stack of 16 bytes. */
struct whole {
	struct sample_record record;
	uint64_t frames[5];
	struct saved_stack saved;
	uint8_t stack[16];
};

static struct whole whole_make(void)
{
	return (struct whole){
		.record = {.time_ns = 7,
			   .pid = 10,
			   .tid = 11,
			   .generation = 3,
			   .cpu = 2,
			   .ending = ENDING_NO_TABLE,
			   .flags = SAMPLE_KERNEL_MODE,
			   .n_kernel = 2,
			   .n_user = 3,
			   .saved_stack_bytes = sizeof(struct saved_stack) + 16},
		.frames = {0xffffffff81000001, 0xffffffff81000002, 5ull << FRAME_VA_BITS | 0x1234, 6, 7},
		.saved = {.ip = 1, .sp = 2, .fp = 3, .stack_bytes = 16},
		.stack = {1, 2, 3},
	};
}

Test(sample_decode, fields)
{
	struct whole w = whole_make();
	struct sample_view v;

	cr_assert_eq(sample_decode(&w, sizeof w, &v), 0);
	cr_expect_eq(v.time_ns, 7);
	cr_expect_eq(v.pid, 10);
	cr_expect_eq(v.tid, 11);
	cr_expect_eq(v.generation, 3);
	cr_expect_eq(v.cpu, 2);
	cr_expect_eq(v.ending, ENDING_NO_TABLE);
	cr_expect(v.kernel_mode);
	cr_expect_eq(v.n_kernel, 2);
	cr_expect_eq(v.n_user, 3);
	cr_expect_eq(v.frames, w.frames);
	cr_expect_eq(sample_frame_file(v.frames[2]), 5);
	cr_expect_eq(sample_frame_va(v.frames[2]), 0x1234);
	cr_expect_eq(v.saved, &w.saved);
	cr_expect_eq(v.stack, w.stack);
}

Test(sample_decode, without_saved_stack)
{
	struct whole w = whole_make();
	struct sample_view v;

	w.record.saved_stack_bytes = 0;
	cr_assert_eq(sample_decode(&w, sizeof w.record + sizeof w.frames, &v), 0);
	cr_expect_null(v.saved);
	cr_expect_null(v.stack);
}

Test(sample_decode, every_other_length_is_refused)
{
	struct whole w = whole_make();
	struct sample_view v = {.pid = 99};

	for (size_t len = 0; len < sizeof w; len++)
		cr_expect_eq(sample_decode(&w, len, &v), -EBADMSG, "%zu", len);
	cr_expect_eq(v.pid, 99, "written on success only");
}

Test(sample_decode, lies_are_refused)
{
	const struct {
		const char *what;
		size_t offset, size;
		uint64_t value;
	} lies[] = {
		{"ending", offsetof(struct whole, record.ending), 1, ENDINGS},
		{"kernel frames", offsetof(struct whole, record.n_kernel), 2, KERNEL_FRAMES_MAX + 1},
		{"user frames", offsetof(struct whole, record.n_user), 2, USER_FRAMES_MAX + 1},
		{"one frame more", offsetof(struct whole, record.n_user), 2, 4},
		{"saved stack too small", offsetof(struct whole, record.saved_stack_bytes), 4,
		 sizeof(struct saved_stack) - 8},
		{"saved stack longer", offsetof(struct whole, record.saved_stack_bytes), 4,
		 sizeof(struct saved_stack) + 24},
		{"stack longer", offsetof(struct whole, saved.stack_bytes), 4, 17},
		{"stack huge", offsetof(struct whole, saved.stack_bytes), 4, 0xffffffff},
	};

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct whole w = whole_make();
		struct sample_view v;

		memcpy((uint8_t *)&w + lies[i].offset, &lies[i].value, lies[i].size);
		cr_expect_eq(sample_decode(&w, sizeof w, &v), -EBADMSG, "%s", lies[i].what);
	}
}

Test(sample_decode, every_ending_has_a_text)
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
