// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/lib-names.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/symbol/batch.h"
#include "agent/symbol/symbol_cache.h"

#include "tests/unit/agent/elf/elf_file.h"

#define FILE_ID 7

/* Functions of this program, which is linked without PIE: their addresses are those of the ELF file. */
__attribute__((noinline, used)) static int plain_function(int x)
{
	return x * 3 + 1;
}

__attribute__((noinline, used)) static int cxx_function(int x) __asm__("_ZN4test6Thing_3runEi");
static int cxx_function(int x)
{
	return x * 5 + 1;
}

static uint64_t va_of(int (*function)(int))
{
	return (uint64_t)(uintptr_t)function;
}

static struct symbol_cache *cache_new(size_t max_bytes)
{
	struct symbol_cache *c = NULL;

	cr_assert_eq(symbol_cache_new(&c, max_bytes), 0);
	return c;
}

static struct symbol_cache_stats stats_of(const struct symbol_cache *c)
{
	struct symbol_cache_stats s;

	symbol_cache_get_stats(c, &s);
	return s;
}

static int job_new(struct symbol_job **ret, struct symbol_cache *c, uint32_t file_id, int fd)
{
	return symbol_job_new(ret, c, file_id, &(struct symbol_files){.fd = fd, .debug_fd = -1});
}

/* Resolves the collected addresses of the file on this thread. */
static void resolve_with(struct symbol_cache *c, uint32_t file_id, int fd)
{
	struct symbol_job *job = NULL;

	cr_assert_eq(job_new(&job, c, file_id, fd), 0);
	job->work.run(&job->work);
	symbol_cache_complete(c, job);
}

static int open_self(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	return fd;
}

Test(symbol_cache, names_of_this_program)
{
	struct symbol_cache *c = cache_new(1 << 20);
	_cleanup_close_ int fd = open_self();
	uint64_t plain = va_of(plain_function), cxx = va_of(cxx_function);
	struct symbol_name name;

	cr_expect_not(symbol_cache_find(c, FILE_ID, plain, &name));
	cr_expect_eq(symbol_cache_want(c, FILE_ID, plain + 1), 0);
	cr_expect_eq(symbol_cache_want(c, FILE_ID, cxx), 0);
	cr_expect_eq(symbol_cache_want(c, FILE_ID, cxx + 2), 0);
	cr_expect_eq(symbol_cache_want(c, FILE_ID, cxx), 0);
	cr_expect_eq(stats_of(c).n_wanted, 3, "asked for twice, collected once");
	resolve_with(c, FILE_ID, fd);
	cr_expect_eq(stats_of(c).n_wanted, 0);

	cr_assert(symbol_cache_find(c, FILE_ID, plain, &name),
		  "an address that was not asked for, of the same function");
	cr_expect_str_eq(name.function, "plain_function");
	cr_expect_null(name.system_name);
	cr_expect_eq(name.start, plain);
	cr_expect_gt(name.end, plain);
	cr_assert(symbol_cache_find(c, FILE_ID, cxx + 1, &name));
	cr_expect_str_eq(name.function, "test::Thing_::run");
	cr_expect_str_eq(name.system_name, "_ZN4test6Thing_3runEi");
	cr_expect_eq(stats_of(c).n_ranges, 2, "two functions, not three addresses");
	cr_expect_not(symbol_cache_find(c, FILE_ID + 1, plain, &name));
	symbol_cache_free(c);
}

/* Resolves addresses of the C library and of this program at the same time on a worker pool. */
Test(symbol_cache, on_worker_threads)
{
	struct symbol_cache *c = cache_new(1 << 20);
	void *libc = dlopen(LIBC_SO, RTLD_NOW), *function = libc ? dlsym(libc, "malloc") : NULL;
	_cleanup_close_ int self = open_self(), fd = -1;
	struct worker *w = NULL;
	struct symbol_name name;
	uint32_t file_id;
	unsigned n_jobs = 0;
	Dl_info info;

	cr_assert(function && dladdr(function, &info));
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(worker_new(&w, 2, 16, "test"), 0);
	symbol_cache_want(c, 1, (uint64_t)((char *)function - (char *)info.dli_fbase));
	symbol_cache_want(c, 2, va_of(plain_function));
	while (symbol_cache_next_wanted(c, &file_id)) {
		struct symbol_job *job = NULL;

		cr_assert_eq(job_new(&job, c, file_id, file_id == 1 ? fd : self), 0);
		cr_assert_eq(worker_submit(w, &job->work, WORKER_LOW), 0);
		n_jobs++;
	}
	cr_expect_eq(n_jobs, 2);
	worker_drain(w, 60 * NS_PER_SEC);
	cr_assert_eq(worker_pending(w), 0);
	cr_assert(symbol_cache_find(c, 1, (uint64_t)((char *)function - (char *)info.dli_fbase), &name));
	cr_expect(name.function && strstr(name.function, "malloc"), "%s",
		  name.function ? name.function : "no name");
	cr_assert(symbol_cache_find(c, 2, va_of(plain_function), &name));
	cr_expect_str_eq(name.function, "plain_function");
	worker_free(w);
	symbol_cache_free(c);
	dlclose(libc);
}

Test(symbol_cache, having_no_name_is_cached)
{
	struct symbol_cache *c = cache_new(1 << 20);
	_cleanup_close_ int fd = open_self();
	struct symbol_name name = {.function = "untouched"};
	uint32_t file_id;

	symbol_cache_want(c, FILE_ID, 0x10);
	resolve_with(c, FILE_ID, fd);
	cr_assert(symbol_cache_find(c, FILE_ID, 0x10, &name));
	cr_expect_null(name.function);
	cr_expect_null(name.system_name);
	cr_expect_not(symbol_cache_next_wanted(c, &file_id));
	cr_expect_eq(stats_of(c).n_unreadable, 0);
	symbol_cache_free(c);
}

Test(symbol_cache, a_file_that_cannot_be_read)
{
	struct symbol_cache *c = cache_new(1 << 20);
	_cleanup_close_ int fd = memfd_create("text", MFD_CLOEXEC);
	struct symbol_name name;
	uint32_t file_id;

	cr_assert_eq(write(fd, "#!/bin/sh\n", 10), 10);
	symbol_cache_want(c, FILE_ID, 0x1000);
	symbol_cache_want(c, FILE_ID, 0x1001);
	resolve_with(c, FILE_ID, fd);
	cr_assert(symbol_cache_find(c, FILE_ID, 0x1001, &name));
	cr_expect_null(name.function);
	cr_expect_eq(name.end - name.start, 1);
	cr_expect_not(symbol_cache_find(c, FILE_ID, 0x1002, &name), "nothing is said of other addresses");
	cr_expect_eq(stats_of(c).n_unreadable, 2);

	symbol_cache_want(c, FILE_ID, 0x2000);
	symbol_cache_give_up(c, FILE_ID);
	cr_expect(symbol_cache_find(c, FILE_ID, 0x2000, &name));
	cr_expect_eq(stats_of(c).n_unreadable, 3);
	cr_expect_not(symbol_cache_next_wanted(c, &file_id));
	symbol_cache_give_up(c, FILE_ID);
	symbol_cache_give_up(c, 12345);
	symbol_cache_free(c);
}

Test(symbol_cache, one_job_per_file_and_no_address_is_lost)
{
	struct symbol_cache *c = cache_new(1 << 20);
	_cleanup_close_ int fd = open_self();
	struct symbol_job *job = NULL, *other = NULL;
	struct symbol_name name;
	uint32_t file_id;

	cr_expect_eq(job_new(&job, c, FILE_ID, fd), -ENOENT);
	symbol_cache_want(c, FILE_ID, va_of(plain_function));
	cr_expect_eq(job_new(&job, c, FILE_ID, -1), -EBADF);
	cr_expect_eq(stats_of(c).n_wanted, 1, "nothing taken on error");
	cr_assert_eq(job_new(&job, c, FILE_ID, fd), 0);
	cr_expect_not(symbol_cache_next_wanted(c, &file_id));
	/* while the job runs: the same function, and another one */
	symbol_cache_want(c, FILE_ID, va_of(plain_function) + 1);
	symbol_cache_want(c, FILE_ID, va_of(cxx_function));
	cr_expect_eq(job_new(&other, c, FILE_ID, fd), -EBUSY);
	cr_expect_not(symbol_cache_next_wanted(c, &file_id));
	job->work.run(&job->work);
	job->work.done(&job->work, false);
	cr_expect(symbol_cache_find(c, FILE_ID, va_of(plain_function) + 1, &name));
	cr_expect_eq(stats_of(c).n_wanted, 1, "the other function only");
	cr_assert(symbol_cache_next_wanted(c, &file_id));
	cr_expect_eq(file_id, FILE_ID);

	cr_assert_eq(job_new(&job, c, FILE_ID, fd), 0);
	job->work.done(&job->work, true); /* cancelled before it ran */
	cr_assert(symbol_cache_next_wanted(c, &file_id), "collected again");
	resolve_with(c, FILE_ID, fd);
	cr_expect(symbol_cache_find(c, FILE_ID, va_of(cxx_function), &name));
	symbol_cache_free(c);
}

static uint64_t tenant_of(uint32_t file_id, void *data)
{
	return file_id < *(const uint32_t *)data ? 1 : 2;
}

/* One worker, for which each job takes as long as any other: how many jobs of a busy tenant come first. */
Test(symbol_cache, a_tenant_does_not_wait_for_all_files_of_another)
{
	struct symbol_cache *c = cache_new(1 << 20);
	_cleanup_close_ int fd = open_self();
	uint32_t theirs = 50, file_id, first = 0;
	bool neighbour = false;
	struct symbol_job *jobs[SYMBOL_JOBS_OF_A_TENANT + 1];
	size_t n = 0;

	symbol_cache_on_tenant(c, tenant_of, &theirs);
	for (uint32_t i = 1; i < theirs; i++)
		symbol_cache_want(c, i, va_of(plain_function));
	symbol_cache_want(c, theirs, va_of(plain_function));
	while (symbol_cache_next_wanted(c, &file_id)) {
		cr_assert_lt(n, SYMBOL_JOBS_OF_A_TENANT + 1);
		cr_assert_eq(job_new(&jobs[n], c, file_id, fd), 0);
		neighbour |= file_id == theirs;
		first = file_id == 1 ? (uint32_t)n : first;
		n++;
	}
	cr_expect_eq(n, SYMBOL_JOBS_OF_A_TENANT + 1);
	cr_expect(neighbour, "the neighbour's is with the workers, though it was wanted last");
	symbol_cache_overdue(c, jobs[first]);
	cr_assert(symbol_cache_next_wanted(c, &file_id), "one that is stuck makes room for the next");
	cr_expect_eq(file_id, SYMBOL_JOBS_OF_A_TENANT + 1);
	for (size_t i = 0; i < n; i++) {
		jobs[i]->work.run(&jobs[i]->work);
		symbol_cache_complete(c, jobs[i]);
	}
	for (n = 0; symbol_cache_next_wanted(c, &file_id); n++)
		resolve_with(c, file_id, fd);
	cr_expect_eq(n, theirs - 1 - SYMBOL_JOBS_OF_A_TENANT, "all have their turn");
	cr_expect_eq(stats_of(c).n_wanted, 0);
	symbol_cache_free(c);
}

/* A job whose process has ended with that error. */
static void job_with(struct symbol_cache *c, int fd, int status)
{
	struct symbol_job *job;

	cr_assert_eq(job_new(&job, c, FILE_ID, fd), 0);
	job->batch->status = status;
	if (status != -EAGAIN)
		cr_assert_eq(symbol_batch_answer_none(job->batch), 0);
	symbol_cache_complete(c, job);
}

Test(symbol_cache, a_file_that_crashes_its_reader_is_read_once)
{
	static const int errors[] = {-ENOTRECOVERABLE, -ETIME, -EBADMSG};

	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
		struct symbol_cache *c = cache_new(1 << 20);
		_cleanup_close_ int fd = open_self();
		struct symbol_name name;
		uint32_t file_id;

		symbol_cache_want(c, FILE_ID, va_of(plain_function));
		job_with(c, fd, errors[i]);
		cr_expect_eq(stats_of(c).n_unreadable, 1);
		cr_expect_eq(symbol_cache_want(c, FILE_ID, va_of(cxx_function)), 0);
		symbol_cache_retry(c);
		cr_expect_not(symbol_cache_next_wanted(c, &file_id), "another address of it");
		cr_expect_eq(stats_of(c).n_unreadable, 2);
		cr_expect_eq(stats_of(c).n_wanted, 0);
		symbol_cache_forget(c, FILE_ID);
		symbol_cache_want(c, FILE_ID, va_of(cxx_function));
		resolve_with(c, FILE_ID, fd);
		cr_expect(symbol_cache_find(c, FILE_ID, va_of(cxx_function), &name), "another file");
		symbol_cache_free(c);
	}
}

Test(symbol_cache, a_file_whose_reader_was_killed_is_read_later)
{
	struct symbol_cache *c = cache_new(1 << 20);
	_cleanup_close_ int fd = open_self();
	struct symbol_name name;
	uint32_t file_id;

	symbol_cache_want(c, FILE_ID, va_of(plain_function));
	job_with(c, fd, -EAGAIN);
	cr_expect_eq(stats_of(c).n_wanted, 1);
	symbol_cache_retry(c);
	cr_expect_not(symbol_cache_next_wanted(c, &file_id), "not at once");
	for (int i = 0; i < 10000 && !symbol_cache_next_wanted(c, &file_id); i++) {
		usleep(1000);
		symbol_cache_retry(c);
	}
	resolve_with(c, FILE_ID, fd);
	cr_assert(symbol_cache_find(c, FILE_ID, va_of(plain_function), &name));
	cr_expect_str_eq(name.function, "plain_function");
	symbol_cache_free(c);
}

Test(symbol_cache, a_forgotten_file_takes_no_late_results)
{
	struct symbol_cache *c = cache_new(1 << 20);
	_cleanup_close_ int fd = open_self();
	struct symbol_job *old = NULL, *new = NULL;
	struct symbol_name name;

	symbol_cache_want(c, FILE_ID, va_of(plain_function));
	cr_assert_eq(job_new(&old, c, FILE_ID, fd), 0);
	symbol_cache_forget(c, FILE_ID);
	/* the index is used for another file now, which has a job of its own */
	symbol_cache_want(c, FILE_ID, 0x10);
	cr_assert_eq(job_new(&new, c, FILE_ID, fd), 0);
	old->work.run(&old->work);
	symbol_cache_complete(c, old);
	cr_expect_eq(stats_of(c).n_stale, 1);
	cr_expect_not(symbol_cache_find(c, FILE_ID, va_of(plain_function), &name));
	new->work.run(&new->work);
	symbol_cache_complete(c, new);
	cr_expect(symbol_cache_find(c, FILE_ID, 0x10, &name));
	symbol_cache_forget(c, FILE_ID);
	cr_expect_not(symbol_cache_find(c, FILE_ID, 0x10, &name));
	cr_expect_eq(stats_of(c).bytes, 0);
	cr_expect_eq(stats_of(c).n_files, 0);
	symbol_cache_forget(c, FILE_ID);
	symbol_cache_free(c);
}

Test(symbol_cache, collecting_has_a_maximum)
{
	struct symbol_cache *c = cache_new(1 << 20);

	for (unsigned i = 0; i < SYMBOL_WANTED_PER_FILE; i++)
		cr_assert_eq(symbol_cache_want(c, FILE_ID, (i * 2654435761u) % 1000003), 0);
	cr_expect_eq(symbol_cache_want(c, FILE_ID, 5), -ENOSPC);
	cr_expect_eq(symbol_cache_want(c, FILE_ID, UINT64_MAX), -ENOSPC);
	cr_expect_eq(stats_of(c).n_dropped, 2);
	for (uint32_t f = 100; f < 100 + SYMBOL_WANTED_MAX / SYMBOL_WANTED_PER_FILE; f++)
		for (unsigned i = 0; i < SYMBOL_WANTED_PER_FILE; i++)
			symbol_cache_want(c, f, i);
	cr_expect_eq(stats_of(c).n_wanted, SYMBOL_WANTED_MAX);
	symbol_cache_free(c);
}

/* A range that was looked up survives, others are freed, and the budget is met after every change. */
Test(symbol_cache, the_byte_budget_is_met)
{
	enum { BUDGET = 4096 };
	struct symbol_cache *c = cache_new(BUDGET);
	_cleanup_close_ int fd = memfd_create("none", MFD_CLOEXEC);
	struct symbol_name name;

	symbol_cache_want(c, 1, 42);
	resolve_with(c, 1, fd);
	for (uint32_t f = 2; f < 200; f++) {
		for (unsigned i = 0; i < 5; i++)
			symbol_cache_want(c, f, i * 100);
		resolve_with(c, f, fd);
		cr_assert_leq(stats_of(c).bytes, BUDGET);
		cr_assert(symbol_cache_find(c, 1, 42, &name), "file %u", f);
		cr_assert(symbol_cache_find(c, f, 400, &name), "the newest file, %u", f);
	}
	cr_expect_gt(stats_of(c).n_evicted, 800);
	cr_expect_lt(stats_of(c).n_files, 100, "files without ranges are gone");
	symbol_cache_free(c);
}

Test(symbol_cache, one_file_larger_than_the_budget)
{
	struct symbol_cache *c = cache_new(1024);
	_cleanup_close_ int fd = memfd_create("none", MFD_CLOEXEC);

	for (unsigned i = 0; i < 1000; i++)
		symbol_cache_want(c, 1, i * 16);
	resolve_with(c, 1, fd);
	cr_expect_leq(stats_of(c).bytes, 1024);
	cr_expect_eq(stats_of(c).n_evicted + stats_of(c).n_ranges, 1000);
	symbol_cache_free(c);
}

/* Makes a file with one function in a symbol table of the given type. */
static int file_with(const char *strings, size_t len, uint32_t type)
{
	static const char code[64];
	const Elf64_Sym symbols[] = {
		{0},
		{.st_name = 1,
		 .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
		 .st_shndx = 1,
		 .st_value = 0x1000,
		 .st_size = 16},
	};
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x1000, code, sizeof code, 0, 0},
		{".strings", SHT_STRTAB, 0, 0, strings, len, 0, 0},
		{".symbols", type, 0, 0, symbols, sizeof symbols, 2, sizeof symbols[0]},
	};
	_cleanup_buf_ struct buf b = {0};

	file_write(&b, EM_X86_64, s, ARRAY_SIZE(s), 0);
	return file_fd(b.data, b.len);
}

Test(symbol_cache, a_separate_debug_file_adds_names)
{
	_cleanup_close_ int fd = file_with("", 1, SHT_NULL);
	_cleanup_close_ int debug = file_with("\0_D4demo3fooFiZv", 17, SHT_SYMTAB);
	struct symbol_cache *c = cache_new(1u << 20);
	struct symbol_job *job;
	struct symbol_name name;

	cr_assert_eq(symbol_cache_want(c, FILE_ID, 0x5008), 0);
	cr_assert_eq(
		symbol_job_new(&job, c, FILE_ID,
			       &(struct symbol_files){.fd = fd, .debug_fd = debug, .debug_delta = 0x4000}),
		0);
	job->work.run(&job->work);
	symbol_cache_complete(c, job);
	cr_assert(symbol_cache_find(c, FILE_ID, 0x5008, &name));
	cr_expect_str_eq(name.function, "demo.foo(int)");
	cr_expect_str_eq(name.system_name, "_D4demo3fooFiZv");
	cr_expect_eq(name.start, 0x5000);
	symbol_cache_free(c);
}
