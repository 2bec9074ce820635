// SPDX-License-Identifier: Apache-2.0
/* A job that looks at the memory of a BEAM (beam_machine.h), run by its caller, and what it may answer. */
#include "agent/unwind/beam_job.h"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/parser/parser.h"
#include "tests/support/beam_machine.h"
#include "tests/unit/machine.h"

/* The memory as a file, in which an offset is an address, as in /proc/PID/mem. */
static int memory_file(const struct beam_machine *m)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, m->bytes, BM_BYTES, (off_t)BM_BASE), (ssize_t)BM_BYTES);
	return fd;
}

/* Runs wishes; *ret are the records, the first of which is in *first. Returns the job's result. */
static int run(struct beam_machine *m, struct beam_process *p, const struct vm_wanted *w, size_t n,
	       struct buf *ret)
{
	struct parser_session session = {0};
	int fd = memory_file(m), r;

	p->vm = m->vm;
	p->mem = fd;
	r = beam_job_run(&session, p, w, n, ret);
	parser_session_end(&session);
	close(fd);
	return r;
}

static struct vm_record next(struct flat_reader *from)
{
	struct vm_record x = {0};

	cr_assert_eq(vm_record_next(from, &x), 1);
	return x;
}

Test(beam_job, code_of_functions_of_the_exit_and_of_shared_pieces)
{
	ONLY_ON_X86_64("the code");
	static const struct vm_wanted wanted[] = {
		{.address = BM_BASE + BM_CODE + 60, .wish = VM_WANT_CODE},
		{.address = BM_BASE + BM_EXIT - 1, .wish = VM_WANT_CODE},
		{.address = BM_BASE + BM_SHARED + 2, .wish = VM_WANT_CODE},
		{.address = BM_BASE + BM_BYTES + 8, .wish = VM_WANT_CODE},
	};
	struct beam_process p = {0};
	struct beam_machine m;
	struct buf answer = {0};
	struct flat_reader from;
	struct vm_record x;

	bm_init(&m);
	cr_assert_eq(run(&m, &p, wanted, 4, &answer), 0);
	cr_expect_eq(p.layout.ranges, BM_BASE + BM_RANGES);
	from = flat_read(answer.data, answer.len);
	x = next(&from);
	cr_expect_eq(x.found.answer, VM_CODE);
	cr_expect_eq(x.found.start, BM_BASE + BM_CODE);
	cr_expect_eq(x.found.end, BM_BASE + BM_CODE + BM_FUNCTION_BYTES);
	cr_expect_gt(x.rows.n, 3);
	cr_expect_neq(x.found.compile_id, 0);
	memory_rows_fini(&x.rows);
	x = next(&from);
	cr_expect(x.found.start == BM_BASE + BM_EXIT - 1 && x.found.end == BM_BASE + BM_EXIT + 1);
	cr_assert_eq(x.rows.n, 1);
	cr_expect_eq(x.rows.v[0].rule.cfa_kind, CFA_UNDEFINED);
	memory_rows_fini(&x.rows);
	x = next(&from);
	cr_expect(x.found.start == BM_BASE + BM_SHARED && x.found.end == BM_BASE + BM_EXIT - 1,
		  "the exit is not a part of it");
	memory_rows_fini(&x.rows);
	x = next(&from);
	cr_expect_eq(x.found.answer, VM_NOTHING);
	buf_fini(&answer);
	bm_free(&m);
}

Test(beam_job, code_that_has_changed_is_found_out)
{
	ONLY_ON_X86_64("the code");
	struct vm_wanted w = {.address = BM_BASE + BM_CODE + 60, .wish = VM_WANT_CODE};
	struct beam_process p = {0};
	struct beam_machine m;
	struct buf answer = {0};
	struct flat_reader from;
	struct vm_record x;

	bm_init(&m);
	cr_assert_eq(run(&m, &p, &w, 1, &answer), 0);
	from = flat_read(answer.data, answer.len);
	x = next(&from);
	w = (struct vm_wanted){.address = x.found.start,
			       .end = x.found.end,
			       .wish = VM_WANT_CHECK,
			       .compile_id = x.found.compile_id};
	memory_rows_fini(&x.rows);
	for (int changed = 0; changed < 3; changed++) {
		if (changed == 1)
			m.bytes[BM_CODE + 70] ^= 1; /* the code */
		if (changed == 2) {
			m.bytes[BM_CODE + 70] ^= 1;
			bm_put(&m, BM_CODE + 24, BM_ATOM(BM_ROOT)); /* another function's */
		}
		buf_clear(&answer);
		cr_assert_eq(run(&m, &p, &w, 1, &answer), 0);
		from = flat_read(answer.data, answer.len);
		x = next(&from);
		cr_expect_eq(x.found.answer, changed ? VM_NOTHING : VM_SAME, "%d", changed);
	}
	buf_fini(&answer);
	bm_free(&m);
}

Test(beam_job, frame_records_are_there_behind_calls)
{
	ONLY_ON_X86_64("the code");
	/* what a debugger changes; push rbp; mov rbp, rsp; call; leave; ret */
	static const uint8_t record[] = {0xeb, 0x06, 0x00, 0xe8, 1, 2, 3, 4,	0x55, 0x48,
					 0x89, 0xe5, 0xe8, 0,	 0, 0, 0, 0xc9, 0xc3};
	const struct vm_wanted w = {.address = BM_BASE + BM_CODE + 52, .wish = VM_WANT_CODE};
	struct beam_process p = {0};
	struct beam_machine m;
	struct buf answer = {0};
	struct flat_reader from;
	struct vm_record x;
	bool at_return = false;

	bm_init(&m);
	bm_put(&m, BM_LAYOUT, 1);
	memcpy(m.bytes + BM_CODE + BEAM_INFO_BYTES, record, sizeof record);
	cr_assert_eq(run(&m, &p, &w, 1, &answer), 0);
	cr_expect_eq(p.layout.records, 1);
	from = flat_read(answer.data, answer.len);
	x = next(&from);
	for (size_t i = 0; i < x.rows.n; i++)
		at_return |= x.rows.v[i].off == BEAM_INFO_BYTES + 18 &&
			     x.rows.v[i].rule.cfa_kind == CFA_REG_OFF && x.rows.v[i].rule.cfa_off == 8;
	cr_expect(at_return);
	memory_rows_fini(&x.rows);
	buf_fini(&answer);
	bm_free(&m);
}
