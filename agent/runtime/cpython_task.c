// SPDX-License-Identifier: Apache-2.0
#include "agent/runtime/cpython_task.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/elf/runtime/cpython.h"
#include "agent/runtime/cpython_text.h"
#include "bpf/abi.h"

#define TAG_DIGITS 3 /* in a number's tag: how many digits of 30 bits it has is above its sign and a flag */
#define DIGITS_MAX 2u
#define DIGIT_BITS 30

/* A number stands behind the header of its object: a tag, u64, and digits, u32, the lowest first. */
static int append_number(struct buf *out, const struct cpython_layout *l, const struct sample_task *task)
{
	uint32_t digits[DIGITS_MAX] = {0};
	uint64_t tag;
	int r;

	if (l->text_length + sizeof tag + sizeof digits > task->bytes)
		return -ENODATA;
	memcpy(&tag, task->object + l->text_length, sizeof tag);
	memcpy(digits, task->object + l->text_length + sizeof tag, sizeof digits);
	if (!(tag >> TAG_DIGITS) || tag >> TAG_DIGITS > DIGITS_MAX)
		return -ENOTSUP;
	r = buf_printf(out, "Task-%lu",
		       tag >> TAG_DIGITS == 1
			       ? (unsigned long)digits[0]
			       : (unsigned long)digits[1] << DIGIT_BITS | (unsigned long)digits[0]);
	return r;
}

int cpython_task_name(struct buf *out, const struct cpython_facts *facts, const struct sample_task *task)
{
	const size_t begin = out->len;
	int r;

	if (task->bytes > sizeof task->object)
		return -ENODATA;
	if (facts->text_type && task->type == facts->text_type + task->bias)
		r = cpython_text_append(out, &facts->layout, task->object, task->bytes);
	else if (facts->int_type && task->type == facts->int_type + task->bias)
		r = append_number(out, &facts->layout, task);
	else
		r = -ENOTSUP;
	if (r >= 0)
		r = buf_putc(out, '\0');
	if (r < 0)
		out->len = begin;
	return r < 0 ? r : 0;
}
