// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>

#include "agent/base/cleanup.h"
#include "tests/support/v8_memory.h"

#define N 8u

static struct v8_machine machine;

/* The lines of places, up to a number that is no higher than the one before. */
static int lines_of(const uint32_t *places, uint32_t *lines, size_t n)
{
	struct v8_memory memory = vm_memory(&machine);

	return v8_lines_read(&memory, &vm_layout, &vm_script, places, lines, NULL, n);
}

static uint32_t line_of(uint32_t place)
{
	uint32_t line = 99;

	cr_expect_leq(lines_of(&place, &line, 1), 0);
	return line;
}

Test(v8_lines, ends_of_lines)
{
	static const uint32_t places[N] = {0, 1, 2, 3, 4, 5, 6, 9};
	static const uint32_t expected[N] = {1, 1, 2, 2, 2, 3, 4, 0};
	uint32_t lines[N];

	/* CR LF is one end, CR another, and the last place is behind the text */
	vm_init(&machine, "a\nb\r\n\rc");
	cr_assert_eq(lines_of(places, lines, N), 0);
	for (size_t i = 0; i < N; i++)
		cr_expect_eq(lines[i], expected[i], "%u: %u", places[i], lines[i]);
	cr_expect_eq(line_of(7), 4, "behind the last character");
	vm_init(&machine, "a\r");
	cr_expect_eq(line_of(1), 1);
	cr_expect_eq(line_of(2), 2);
}

Test(v8_lines, two_bytes)
{
	static const uint16_t text[] = {'a', 0x2028, 'b', 0x2029, 0x0a0a, '\n', 'c'};

	vm_init(&machine, "");
	vm_string(&machine, VM_STRING, VM_TWO_BYTE, ARRAY_SIZE(text), 0, 0);
	memcpy(machine.bytes + VM_STRING + 16, text, sizeof text);
	cr_expect_eq(line_of(1), 1);
	cr_expect_eq(line_of(2), 2);
	cr_expect_eq(line_of(5), 3);
	cr_expect_eq(line_of(6), 4);
}

/* A text that is read in several pieces, whose borders lie in it. */
Test(v8_lines, long_text)
{
	const uint32_t length = 50000;

	vm_init(&machine, "");
	vm_string(&machine, VM_STRING, VM_EXTERNAL | VM_ONE_BYTE, length, 1, VM_BASE + VM_TEXT);
	for (uint32_t i = 0; i < length; i++)
		machine.bytes[VM_TEXT + i] = i % 4 == 3 ? '\n' : i % 4 == 2 ? '\r' : 'x';
	for (uint32_t place = 16380; place < 16390; place++)
		cr_expect_eq(line_of(place), 1 + place / 4);
	cr_expect_eq(line_of(length - 1), length / 4);
}

Test(v8_lines, strings_that_stand_for_others)
{
	vm_init(&machine, "");
	vm_string(&machine, VM_OTHER, VM_EXTERNAL | VM_ONE_BYTE, 3, 1, VM_BASE + VM_TEXT);
	memcpy(machine.bytes + VM_TEXT, "\n\nx", 3);
	vm_string(&machine, VM_STRING, VM_CONS, 3, VM_BASE + VM_OTHER + 1, VM_BASE + VM_EMPTY + 1);
	cr_expect_eq(line_of(2), 3);
	vm_string(&machine, VM_STRING, VM_THIN, 3, VM_BASE + VM_OTHER + 1, 0);
	cr_expect_eq(line_of(2), 3);
	vm_string(&machine, VM_STRING, VM_CONS, 6, VM_BASE + VM_OTHER + 1, VM_BASE + VM_OTHER + 1);
	cr_expect_eq(line_of(2), 0, "two parts");
	vm_string(&machine, VM_STRING, VM_THIN, 3, VM_BASE + VM_STRING + 1, 0);
	cr_expect_eq(line_of(2), 0, "itself");
	vm_string(&machine, VM_STRING, VM_SLICED, 3, VM_BASE + VM_OTHER + 1, 0);
	cr_expect_eq(line_of(2), 0);
	vm_string(&machine, VM_STRING, VM_EXTERNAL | VM_ONE_BYTE | 16, 3, 1, VM_BASE + VM_TEXT);
	cr_expect_eq(line_of(2), 0, "its characters are not known");
}

/* A script that is a part of another file. */
Test(v8_lines, first_line)
{
	vm_init(&machine, "a\nb");
	vm_put(&machine, VM_SCRIPT + 24, 10ull << 32);
	cr_expect_eq(line_of(2), 12);
	vm_put(&machine, VM_SCRIPT + 24, (uint64_t)-5 << 32);
	cr_expect_eq(line_of(2), 0, "before the first line");
	vm_put(&machine, VM_SCRIPT + 24, VM_BASE + 1);
	cr_expect_eq(line_of(2), 0, "no number");
}

/* What does not check gives no line. */
Test(v8_lines, doubts)
{
	uint32_t place = 2, line;

	vm_init(&machine, "a\nb");
	cr_expect_eq(line_of(2), 2);
	vm_put(&machine, VM_SCRIPT + 64, VM_ID + 1);
	cr_expect_eq(lines_of(&place, &line, 1), -ESTALE, "another script");
	vm_init(&machine, "a\nb");
	vm_object(&machine, VM_SCRIPT, VM_SCRIPT_TYPE + 1);
	cr_expect_eq(lines_of(&place, &line, 1), -ESTALE, "no script");
	vm_init(&machine, "a\nb");
	vm_put(&machine, VM_SCRIPT, VM_BASE + VM_OTHER);
	cr_expect_eq(lines_of(&place, &line, 1), -ESTALE, "it is being moved");
	vm_init(&machine, "a\nb");
	vm_object(&machine, VM_STRING, VM_SCRIPT_TYPE);
	cr_expect_eq(lines_of(&place, &line, 1), -ENOTSUP, "no text");
	vm_init(&machine, "a\nb");
	vm_put(&machine, VM_STRING + 8, ~0ull);
	place = VM_BYTES;
	cr_expect_eq(lines_of(&place, &line, 1), -EFAULT, "not all of it is there");
	cr_expect_eq(line, 0);
}

/* Another script takes the memory at any time. */
Test(v8_lines, replaced)
{
	uint32_t place = 2, line;

	for (unsigned reads = 1; reads < 6; reads++) {
		vm_init(&machine, "a\nb");
		machine.changes_after = reads;
		cr_expect_eq(lines_of(&place, &line, 1), -ESTALE, "%u", reads);
		cr_expect_eq(line, 0);
	}
}

Test(v8_lines, bounded)
{
	struct v8_memory memory = vm_memory(&machine);
	const uint32_t place = 40000;
	uint32_t line;

	vm_init(&machine, "");
	vm_string(&machine, VM_STRING, VM_EXTERNAL | VM_ONE_BYTE, 50000, 1, VM_BASE + VM_TEXT);
	memory.left = 30000;
	cr_expect_eq(v8_lines_read(&memory, &vm_layout, &vm_script, &place, &line, NULL, 1), -E2BIG);
	cr_expect_eq(line, 0);
}
