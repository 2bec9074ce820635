// SPDX-License-Identifier: Apache-2.0
/* Requests to parser processes, and answers of them, that are none. UBSan looks at each flag that is used. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/facts.h"
#include "agent/parser/operation.h"
#include "agent/unwind/code_job.h"
#include "agent/unwind/rule_job.h"
#include "agent/unwind/table_job.h"

Test(jobs, a_request_of_any_bytes_is_refused)
{
	static const struct parser_operation *const operations[] = {&table_operation, &rule_operation,
								    &code_operation};
	const int fds[2] = {-1, -1};
	uint8_t bytes[512];
	struct parser_job job = {.request = bytes, .request_len = sizeof bytes, .fds = fds};

	memset(bytes, 0xff, sizeof bytes);
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		for (job.n_fds = 0; job.n_fds <= 2; job.n_fds++)
			cr_expect_eq(operations[i]->run(&job), -EINVAL, "%s", operations[i]->name);
}

Test(jobs, a_rule_has_a_flag_that_is_one)
{
	struct frame_query query = {.va = 0x1000}, answer = {.va = 0x1000};

	answer.rule.start = 0x1000;
	answer.rule.end = 0x1001;
	cr_expect_eq(rule_answer_read(&query, 1, &answer, sizeof answer), 0);
	memset(&answer.rule.signal, 2, sizeof answer.rule.signal);
	cr_expect_eq(rule_answer_read(&query, 1, &answer, sizeof answer), -EBADMSG);
}

Test(jobs, a_table_tells_of_debug_files_by_flags_that_are_ones)
{
	uint64_t numbers[4] = {0}; /* rows, skipped, time, blocks */
	struct table_debug files[2];
	uint8_t bytes[sizeof numbers + sizeof files + sizeof(struct runtime_facts)] = {0};
	struct table_result result;
	static const size_t flags[] = {
		offsetof(struct table_debug, found),
		offsetof(struct table_debug, version) + offsetof(struct elf_version, recent),
		offsetof(struct table_debug, version) + offsetof(struct elf_version, kind)};

	cr_expect_eq(table_answer_read(&result, bytes, sizeof bytes, 0), 0);
	for (size_t file = 0; file < ARRAY_SIZE(files); file++)
		for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
			uint8_t *flag = bytes + sizeof numbers + file * sizeof files[0] + flags[i];

			*flag = 7;
			cr_expect_eq(table_answer_read(&result, bytes, sizeof bytes, 0), -EBADMSG,
				     "file %zu flag %zu", file, i);
			*flag = 0;
		}
}

Test(jobs, a_table_comes_with_what_was_found_of_a_runtime)
{
	const size_t at = 4 * sizeof(uint64_t) + 2 * sizeof(struct table_debug);
	uint8_t bytes[4 * sizeof(uint64_t) + 2 * sizeof(struct table_debug) + sizeof(struct runtime_facts)] =
		{0};
	struct runtime_facts facts;
	struct table_result result;

	cr_assert_eq(table_answer_read(&result, bytes, sizeof bytes, 0), 0);
	cr_expect_null(result.runtime);
	memset(&facts, 0, sizeof facts);
	facts.kind = RUNTIME_FILE_CPYTHON;
	facts.cpython.version = 0x03090000;
	facts.cpython.runtime = 0x1000;
	facts.cpython.known = cpython_layout_of_minor(&facts.cpython.layout, 9);
	memcpy(bytes + at, &facts, sizeof facts);
	for (int wanted = 0; wanted >= -ENODATA; wanted -= ENODATA) {
		cr_assert_eq(table_answer_read(&result, bytes, sizeof bytes, wanted), wanted);
		cr_assert_not_null(result.runtime);
		cr_expect_eq(memcmp(result.runtime, &facts, sizeof facts), 0);
		table_result_fini(&result);
	}
	cr_expect_eq(table_answer_read(&result, bytes, sizeof bytes, -ESTALE), -ESTALE);
	cr_expect_null(result.runtime);
	facts.cpython.layout.next = 4;
	memcpy(bytes + at, &facts, sizeof facts);
	cr_expect_eq(table_answer_read(&result, bytes, sizeof bytes, 0), -EBADMSG);
	cr_expect_null(result.runtime);
}
