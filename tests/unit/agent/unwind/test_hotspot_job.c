// SPDX-License-Identifier: Apache-2.0
/*
 * A job that looks at the memory of a HotSpot (hotspot_machine.h), run by its caller, and what it may
 * answer.
 */
#include "agent/unwind/hotspot_job.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/elf/code/hotspot_rows.h"
#include "agent/parser/parser.h"
#include "tests/support/hotspot_machine.h"
#include "tests/unit/machine.h"

/* The memory as a file, in which an offset is an address, as in /proc/PID/mem. */
static int memory_file(const struct hotspot_machine *m)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(pwrite(fd, m->bytes, HM_BYTES, (off_t)HM_BASE), (ssize_t)HM_BYTES);
	return fd;
}

static const struct vm_wanted wanted[] = {
	{.address = HM_BASE + HM_NMETHOD_CODE + 9, .wish = VM_WANT_CODE},
	{.address = HM_BASE + HM_INTERPRETER + 1, .wish = VM_WANT_CODE},
	{.address = HM_BASE + HM_CODE, .wish = VM_WANT_CODE},
	{.address = HM_BASE + HM_INLINED, .wish = VM_WANT_METHOD},
	{.address = HM_BASE + HM_STRINGS_AT, .wish = VM_WANT_METHOD},
	{.address = HM_BASE + HM_NMETHOD_CODE,
	 .end = HM_BASE + HM_NMETHOD_CODE + 23,
	 .wish = VM_WANT_CHECK,
	 .compile_id = 77},
	{.address = HM_BASE + HM_NMETHOD_CODE,
	 .end = HM_BASE + HM_NMETHOD_CODE + 23,
	 .wish = VM_WANT_CHECK,
	 .compile_id = 76},
	{.address = HM_BASE + HM_NMETHOD_CODE,
	 .end = HM_BASE + HM_NMETHOD_CODE + 22,
	 .wish = VM_WANT_CHECK,
	 .compile_id = 77},
	{.address = HM_BASE + HM_CODE, .end = HM_BASE + HM_CODE + 9, .wish = VM_WANT_CHECK},
	{.address = HM_BASE + HM_CODE, .end = HM_NMETHOD_CODE, .wish = VM_WANT_CHECK},
};

static void check_code(const struct vm_record *x)
{
	cr_expect_eq(x->found.start, HM_BASE + HM_NMETHOD_CODE);
	cr_expect_eq(x->found.end, HM_BASE + HM_NMETHOD_CODE + 23);
	cr_expect_eq(x->found.kind, HOTSPOT_CODE_METHOD);
	cr_expect_eq(x->found.compile_id, 77);
	cr_assert_eq(x->rows.n, 5);
	cr_expect_eq(x->rows.v[2].rule.cfa_off, 32);
	cr_expect_gt(x->found.name_bytes, 0);
}

Test(hotspot_job, answers)
{
	ONLY_ON_X86_64("the code");
	static const enum vm_answer answers[] = {VM_CODE, VM_CODE,    VM_EMPTY,	  VM_METHOD, VM_NOTHING,
						 VM_SAME, VM_NOTHING, VM_NOTHING, VM_EMPTY,  VM_NOTHING};

	for (int outside = 0; outside <= 1; outside++) {
		_cleanup_hotspot_machine_ struct hotspot_machine m;
		_cleanup_buf_ struct buf answer = {0};
		struct hotspot_process p = {.vm = {HM_STRUCTS, HM_TYPES}};
		struct parser_session session = {0};
		struct flat_reader from;

		hm_init(&m, outside);
		p.mem = memory_file(&m);
		cr_assert_eq(hotspot_job_run(&session, &p, wanted, ARRAY_SIZE(wanted), &answer), 0);
		cr_expect_eq(p.layout.version, outside ? 25 : 17);
		from = flat_read(answer.data, answer.len);
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
			struct vm_record x = {0};

			cr_assert_eq(vm_record_next(&from, &x), 1, "%zu", i);
			cr_expect_eq(x.found.address, wanted[i].address, "%zu", i);
			cr_expect_eq(x.found.answer, answers[i], "%zu: %u", i, x.found.answer);
			if (i == 0)
				check_code(&x);
			memory_rows_fini(&x.rows);
		}
		cr_expect(flat_done(&from));
		/* with the layout that is known by now */
		buf_clear(&answer);
		cr_expect_eq(hotspot_job_run(&session, &p, wanted, 1, &answer), 0);
		parser_session_end(&session);
		close(p.mem);
	}
}

/* A machine that frees its method again and again, and gives its memory, and its class's, to another one. */
struct replacing {
	int mem;
	_Atomic bool stop;
};

static void store(int mem, uint32_t at, uint32_t value, size_t n)
{
	cr_assert_eq(pwrite(mem, &value, n, (off_t)(HM_BASE + at)), (ssize_t)n);
}

static void *replace(void *data)
{
	struct replacing *s = data;

	for (uint32_t id = 78; !s->stop; id++) {
		store(s->mem, HM_NMETHOD + 8, 0, 1);
		cr_assert_eq(pwrite(s->mem, id % 2 ? "run" : "sun", 3, (off_t)(HM_BASE + HM_SYMBOLS + 6)), 3);
		store(s->mem, HM_NMETHOD + 16 + 148, 0xff, 1);
		store(s->mem, HM_NMETHOD + 8, 1, 1);
		store(s->mem, HM_NMETHOD + 16 + 128, id, 4);
		store(s->mem, HM_NMETHOD + 16 + 148, 0, 1);
		usleep(100);
	}
	return NULL;
}

static bool has_name(const struct vm_record *x, const char *name)
{
	return memmem(x->names, x->found.name_bytes, name, strlen(name)) != NULL;
}

Test(hotspot_job, code_has_the_name_that_it_had_at_that_time)
{
	ONLY_ON_X86_64("the code");
	/* the first one reads the name */
	static const struct vm_wanted both[] = {{.address = HM_BASE + HM_METHOD, .wish = VM_WANT_METHOD},
						{.address = HM_BASE + HM_NMETHOD_CODE, .wish = VM_WANT_CODE}};
	_cleanup_hotspot_machine_ struct hotspot_machine m;
	struct hotspot_process p = {.vm = {HM_STRUCTS, HM_TYPES}};
	struct parser_session session = {0};
	unsigned found[2] = {0}, wrong = 0;
	struct replacing s = {0};
	pthread_t thread;

	hm_init(&m, false);
	p.mem = s.mem = memory_file(&m);
	cr_assert_eq(pthread_create(&thread, NULL, replace, &s), 0);
	for (unsigned i = 0; i < 100000 && (found[0] < 100 || found[1] < 100); i++) {
		_cleanup_buf_ struct buf answer = {0};
		struct flat_reader from;
		struct vm_record x = {0};

		cr_assert_eq(hotspot_job_run(&session, &p, both, 2, &answer), 0);
		from = flat_read(answer.data, answer.len);
		cr_assert_eq(vm_record_next(&from, &x), 1);
		memory_rows_fini(&x.rows);
		cr_assert_eq(vm_record_next(&from, &x), 1);
		cr_assert(x.found.answer == VM_CODE || x.found.answer == VM_EMPTY, "%u", x.found.answer);
		if (x.found.answer == VM_CODE) {
			found[x.found.compile_id % 2]++;
			wrong += !has_name(&x, x.found.compile_id % 2 ? "Work.run" : "Work.sun");
		}
		memory_rows_fini(&x.rows);
	}
	s.stop = true;
	pthread_join(thread, NULL);
	parser_session_end(&session);
	close(p.mem);
	cr_expect(found[0] >= 100 && found[1] >= 100, "%u and %u", found[0], found[1]);
	cr_expect_eq(wrong, 0, "%u of %u and %u", wrong, found[0], found[1]);
}

Test(hotspot_job, no_machine)
{
	struct hotspot_process p = {.vm = {HM_BASE + HM_SYMBOLS, HM_TYPES}};
	_cleanup_hotspot_machine_ struct hotspot_machine m;
	struct parser_session session = {0};
	_cleanup_buf_ struct buf answer = {0};

	hm_init(&m, false);
	p.mem = memory_file(&m);
	cr_expect_lt(hotspot_job_run(&session, &p, wanted, 1, &answer), 0);
	cr_expect_eq(p.layout.version, 0);
	cr_expect_eq(answer.len, 0);
	close(p.mem);
}

static int next(struct buf *b)
{
	struct flat_reader from = flat_read(b->data, b->len);
	struct vm_record x = {0};
	int r = vm_record_next(&from, &x);

	memory_rows_fini(&x.rows);
	return r;
}

Test(hotspot_job, records_that_are_none)
{
	const struct memory_row row = {0, {.cfa_kind = CFA_REG_OFF, .cfa_reg = 7, .cfa_off = 8}};
	const struct vm_found good = {
		.address = 0x1008, .start = 0x1000, .end = 0x1010, .answer = VM_CODE, .n_rows = 1};
	struct vm_found bad[] = {good, good, good, good, good, good, good};

	bad[0].answer = VM_ANSWERS;
	bad[1].kind = HOTSPOT_CODE_KINDS;
	bad[2].n_rows = 2;
	bad[3].name_bytes = 1;
	bad[4].end = bad[4].start;
	bad[5].address = 0x1010;
	bad[6].n_rows = 0;
	for (size_t i = 0; i <= ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf b = {0};

		buf_append(&b, i ? &bad[i - 1] : &good, sizeof good);
		buf_append(&b, &row, sizeof row);
		cr_expect_eq(next(&b), i ? -EBADMSG : 1, "%zu", i);
	}
}
