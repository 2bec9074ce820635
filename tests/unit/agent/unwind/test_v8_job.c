// SPDX-License-Identifier: Apache-2.0
/* A job that counts lines in the memory of a V8 (v8_memory.h), run by its caller. */
#include "agent/unwind/v8_job.h"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/parser/parser.h"
#include "tests/support/v8_memory.h"

static struct v8_machine machine;

/* The memory as a file, in which an offset is an address, as in /proc/PID/mem. */
static int memory_file(void)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, machine.bytes, VM_BYTES, (off_t)VM_BASE), (ssize_t)VM_BYTES);
	return fd;
}

Test(v8_job, lines_in_any_order)
{
	struct v8_line_wish wishes[] = {
		{.number = 1, .script = vm_script, .place = 4},
		{.number = 2, .script = {vm_script.address, VM_ID + 1}, .place = 4},
		{.number = 3, .script = vm_script, .place = 0},
		{.number = 4, .script = {vm_script.address + 8, VM_ID}, .place = 2},
		{.number = 5, .script = vm_script, .place = 2},
		{.number = 6, .script = vm_script, .place = 2},
		{.number = 7, .script = vm_script, .place = 99},
	};
	static const uint32_t expected[ARRAY_SIZE(wishes)] = {3, 0, 1, 0, 2, 2, 0};
	struct parser_session session = {0};
	_cleanup_close_ int fd = -1;

	vm_init(&machine, "a\nb\nc");
	fd = memory_file();
	cr_assert_eq(v8_job_run(&session, fd, &vm_layout, wishes, ARRAY_SIZE(wishes)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(wishes); i++) {
		cr_expect_eq(wishes[i].line, expected[i], "%zu: %u", i, wishes[i].line);
		cr_expect_eq(wishes[i].number, i + 1);
	}
	parser_session_end(&session);
}

Test(v8_job, members)
{
	struct v8_line_wish wishes[] = {
		{.number = 1, .script = vm_script, .place = 27},
		{.number = 2, .script = vm_script, .place = 14},
		{.number = 3, .script = vm_script, .place = 15},
	};
	struct parser_session session = {0};
	_cleanup_close_ int fd = -1;

	vm_init(&machine, "class A {\n run() {}\n static to() {} }");
	fd = memory_file();
	cr_assert_eq(v8_job_run(&session, fd, &vm_layout, wishes, ARRAY_SIZE(wishes)), 0);
	cr_expect_eq(wishes[0].line, 3);
	cr_expect_eq(wishes[1].line, 2);
	cr_expect_str_empty(wishes[0].member.class_name, "not where its parameters are");
	cr_expect_str_eq(wishes[1].member.class_name, "A");
	cr_expect_eq(wishes[1].member.hash, v8_member_hash("run", 3));
	cr_expect_str_empty(wishes[2].member.class_name);
	parser_session_end(&session);
}

Test(v8_job, refuses)
{
	static struct v8_line_wish many[V8_WISHES_MAX + 1];
	struct parser_session session = {0};

	cr_expect_eq(v8_job_run(&session, -1, &vm_layout, many, V8_WISHES_MAX + 1), -EINVAL);
	cr_expect_lt(v8_job_run(&session, -1, &vm_layout, many, 1), 0);
	parser_session_end(&session);
}
