// SPDX-License-Identifier: Apache-2.0
/* A job that looks at the memory of a .NET (dotnet_machine.h), run by its caller, and what it may answer. */
#include "agent/unwind/dotnet_job.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/parser/parser.h"
#include "tests/support/dotnet_machine.h"
#include "tests/support/pdb_file.h"
#include "tests/unit/machine.h"

/* Runs one wish on memory that is read from `mem`, which is closed. */
static int run_on(struct buf *answer, const struct dotnet_machine *m, const struct vm_wanted *w, int mem)
{
	struct parser_session session = {0};
	struct dotnet_process p = {.vm = m->reader->vm, .pid = (uint32_t)getpid(), .mem = mem};
	int r = dotnet_job_run(&session, &p, w, 1, answer);

	parser_session_end(&session);
	close(mem);
	return r;
}

/* The same on the machine's as a file, in which an offset is an address, as in /proc/PID/mem. */
static int run(const struct dotnet_machine *m, const struct vm_wanted *w, struct vm_record *ret)
{
	_cleanup_buf_ struct buf answer = {0};
	int mem = memfd_create("memory", MFD_CLOEXEC), r;
	struct flat_reader from;

	cr_assert_eq(pwrite(mem, m->bytes, DM_BYTES, (off_t)DM_BASE), (ssize_t)DM_BYTES);
	r = run_on(&answer, m, w, mem);
	if (r < 0)
		return r;
	from = flat_read(answer.data, answer.len);
	cr_assert_eq(vm_record_next(&from, ret), 1);
	ret->names = NULL; /* of the answer, which is gone */
	return 0;
}

Test(dotnet_job, code_of_methods_of_stubs_and_of_thunks)
{
	ONLY_ON_X86_64("the code");
	static const struct {
		uint32_t at, start, end;
		size_t rows;
	} cases[] = {
		{DM_FIRST + 8, DM_FIRST, DM_FIRST + 0x40, 4},
		{DM_IMAGE + DM_READY_CODE, DM_IMAGE + DM_READY_CODE,
		 DM_IMAGE + DM_READY_CODE + DM_FUNCTION_BYTES, 4},
		{DM_STUBS + 8, DM_STUBS, DM_STUBS_END, 1},
		{DM_THUNK + 3, DM_THUNK + 3, DM_THUNK + 6, 1}, /* from there on */
	};
	struct dotnet_machine m;

	dm_init(&m);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct vm_wanted w = {.address = DM_BASE + cases[i].at, .wish = VM_WANT_CODE};
		struct vm_record x = {0};

		cr_assert_eq(run(&m, &w, &x), 0, "%zu", i);
		cr_expect_eq(x.found.answer, VM_CODE, "%zu", i);
		cr_expect_eq(x.found.start, DM_BASE + cases[i].start, "%zu", i);
		cr_expect_eq(x.found.end, DM_BASE + cases[i].end, "%zu", i);
		cr_expect_eq(x.rows.n, cases[i].rows, "%zu: %zu", i, x.rows.n);
		memory_rows_fini(&x.rows);
	}
	dm_free(&m);
}

Test(dotnet_job, code_that_has_changed_is_found_out)
{
	ONLY_ON_X86_64("the code");
	struct vm_wanted w = {.address = DM_BASE + DM_FIRST, .wish = VM_WANT_CODE};
	struct dotnet_machine m;
	struct vm_record x = {0};

	dm_init(&m);
	cr_assert_eq(run(&m, &w, &x), 0);
	w = (struct vm_wanted){.address = x.found.start,
			       .end = x.found.end,
			       .wish = VM_WANT_CHECK,
			       .compile_id = x.found.compile_id};
	memory_rows_fini(&x.rows);
	for (int changed = 0; changed < 3; changed++) {
		if (changed == 1)
			m.bytes[DM_FIRST + 10] ^= 1; /* the code */
		if (changed == 2) {
			m.bytes[DM_FIRST + 10] ^= 1;
			dm_put_address(&m, DM_HEADERS + 24, DM_METHODS + 24 + 64); /* of another method */
		}
		cr_assert_eq(run(&m, &w, &x), 0);
		cr_expect_eq(x.found.answer, changed ? VM_NOTHING : VM_SAME, "%d", changed);
	}
	dm_free(&m);
}

/* A method without metadata whose object, code and name are where those of another one were. */
Test(dotnet_job, another_method_in_the_same_place)
{
	ONLY_ON_X86_64("the code");
	struct vm_wanted w = {.address = DM_BASE + DM_DYNAMIC, .wish = VM_WANT_CODE};
	struct dotnet_machine m;
	struct vm_record x = {0};

	dm_init(&m);
	dm_put(&m, DM_SECTIONS + 16, 3, 4);
	cr_assert_eq(run(&m, &w, &x), 0);
	cr_expect_eq(x.found.freed, 1);
	w = (struct vm_wanted){.address = x.found.start,
			       .end = x.found.end,
			       .wish = VM_WANT_CHECK,
			       .compile_id = x.found.compile_id};
	memory_rows_fini(&x.rows);
	cr_assert_eq(run(&m, &w, &x), 0);
	cr_expect_eq(x.found.answer, VM_SAME);
	m.bytes[DM_TEXT] ^= 1;
	cr_assert_eq(run(&m, &w, &x), 0);
	cr_expect_eq(x.found.answer, VM_NOTHING);
	dm_free(&m);
}

Test(dotnet_job, what_is_not_there_is_nothing)
{
	const struct vm_wanted w = {.address = DM_BASE + DM_BYTES + 8, .wish = VM_WANT_CODE};
	struct dotnet_machine m;
	struct vm_record x = {0};

	dm_init(&m);
	cr_assert_eq(run(&m, &w, &x), 0);
	cr_expect_eq(x.found.answer, VM_NOTHING);
	dm_put(&m, DM_DAC, 0, 8);
	cr_expect_eq(run(&m, &w, &x), -EAGAIN);
	dm_free(&m);
}

/* Writes a file, and returns its descriptor. */
static int file_with(const char *path, const void *bytes, size_t n)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	cr_assert_eq(write(fd, bytes, n), (ssize_t)n);
	return fd;
}

static void map(uint64_t address, size_t bytes, int flags, int fd)
{
	cr_assert_neq(mmap((void *)address, bytes, PROT_READ | PROT_WRITE, flags, fd, 0), MAP_FAILED);
}

/* Makes the machine's memory this process's, with the assembly from a file. */
static void become(const struct dotnet_machine *m, const char *assembly)
{
	int fd = file_with(assembly, m->bytes + DM_FILE, DM_IMAGE_BYTES);

	map(DM_BASE, DM_BYTES, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1);
	memcpy((void *)DM_BASE, m->bytes, DM_BYTES);
	map(DM_BASE + DM_FILE, DM_IMAGE_BYTES, MAP_PRIVATE | MAP_FIXED, fd);
	close(fd);
}

static void expect_lines(struct flat_reader names)
{
	static const uint64_t numbers[] = {1, 2, 2, 0}; /* a method, two scopes, two places; at no address */
	struct hotspot_place places[2];
	struct hotspot_scope scopes[2];

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		cr_expect_eq(flat_u64(&names), numbers[i], "%zu", i);
	cr_expect_str_eq(flat_string(&names), "Demo.Outer.Run");
	cr_expect_str_eq(flat_string(&names), "/src/Main.cs");
	flat_get(&names, scopes, sizeof scopes);
	flat_get(&names, places, sizeof places);
	cr_expect(flat_done(&names));
	cr_expect_eq(scopes[0].line, 10);
	cr_expect_eq(scopes[1].line, 12);
	cr_expect_eq(places[0].end, 3); /* its last byte */
	cr_expect_eq(places[1].end, 0x3f);
}

Test(dotnet_job, lines_from_a_file_beside_the_assembly)
{
	ONLY_ON_X86_64("the code");
	char folder[] = "/tmp/proflet-lines-XXXXXX", assembly[64], file[64];
	const struct vm_wanted w = {.address = DM_BASE + DM_FIRST, .wish = VM_WANT_CODE};
	_cleanup_buf_ struct buf answer = {0};
	struct vm_record x = {0};
	struct dotnet_machine m;
	struct pdb_file lines;
	struct flat_reader from;

	pdb_init(&lines);
	dm_init(&m);
	dm_lines(&m, NULL, 0, 0);
	cr_assert_not_null(mkdtemp(folder));
	snprintf(assembly, sizeof assembly, "%s/Demo.dll", folder);
	snprintf(file, sizeof file, "%s/" DM_LINES_NAME, folder);
	close(file_with(file, lines.bytes, lines.n));
	become(&m, assembly);
	cr_assert_eq(run_on(&answer, &m, &w, open("/proc/self/mem", O_RDONLY | O_CLOEXEC)), 0);
	from = flat_read(answer.data, answer.len);
	cr_assert_eq(vm_record_next(&from, &x), 1);
	expect_lines(flat_read(x.names, x.found.name_bytes));
	memory_rows_fini(&x.rows);
	(void)unlink(assembly);
	(void)unlink(file);
	(void)rmdir(folder);
	dm_free(&m);
}
