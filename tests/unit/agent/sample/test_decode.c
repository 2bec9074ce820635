// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/sample/decode.h"

/* A record of 2 kernel and 3 user words, with context and a saved stack of 16 bytes. */
struct whole {
	struct sample_record record;
	uint64_t frames[5];
	struct sample_context context;
	struct saved_stack saved;
	uint8_t stack[16];
};

static struct whole whole_make(void)
{
	return (struct whole){
		.record = {.time_ns = 7,
			   .value = 1000,
			   .pid = 10,
			   .tid = 11,
			   .generation = 3,
			   .origin = ORIGIN_OFF_CPU,
			   .cpu = 2,
			   .ending = ENDING_NO_TABLE,
			   .flags = SAMPLE_KERNEL_MODE | SAMPLE_CONTEXT | SAMPLE_SAVED_STACK,
			   .n_kernel = 2,
			   .n_user = 3,
			   .runtime = RUNTIME_RUBY,
			   .runtime_reason = RUNTIME_REASON_LAYOUT},
		.frames = {0xffffffff81000001, 0xffffffff81000002, frame_native(5, 0x1234), 6, 7},
		.context = {.trace_id = {1, 2}, .span_id = {3}},
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
	cr_expect_eq(v.value, 1000);
	cr_expect_eq(v.pid, 10);
	cr_expect_eq(v.tid, 11);
	cr_expect_eq(v.generation, 3);
	cr_expect_eq(v.origin, ORIGIN_OFF_CPU);
	cr_expect_eq(v.cpu, 2);
	cr_expect_eq(v.ending, ENDING_NO_TABLE);
	cr_expect_eq(v.ending_detail, 0, "belongs to another ending");
	cr_expect(v.kernel_mode);
	cr_expect_not(v.from_start);
	cr_expect_eq(v.n_kernel, 2);
	cr_expect_eq(v.n_user, 3);
	cr_expect_eq(v.frames, w.frames);
	cr_expect_eq(v.context, &w.context);
	cr_expect_eq(v.saved, &w.saved);
	cr_expect_eq(v.stack, w.stack);
}

Test(sample_decode, parts_are_optional)
{
	const struct whole w = whole_make();
	const size_t head = sizeof w.record + sizeof w.frames, saved = sizeof w.saved + sizeof w.stack;

	for (unsigned parts = 0; parts < 4; parts++) {
		struct whole copy = w;
		uint8_t *end = (uint8_t *)&copy + head;
		struct sample_view v;

		copy.record.flags = (parts & 1 ? SAMPLE_CONTEXT : 0) | (parts & 2 ? SAMPLE_SAVED_STACK : 0);
		if (!(parts & 1))
			memmove(end, end + sizeof w.context, saved);
		end += (parts & 1 ? sizeof w.context : 0) + (parts & 2 ? saved : 0);
		cr_assert_eq(sample_decode(&copy, (size_t)(end - (uint8_t *)&copy), &v), 0, "%u", parts);
		cr_expect_eq(v.context != NULL, parts & 1);
		cr_expect_eq(v.saved != NULL, parts >> 1);
		cr_expect_eq(v.stack != NULL, parts >> 1);
		cr_expect(!v.context || v.context->span_id[0] == 3);
		cr_expect(!v.saved || (v.saved->sp == 2 && v.stack[2] == 3));
	}
}

Test(sample_decode, a_runtime_that_was_not_walked)
{
	struct whole w = whole_make();
	struct sample_view v;

	w.record.ending = ENDING_RUNTIME;
	cr_assert_eq(sample_decode(&w, sizeof w, &v), 0);
	cr_expect_str_eq(unwind_ending_reason(v.ending, v.ending_detail), "ruby: layout not recognised");
	cr_expect_not(unwind_ending_complete(v.ending));
	w.record.runtime = RUNTIMES;
	cr_assert_eq(sample_decode(&w, sizeof w, &v), 0, "one that is newer than the agent");
	cr_expect_str_eq(unwind_ending_reason(v.ending, v.ending_detail), "runtime not walked");
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
		{"kernel frames", offsetof(struct whole, record.n_kernel), 1, KERNEL_FRAMES_MAX + 1},
		{"user frames", offsetof(struct whole, record.n_user), 2, USER_FRAMES_MAX + 1},
		{"one frame more", offsetof(struct whole, record.n_user), 2, 4},
		{"no context", offsetof(struct whole, record.flags), 1, SAMPLE_SAVED_STACK},
		{"no saved stack", offsetof(struct whole, record.flags), 1, SAMPLE_CONTEXT},
		{"neither", offsetof(struct whole, record.flags), 1, 0},
		{"stack shorter", offsetof(struct whole, saved.stack_bytes), 4, 15},
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

/* Where frames were omitted is looked for if the record says so, among the user's frames only. */
Test(sample_decode, omitted_frames)
{
	const uint64_t omitted = frame_omitted(1000);
	const struct {
		const char *name;
		uint8_t flags;
		uint64_t frames[5];
		uint16_t omitted;
	} cases[] = {
		{"between others", SAMPLE_OMITTED, {1, 2, 3, omitted, 5}, 3},
		{"at the end", SAMPLE_OMITTED, {1, 2, 3, 4, omitted}, 4},
		{"not announced", 0, {1, 2, 3, omitted, 5}, 0},
		{"announced only", SAMPLE_OMITTED, {1, 2, 3, 4, 5}, 0},
		{"a kernel address", SAMPLE_OMITTED, {omitted, omitted, 3, 4, 5}, 0},
		{"the first of two", SAMPLE_OMITTED, {1, 2, omitted, omitted, 5}, 2},
		{"part of another frame",
		 SAMPLE_OMITTED,
		 {1, 2, frame_runtime_head(RUNTIME_RUBY, 1, 0), omitted, 5},
		 0},
		{"behind a frame that is cut",
		 SAMPLE_OMITTED,
		 {1, 2, frame_runtime_head(RUNTIME_RUBY, 3, 0), omitted, omitted},
		 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct whole w = whole_make();
		struct sample_view v;

		w.record.flags |= cases[i].flags;
		memcpy(w.frames, cases[i].frames, sizeof w.frames);
		cr_assert_eq(sample_decode(&w, sizeof w, &v), 0, "%s", cases[i].name);
		cr_expect_eq(v.omitted, cases[i].omitted, "%s: %u", cases[i].name, v.omitted);
	}
}

/* ---- frames of a runtime */

struct with_runtime {
	struct sample_record record;
	uint64_t frame;
	struct runtime_part part;
	struct runtime_segment segments[2];
	uint64_t words[6];
};

static struct with_runtime with_runtime_make(void)
{
	const uint64_t head = frame_runtime_head(RUNTIME_CPYTHON, 1, 77);

	return (struct with_runtime){
		.record = {.flags = SAMPLE_RUNTIME, .n_user = 1},
		.frame = frame_native(5, 0x1234),
		.part = {.runtime = RUNTIME_CPYTHON, .n_words = 6, .n_segments = 2, .whole = 1},
		.segments = {{0x7000, 0, 4, 0}, {0x7100, RUNTIME_NOT_TIED, 6, 0}},
		.words = {head, 1, head, 2, head, 3},
	};
}

Test(sample_decode, frames_of_a_runtime)
{
	struct with_runtime w = with_runtime_make();
	struct sample_view v;

	cr_assert_eq(sample_decode(&w, sizeof w, &v), 0);
	cr_expect_eq(v.runtime, &w.part);
	cr_expect_eq(v.segments, w.segments);
	cr_expect_eq(v.runtime_words, w.words);
	w.record.flags = 0;
	cr_expect_eq(sample_decode(&w, sizeof w, &v), -EBADMSG, "nothing announces the part");
}

Test(sample_decode, tasks)
{
	struct {
		struct with_runtime w;
		struct sample_task task;
	} record = {.w = with_runtime_make(), .task = {.bytes = SAMPLE_TASK_BYTES}};
	struct sample_view v;

	record.w.record.flags |= SAMPLE_TASK;
	cr_assert_eq(sample_decode(&record, sizeof record, &v), 0);
	cr_expect_eq(v.task, &record.task);
	cr_expect_null(v.task_name);
	cr_expect_eq(sample_decode(&record, sizeof record - 8, &v), -EBADMSG, "cut");
	record.task.bytes++;
	cr_expect_eq(sample_decode(&record, sizeof record, &v), -EBADMSG, "more bytes than there are");
}

Test(sample_decode, a_task_without_frames)
{
	struct {
		struct sample_record record;
		struct sample_task task;
	} record = {.record = {.flags = SAMPLE_TASK}};
	struct sample_view v;

	cr_expect_eq(sample_decode(&record, sizeof record, &v), -EBADMSG);
}

Test(sample_decode, frames_of_a_runtime_that_are_none)
{
	for (int i = 0; i < 10; i++) {
		struct with_runtime w = with_runtime_make();
		size_t len = sizeof w;
		struct sample_view v;

		switch (i) {
		case 0:
			w.part.n_words = 5;
			break;
		case 1:
			w.part.n_words = 8;
			break;
		case 2:
			w.part.n_segments = RUNTIME_SEGMENTS_MAX + 1;
			break;
		case 3:
			w.segments[0].end = 6;
			break;
		case 4:
			w.segments[0].end = 0;
			break;
		case 5:
			w.segments[1].end = 5;
			break;
		case 6:
			w.words[2] = frame_native(5, 77);
			break;
		case 7:
			w.words[2] = frame_runtime_head(RUNTIME_RUBY, 1, 77);
			break;
		case 8:
			w.part.runtime = RUNTIMES;
			break;
		case 9:
			len -= 8;
			break;
		}
		cr_expect_eq(sample_decode(&w, len, &v), -EBADMSG, "case %d", i);
	}
}
