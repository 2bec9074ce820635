// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of the live view. */
#ifndef PROFLET_TESTS_LIVE_H
#define PROFLET_TESTS_LIVE_H

#include "recording.h"

#include "agent/base/clock.h"
#include "agent/output/live.h"

static inline struct output_live *live_new(const struct output_live_options *o)
{
	const struct output_live_options usual = {.window_ns = 5 * NS_PER_SEC};
	struct output_live *l = NULL;

	cr_assert_eq(output_live_new(&l, o ? o : &usual), 0);
	return l;
}

static inline void live_add(struct output_live *l, const char *process, uint32_t pid, const char *container,
			    uint64_t count, const struct frame *frames, size_t n)
{
	const struct output_stack s = {
		.process = process,
		.pid = pid,
		.container = container,
		.frames = frames,
		.n_frames = n,
		.count = count,
		.complete = !n || frames[n - 1].kind != FRAME_ENDING,
	};

	output_live_add(l, &s);
}

#define LIVE(l, process, pid, container, count, ...)                                               \
	live_add((l), (process), (pid), (container), (count), (const struct frame[]){__VA_ARGS__}, \
		 sizeof((const struct frame[]){__VA_ARGS__}) / sizeof(struct frame))

/*
 * Adds one interval: f8 in two processes, one of them in a container; recursion, kernel frames, and an
 * incomplete stack.
 */
static inline void live_sample(struct output_live *l)
{
	LIVE(l, "app", 10, CONTAINER, 60, APP("f8", 1), APP("f7", 2), APP("main", 3));
	LIVE(l, "app", 11, NULL, 20, APP("f8", 1), APP("f8", 2), APP("main", 3));
	LIVE(l, "cron", 12, NULL, 15, KERNEL("vfs_read", 5), APP("main", 3));
	LIVE(l, "cron", 12, NULL, 5, LIBC(NULL, 0x27abc), ENDING("[truncated: no table]"));
}

#endif
