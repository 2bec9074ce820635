// SPDX-License-Identifier: Apache-2.0
/* A job that looks at code in the memory of a V8 (v8_code_memory.h), run by its caller. */
#include "agent/unwind/v8_code_job.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "agent/elf/runtime/hotspot_names.h"
#include "agent/parser/parser.h"
#include "tests/support/v8_code_memory.h"

#define FILE_INDEX 7
#define BIAS 0x1000ull

static uint8_t bytes[CODE_BYTES];
static struct buf records, reports;

/* As agent/unwind/runtime_walk.c makes it. */
static struct v8_process process_of(void)
{
	const struct v8_layout *l = &code_layout;

	return (struct v8_process){
		.walk = {.salt = 5,
			 .bias = BIAS,
			 .runtime = RUNTIME_V8,
			 .layout = FILE_INDEX,
			 .shape = RUNTIME_SHAPE_NATIVE,
			 .v8 = {.function_shared = l->function_shared,
				.shared_name = l->shared_name,
				.shared_script = l->shared_script,
				.shared_literal = (uint16_t)(l->shared_flags + 4),
				.script_source = l->script_source,
				.script_name = l->script_name,
				.script_id = l->script_id,
				.map_type = l->map_type,
				.shared_type = l->shared_type,
				.script_type = l->script_type,
				.scope_type = l->scope_type}},
		.layout = *l,
	};
}

static int run(const struct vm_wanted *wanted, size_t n)
{
	const struct v8_process process = process_of();
	struct parser_session session = {0};
	_cleanup_close_ int fd = memfd_create("memory", MFD_CLOEXEC);
	int r;

	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, bytes, CODE_BYTES, (off_t)CODE_BASE), (ssize_t)CODE_BYTES);
	buf_clear(&records);
	buf_clear(&reports);
	r = v8_code_job_run(&session, fd, &process, wanted, n, &records, &reports);
	parser_session_end(&session);
	return r;
}

static void fini(void)
{
	buf_fini(&records);
	buf_fini(&reports);
}

/* The next record, and its numbers of functions. Returns how many these are. */
static size_t next_record(struct flat_reader *from, struct vm_found *f, uint64_t *numbers, size_t max)
{
	struct flat_reader names;
	uint64_t n;

	flat_get(from, f, sizeof *f);
	names.at = flat_bytes(from, f->name_bytes);
	cr_assert_not(from->bad);
	if (!f->name_bytes)
		return 0;
	names = flat_read(names.at, f->name_bytes);
	n = flat_u64(&names);
	cr_assert_leq(n, max);
	(void)flat_u64(&names);
	(void)flat_u64(&names);
	for (size_t i = 0; i < n; i++) {
		numbers[i] = flat_u64(&names);
		cr_expect_str_empty(flat_string(&names));
		cr_expect_str_empty(flat_string(&names));
	}
	return n;
}

static void expect_report(struct flat_reader *from, uint64_t number, const char *name)
{
	const uint64_t len = flat_u64(from);
	const uint8_t *report = flat_bytes(from, len);
	struct runtime_code head;
	uint32_t text[2];

	cr_assert_not_null(report);
	memcpy(&head, report, sizeof head);
	cr_expect_eq(head.kind, RUNTIME_REPORT_CODE);
	cr_expect_eq(head.runtime, RUNTIME_V8);
	cr_expect_eq(head.layout, FILE_INDEX);
	cr_expect_eq(head.bias, BIAS);
	cr_expect_eq(head.number, number);
	cr_expect_eq(head.type, code_smi(9));
	memcpy(text, report + sizeof head, sizeof text);
	cr_expect_eq(text[0], strlen(name));
	cr_expect_eq(memcmp(report + sizeof head + 8, name, strlen(name)), 0, "%s", name);
}

Test(v8_code_job, functions_of_code_are_numbered_and_reported_once, .fini = fini)
{
	const struct vm_wanted wanted[] = {{.address = CODE_BASE + CODE_START + 9, .wish = VM_WANT_CODE},
					   {.address = CODE_BASE + CODE_START + 70, .wish = VM_WANT_CODE}};
	struct flat_reader from;
	uint64_t numbers[4];
	struct vm_found f;

	code_init(bytes);
	cr_assert_eq(run(wanted, 2), 0);
	from = flat_read(records.data, records.len);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(next_record(&from, &f, numbers, 4), 3);
		cr_expect_eq(f.answer, VM_CODE);
		cr_expect_eq(f.address, wanted[i].address);
		cr_expect_eq(f.start, CODE_BASE + CODE_START);
		cr_expect_eq(f.end, CODE_BASE + CODE_START + CODE_SIZE);
	}
	cr_expect(numbers[0] && numbers[1] && numbers[2]);
	cr_expect(numbers[0] != numbers[1] && numbers[1] != numbers[2]);
	from = flat_read(reports.data, reports.len);
	expect_report(&from, numbers[1], "third");
	expect_report(&from, numbers[2], "second");
	cr_expect(flat_done(&from));
}

Test(v8_code_job, code_is_the_same_or_not, .fini = fini)
{
	struct vm_wanted wanted = {.address = CODE_BASE + CODE_START, .wish = VM_WANT_CODE};
	struct flat_reader from;
	uint64_t numbers[4];
	struct vm_found f;

	code_init(bytes);
	cr_assert_eq(run(&wanted, 1), 0);
	from = flat_read(records.data, records.len);
	next_record(&from, &f, numbers, 4);
	wanted = (struct vm_wanted){
		.address = f.start, .end = f.end, .wish = VM_WANT_CHECK, .compile_id = f.compile_id};
	cr_assert_eq(run(&wanted, 1), 0);
	memcpy(&f, records.data, sizeof f);
	cr_expect_eq(f.answer, VM_SAME);
	/* the script has another number: so has the function */
	code_put(bytes, CODE_SCRIPT + 64, code_smi(10));
	cr_assert_eq(run(&wanted, 1), 0);
	memcpy(&f, records.data, sizeof f);
	cr_expect_eq(f.answer, VM_NOTHING);
	code_init(bytes);
	code_put(bytes, CODE_OBJECT + 8, code_pointer(CODE_POSITIONS));
	cr_assert_eq(run(&wanted, 1), 0);
	memcpy(&f, records.data, sizeof f);
	cr_expect_eq(f.answer, VM_NOTHING);
}

Test(v8_code_job, a_function_that_cannot_be_read_is_not_shown, .fini = fini)
{
	const struct vm_wanted wanted = {.address = CODE_BASE + CODE_START, .wish = VM_WANT_CODE};
	struct flat_reader from;
	uint64_t numbers[4];
	struct vm_found f;

	code_init(bytes);
	code_object(bytes, CODE_NAME(2), CODE_SCRIPT_TYPE);
	cr_assert_eq(run(&wanted, 1), 0);
	from = flat_read(records.data, records.len);
	cr_expect_eq(next_record(&from, &f, numbers, 4), 1);
	cr_expect_neq(numbers[0], 0);
}

Test(v8_code_job, what_is_no_code_is_remembered, .fini = fini)
{
	const struct vm_wanted wanted = {.address = CODE_BASE + 0x4000, .wish = VM_WANT_CODE};
	struct flat_reader from;
	uint64_t numbers[4];
	struct vm_found f;

	code_init(bytes);
	cr_assert_eq(run(&wanted, 1), 0);
	from = flat_read(records.data, records.len);
	cr_expect_eq(next_record(&from, &f, numbers, 4), 1);
	cr_expect_eq(numbers[0], 0);
	cr_expect_eq(f.start, wanted.address);
	cr_expect_eq(f.end, wanted.address + 1);
	cr_expect_eq(run(&wanted, V8_CODE_WISHES_MAX + 1), -EINVAL);
}
