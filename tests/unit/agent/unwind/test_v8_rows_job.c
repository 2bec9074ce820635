// SPDX-License-Identifier: Apache-2.0
/* A job that makes the rows of code in the memory of a V8 (v8_code_memory.h), run by its caller. */
#include "agent/unwind/v8_rows_job.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/parser/parser.h"
#include "agent/unwind/vm_job.h"
#include "tests/support/v8_code_memory.h"
#include "tests/unit/machine.h"

static uint8_t bytes[CODE_BYTES];
static struct buf records;

static int run(const struct vm_wanted *wanted, size_t n)
{
	struct parser_session session = {0};
	_cleanup_close_ int fd = memfd_create("memory", MFD_CLOEXEC);
	int r;

	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, bytes, CODE_BYTES, (off_t)CODE_BASE), (ssize_t)CODE_BYTES);
	buf_clear(&records);
	r = v8_rows_job_run(&session, fd, &code_layout, wanted, n, &records);
	parser_session_end(&session);
	return r;
}

static void fini(void)
{
	buf_fini(&records);
}

/* push rbp; mov rbp, rsp; jmp *rbx; then what looks like another function; what is left are calls. */
static void init(void)
{
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xe3, 0xcc, 0xcc, 0xcc, 0xcc,
				       0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0x53, 0xff, 0xd1};

	code_init(bytes);
	memset(bytes + CODE_START, 0x90, CODE_SIZE);
	memcpy(bytes + CODE_START, code, sizeof code);
}

Test(v8_rows_job, code_is_one_function_from_where_its_object_says, .fini = fini)
{
	const struct vm_wanted wanted[] = {{.address = CODE_BASE + CODE_START + 18, .wish = VM_WANT_CODE},
					   {.address = CODE_BASE + CODE_START - 1, .wish = VM_WANT_CODE},
					   {.address = CODE_BASE + CODE_START, .wish = VM_WANT_CODE}};
	struct flat_reader from;
	struct vm_record x;

	ONLY_ON_X86_64("the code");
	init();
	cr_assert_eq(run(wanted, 3), 0);
	from = flat_read(records.data, records.len);
	for (size_t i = 0; i < 3; i++) {
		cr_assert_eq(vm_record_next(&from, &x), 1);
		cr_expect_eq(x.found.address, wanted[i].address);
		cr_expect_eq(x.found.answer, i == 1 ? VM_NOTHING : VM_CODE);
		if (i == 1)
			continue;
		cr_expect_eq(x.found.start, CODE_BASE + CODE_START);
		cr_expect_eq(x.found.end, CODE_BASE + CODE_START + CODE_SIZE);
		cr_assert_eq(x.rows.n, 3);
		cr_expect_eq(x.rows.v[2].off, 4);
		cr_expect_eq(x.rows.v[2].rule.cfa_reg, 6, "the record, to the end");
		cr_expect_eq(x.rows.v[2].rule.flags, RULE_CHECKED, "the code may be freed");
		memory_rows_fini(&x.rows);
	}
	cr_expect_eq(vm_record_next(&from, &x), 0);
}

Test(v8_rows_job, code_is_the_same_or_not, .fini = fini)
{
	struct vm_wanted wanted = {.address = CODE_BASE + CODE_START, .wish = VM_WANT_CODE};
	struct vm_found f;

	ONLY_ON_X86_64("the code");
	init();
	cr_assert_eq(run(&wanted, 1), 0);
	memcpy(&f, records.data, sizeof f);
	wanted = (struct vm_wanted){
		.address = f.start, .end = f.end, .wish = VM_WANT_CHECK, .compile_id = f.compile_id};
	cr_assert_eq(run(&wanted, 1), 0);
	memcpy(&f, records.data, sizeof f);
	cr_expect_eq(f.answer, VM_SAME);
	code_put(bytes, CODE_OBJECT + 8, code_pointer(CODE_POSITIONS));
	cr_assert_eq(run(&wanted, 1), 0);
	memcpy(&f, records.data, sizeof f);
	cr_expect_eq(f.answer, VM_NOTHING);
}

Test(v8_rows_job, more_wishes_than_there_may_be, .fini = fini)
{
	static struct vm_wanted wanted[VM_WANTED_MAX + 1];

	init();
	cr_expect_eq(run(wanted, VM_WANTED_MAX + 1), -EINVAL);
}
