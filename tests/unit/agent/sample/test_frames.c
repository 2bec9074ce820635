// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/sample/frames.h"

struct words {
	const uint64_t *frames;
	uint16_t n_kernel, n_user;
};

#define KERNEL 0xffffffff81000010ull
#define RUNTIME(following) frame_runtime_head(RUNTIME_CPYTHON, following, 0x7f0011223344)
#define NEW_RUNTIME(following) frame_runtime_head(RUNTIMES + 5, following, 1)
#define UNKNOWN (0xf123ull << FRAME_VA_BITS | 5)

Test(frames, words_of_each_kind)
{
	cr_expect_eq(frame_file(frame_native(FRAME_FILE_MAX, 0x1234)), FRAME_FILE_MAX);
	cr_expect_eq(frame_va(frame_native(7, 0xffff000000001234)), 0x1234,
		     "the address does not touch the file");
	cr_expect_eq(frame_anonymous(0x7f0000001000), 0x7f0000001000, "a process address as it is");
	cr_expect_eq(frame_file(frame_anonymous(0x7f0000001000)), FILE_ANONYMOUS);
	for (uint32_t n = 0; n <= FRAME_RUNTIME_WORDS_MAX; n++) {
		uint64_t head = frame_runtime_head(1023, n, ~0ull);

		cr_expect(frame_is_runtime(head));
		cr_expect_eq(frame_runtime_of(head), 1023);
		cr_expect_eq(frame_following(head), n);
		cr_expect_eq(frame_va(head), FRAME_VA_MASK);
		cr_expect_gt(frame_file(head), FRAME_FILE_MAX);
	}
	cr_expect_not(frame_is_runtime(frame_native(FRAME_FILE_MAX, 0)));
	cr_expect_not(frame_is_runtime(UNKNOWN));
	cr_expect_eq(frame_following(KERNEL), 0);
	cr_expect_eq(frame_va(frame_omitted(99999)), 99999);
	cr_expect_eq(frame_tag(frame_omitted(~0ull)), FRAME_TAG_OMITTED);
	cr_expect_not(frame_is_runtime(frame_omitted(1)));
}

Test(frames, all_kinds_in_order)
{
	const uint64_t words[] = {KERNEL,
				  KERNEL + 1,
				  frame_native(3, 0x10),
				  frame_anonymous(0x2000),
				  RUNTIME(3),
				  KERNEL,
				  UNKNOWN,
				  RUNTIME(3),
				  frame_native(4, 1),
				  RUNTIME(0),
				  KERNEL,
				  frame_omitted(99999)};
	const struct {
		enum stack_frame_kind kind;
		uint32_t index, following;
	} want[] = {{STACK_FRAME_KERNEL, 0, 0},	   {STACK_FRAME_KERNEL, 1, 0},	{STACK_FRAME_NATIVE, 2, 0},
		    {STACK_FRAME_ANONYMOUS, 3, 0}, {STACK_FRAME_RUNTIME, 4, 3}, {STACK_FRAME_NATIVE, 8, 0},
		    {STACK_FRAME_RUNTIME, 9, 0},   {STACK_FRAME_KERNEL, 10, 0}, {STACK_FRAME_OMITTED, 11, 0}};
	const struct words stack = {words, 2, ARRAY_SIZE(words) - 2};
	struct stack_frames frames = STACK_FRAMES(&stack), user = STACK_USER_FRAMES(&stack);
	struct stack_frame f;

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		cr_assert(stack_frames_next(&frames, &f), "%zu", i);
		cr_expect_eq(f.kind, want[i].kind, "%zu", i);
		cr_expect_eq(f.index, want[i].index, "%zu", i);
		cr_expect_eq(f.word, words[want[i].index], "%zu", i);
		cr_expect_eq(f.n_following, want[i].following, "%zu", i);
		cr_expect(!f.n_following || f.following == &words[want[i].index + 1], "%zu", i);
	}
	cr_expect_not(stack_frames_next(&frames, &f));
	cr_expect_not(stack_frames_next(&frames, &f), "and it stays at the end");
	cr_assert(stack_frames_next(&user, &f));
	cr_expect_eq(f.index, 2, "the user's part alone");
}

/* In the kernel's part a word is an address, whatever its tag. */
Test(frames, kernel_addresses_are_no_heads)
{
	const uint64_t words[] = {RUNTIME(3), UNKNOWN, frame_native(1, 2), frame_native(9, 9)};
	const struct words stack = {words, 3, 1};
	struct stack_frames frames = STACK_FRAMES(&stack);
	struct stack_frame f;

	for (uint32_t i = 0; i < 3; i++) {
		cr_assert(stack_frames_next(&frames, &f));
		cr_expect(f.kind == STACK_FRAME_KERNEL && f.index == i && !f.n_following);
	}
	cr_assert(stack_frames_next(&frames, &f));
	cr_expect_eq(f.kind, STACK_FRAME_NATIVE);
}

Test(frames, unknown_kinds_are_skipped)
{
	const uint64_t words[] = {NEW_RUNTIME(2),     frame_native(1, 1),
				  frame_native(1, 2), frame_runtime_head(RUNTIME_NONE, 1, 0),
				  frame_native(1, 3), UNKNOWN,
				  frame_native(2, 4)};
	const struct words stack = {words, 0, ARRAY_SIZE(words)};
	struct stack_frames frames = STACK_FRAMES(&stack);
	struct stack_frame f;

	cr_assert(stack_frames_next(&frames, &f));
	cr_expect_eq(f.index, 6, "the one frame behind them");
	cr_expect_not(stack_frames_next(&frames, &f));
}

/*
 * A frame that claims more words than there are ends the stack; the copy has the exact size for
 * the sanitizer.
 */
Test(frames, damaged_heads_do_not_lead_out)
{
	for (uint32_t n = 1; n <= 4; n++) {
		for (uint32_t following = 0; following <= FRAME_RUNTIME_WORDS_MAX; following++) {
			for (unsigned known = 0; known < 2; known++) {
				_cleanup_free_ uint64_t *words = calloc(n, sizeof *words);
				const struct words stack = {words, 0, (uint16_t)n};
				struct stack_frames frames = STACK_FRAMES(&stack);
				struct stack_frame f;
				uint32_t seen = 0;

				cr_assert_not_null(words);
				for (uint32_t i = 0; i < n; i++)
					words[i] = frame_native(1, i);
				words[n - 1] = known ? RUNTIME(following) : NEW_RUNTIME(following);
				while (stack_frames_next(&frames, &f))
					seen++;
				cr_expect_eq(seen, n - 1 + (known && !following), "%u, %u", n, following);
			}
		}
	}
}
