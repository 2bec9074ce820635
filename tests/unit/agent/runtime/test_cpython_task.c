// SPDX-License-Identifier: Apache-2.0
/* Objects with names of tasks, of CPython 3.14. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/runtime/cpython.h"
#include "agent/runtime/cpython_task.h"
#include "bpf/abi.h"

#define BIAS 0x10000u

static const struct cpython_facts facts = {
	.text_type = 0x5000,
	.int_type = 0x6000,
	.layout = {.text_length = 16,
		   .text_state = 32,
		   .kind_shift = 2,
		   .compact_bit = 5,
		   .ascii_bit = 6,
		   .ascii_text = 40,
		   .wide_text = 56},
};

static struct sample_task text_of(const char *name, uint64_t length)
{
	struct sample_task t = {.type = facts.text_type + BIAS, .bias = BIAS, .bytes = SAMPLE_TASK_BYTES};
	const uint32_t state = 1u << 2 | 1u << 5 | 1u << 6;

	memcpy(t.object + 16, &length, sizeof length);
	memcpy(t.object + 32, &state, sizeof state);
	memcpy(t.object + 40, name, strnlen(name, sizeof t.object - 40));
	return t;
}

static struct sample_task number_of(uint64_t tag, uint32_t low, uint32_t high)
{
	struct sample_task t = {.type = facts.int_type + BIAS, .bias = BIAS, .bytes = SAMPLE_TASK_BYTES_MIN};

	memcpy(t.object + 16, &tag, sizeof tag);
	memcpy(t.object + 24, &low, sizeof low);
	memcpy(t.object + 28, &high, sizeof high);
	return t;
}

Test(cpython_task, names)
{
	const struct {
		struct sample_task task;
		const char *name;
	} cases[] = {
		{text_of("fetch /orders", 13), "fetch /orders"},
		{text_of("a\nb", 3), "a?b"},
		{text_of("", 0), ""},
		{text_of("0123456789012345678901234567890123456789012345678901234567890123", 200),
		 "01234567890123456789012345678901234567890123456789012345\xe2\x80\xa6"},
		{number_of(1 << 3, 7, 0xffffffff), "Task-7"},
		{number_of(2 << 3, 1, 1), "Task-1073741825"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0};

		cr_assert_eq(cpython_task_name(&b, &facts, &cases[i].task), 0, "case %zu", i);
		cr_expect_str_eq((const char *)b.data, cases[i].name, "case %zu", i);
		cr_expect_eq(b.len, strlen(cases[i].name) + 1, "case %zu", i);
	}
}

Test(cpython_task, what_is_no_name)
{
	struct sample_task other = text_of("x", 1), cut = text_of("x", 1), more = text_of("x", 1),
			   header = number_of(1 << 3, 7, 0);
	const struct {
		struct sample_task task;
		int error;
	} cases[] = {
		{(other.type = facts.text_type, other), -ENOTSUP}, /* the address in the file */
		{(cut.bytes = 36, cut), -ENODATA},
		{(more.bytes = SAMPLE_TASK_BYTES + 1, more), -ENODATA},
		{(header.bytes = 24, header), -ENODATA},
		{number_of(0, 7, 0), -ENOTSUP},
		{number_of(3 << 3, 7, 0), -ENOTSUP},
	};
	struct cpython_facts unknown = facts;
	_cleanup_buf_ struct buf b = {0};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cr_expect_eq(cpython_task_name(&b, &facts, &cases[i].task), cases[i].error, "case %zu", i);
		cr_expect_eq(b.len, 0, "case %zu", i);
	}
	unknown.text_type = unknown.int_type = 0;
	other.type = BIAS;
	cr_expect_eq(cpython_task_name(&b, &unknown, &other), -ENOTSUP);
}
