// SPDX-License-Identifier: Apache-2.0
/* A small recording for the tests of the writers, and functions to read their output. */
#ifndef PROFLET_TESTS_RECORDING_H
#define PROFLET_TESTS_RECORDING_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/output/profile.h"

#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct frame_module app = {
	.id = 1,
	.path = "/usr/bin/app",
	.name = "app",
	.build_id_gnu = "c0ffee",
	.start = 0x1000,
	.limit = 0x9000,
	.file_offset = 0x1000,
};
static const struct frame_module libc = {
	.id = 2,
	.path = "/lib/libc.so.6",
	.name = "libc.so.6",
	.htlhash = "00112233445566778899aabbccddeeff",
	.start = 0x26000,
	.limit = 0x1a0000,
	.file_offset = 0x26000,
};
static const struct frame_module kernel = {
	.id = 3,
	.path = "[kernel]",
	.name = "[kernel]",
	.start = 0xffffffff81000000,
	.limit = 0xffffffff82000000,
};

#define APP(function_, address_) {.module = &app, .function = (function_), .address = (address_)}
#define LIBC(function_, address_) {.module = &libc, .function = (function_), .address = (address_)}
#define KERNEL(function_, address_) \
	{.module = &kernel, .function = (function_), .address = (address_), .kind = FRAME_KERNEL}
/* A function of a language runtime; `source` is its struct frame_line. */
#define LANGUAGE(runtime_, source, start_line_) \
	{.runtime = (runtime_),                 \
	 .function = (source)->function,        \
	 .lines = (source),                     \
	 .n_lines = 1,                          \
	 .start_line = (start_line_)}
#define ENDING(function_) {.function = (function_), .kind = FRAME_ENDING}

static inline struct output_profile *recording_new(size_t max_nodes)
{
	struct output_profile *p = NULL;
	const struct output_info info = {
		.start_unix_ns = 1700000000123456789,
		.duration_ns = 2000000000,
		.frequency_hz = 100,
		.hostname = "node-1",
		.command = "app --fast",
		.version = "0.1.0",
		.n_taken = 120,
		.n_dropped = 3,
		.max_nodes = max_nodes,
	};

	cr_assert_eq(output_profile_new(&p, &info), 0);
	return p;
}

static inline int recording_add(struct output_profile *p, const char *process, uint32_t pid,
				const char *container, const struct frame *frames, size_t n, uint64_t count)
{
	const struct output_stack s = {
		.process = process,
		.pid = pid,
		.thread = "worker",
		.container = container,
		.frames = frames,
		.n_frames = n,
		.count = count,
		.complete = !n || frames[n - 1].kind != FRAME_ENDING,
	};

	return output_profile_add(p, &s);
}

#define ADD(p, process, pid, container, count, ...)                                            \
	recording_add((p), (process), (pid), (container), (const struct frame[]){__VA_ARGS__}, \
		      sizeof((const struct frame[]){__VA_ARGS__}) / sizeof(struct frame), (count))

/*
 * Two processes of one name in a container and one of the host, with recursion, kernel frames, incomplete
 * stacks and unnamed frames.
 */
static inline struct output_profile *recording_sample(void)
{
	struct output_profile *p = recording_new(0);

	ADD(p, "app", 10, CONTAINER, 5, APP("work", 0x1010), APP("main", 0x1100));
	ADD(p, "app", 11, CONTAINER, 7, APP("work", 0x1014), APP("main", 0x1100));
	ADD(p, "app", 11, CONTAINER, 40, KERNEL("vfs_read", 0xffffffff81000100), LIBC("read", 0x26100),
	    APP("work", 0x1020), APP("work", 0x1018), APP("main", 0x1100));
	ADD(p, "app", 11, CONTAINER, 3, LIBC(NULL, 0x27abc), ENDING("[truncated: no table]"));
	ADD(p, "cron", 12, NULL, 60, {.address = 0x7f0000001234}, LIBC("read", 0x26100));
	ADD(p, "cron", 12, NULL, 2, APP("main", 0x1100));
	return p;
}

/*
 * Stacks of Python: functions at two lines, of one name in two files and at two places of a file, one about
 * which nothing is known, and the interpreter's native frames; and one stack without Python.
 */
static inline void recording_add_python(struct output_profile *p)
{
	static const struct frame_line run = {"Shop.run", "/srv/shop/__init__.py", 12, 10},
				       run_later = {"Shop.run", "/srv/shop/__init__.py", 14, 10},
				       module = {"<module>", "/srv/main.py", 40, 1},
				       a = {"f.<lambda>", "/srv/main.py", 7, 7},
				       b = {"f.<lambda>", "/srv/main.py", 9, 9},
				       other = {"f.<lambda>", "/srv/other.py", 7, 7};

	ADD(p, "python3", 20, NULL, 1, LIBC("read", 0x26100), LANGUAGE("cpython", &run, 10),
	    APP("eval", 0x1500), LANGUAGE("cpython", &module, 1), APP("eval", 0x1500), APP("main", 0x1100));
	ADD(p, "python3", 20, NULL, 2, KERNEL("vfs_read", 0xffffffff81000100), LIBC("read", 0x26100),
	    LANGUAGE("cpython", &run_later, 10), LANGUAGE("cpython", &module, 1), APP("eval", 0x1500),
	    APP("main", 0x1100));
	ADD(p, "python3", 20, NULL, 4, LANGUAGE("cpython", &a, 7), LANGUAGE("cpython", &module, 1),
	    APP("main", 0x1100));
	ADD(p, "python3", 20, NULL, 8, LANGUAGE("cpython", &b, 9), LANGUAGE("cpython", &module, 1),
	    APP("main", 0x1100));
	ADD(p, "python3", 20, NULL, 16, LANGUAGE("cpython", &other, 7), LANGUAGE("cpython", &module, 1),
	    APP("main", 0x1100));
	ADD(p, "python3", 20, NULL, 32, {.runtime = "cpython", .function = "[unknown function]"},
	    APP("main", 0x1100));
	ADD(p, "python3", 20, NULL, 64, APP("collect", 0x1600), APP("main", 0x1100));
}

/* Runs a writer into memory; the caller frees the text. */
#define WRITTEN(ret_len, call)                               \
	({                                                   \
		char *_text = NULL;                          \
		FILE *f = open_memstream(&_text, (ret_len)); \
		cr_assert_not_null(f);                       \
		cr_assert_eq((call), 0);                     \
		fclose(f);                                   \
		_text;                                       \
	})

#endif
