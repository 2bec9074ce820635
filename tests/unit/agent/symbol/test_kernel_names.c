// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/base/worker.h"
#include "agent/symbol/kernel_names.h"

#define KERNEL_FN 0xffffffff81000000u
#define MODULE_FN 0xffffffffc0001000u

static char path[] = "/tmp/test_kernel.XXXXXX";
static const char unloaded[] = "ffffffff81000000 T kernel_function\nffffffff81000100 T _etext\n";
static const char loaded[] = "ffffffff81000000 T kernel_function\nffffffff81000100 T _etext\n"
			     "ffffffffc0001000 t module_function\t[mod]\n";

static void setup(void)
{
	close(mkstemp(path));
}

static void teardown(void)
{
	unlink(path);
}

TestSuite(kernel_names, .init = setup, .fini = teardown);

static void write_symbols(const char *text)
{
	cr_assert_eq(fs_write_file(path, text, strlen(text)), 0);
}

/* Runs one job completely on this thread. Returns the result of symbol_kernel_job_new. */
static int load(struct symbol_kernel *k, uint64_t now_ns)
{
	struct symbol_kernel_job *job = NULL;
	int r = symbol_kernel_job_new(&job, k, now_ns);

	if (r < 0)
		return r;
	job->work.run(&job->work);
	job->work.done(&job->work, false);
	return 0;
}

Test(kernel_names, loads_when_first_wanted)
{
	struct symbol_kernel *k = NULL;
	struct kallsyms_symbol s;

	write_symbols(unloaded);
	cr_assert_eq(symbol_kernel_new(&k, path), 0);
	cr_expect_eq(symbol_kernel_status(k), -EAGAIN);
	cr_expect_eq(load(k, 0), -EAGAIN, "nothing was missed yet");
	cr_expect_not(symbol_kernel_find(k, KERNEL_FN, &s));
	cr_expect_eq(load(k, 0), 0);
	cr_expect_eq(symbol_kernel_status(k), 0);
	cr_assert(symbol_kernel_find(k, KERNEL_FN + 4, &s));
	cr_expect_str_eq(s.name, "kernel_function");
	cr_expect_not_null(symbol_kernel_table(k));
	cr_expect_eq(load(k, 10 * SYMBOL_KERNEL_RELOAD_NS), -EAGAIN);
	symbol_kernel_free(k);
}

Test(kernel_names, reloads_for_new_addresses_once_a_minute)
{
	struct symbol_kernel *k = NULL;
	struct kallsyms_symbol s;

	write_symbols(unloaded);
	cr_assert_eq(symbol_kernel_new(&k, path), 0);
	symbol_kernel_find(k, KERNEL_FN, &s);
	cr_assert_eq(load(k, 0), 0);
	write_symbols(loaded);
	cr_expect_not(symbol_kernel_find(k, MODULE_FN, &s));
	cr_expect_eq(load(k, SYMBOL_KERNEL_RELOAD_NS - 1), -EAGAIN);
	cr_expect_eq(load(k, SYMBOL_KERNEL_RELOAD_NS), 0);
	cr_assert(symbol_kernel_find(k, MODULE_FN, &s));
	cr_expect_str_eq(s.module, "mod");
	symbol_kernel_free(k);
}

/* An address that a reload did not name causes no further reload; another address does. */
Test(kernel_names, hopeless_addresses_cause_no_reload)
{
	struct symbol_kernel *k = NULL;
	struct kallsyms_symbol s;

	write_symbols(unloaded);
	cr_assert_eq(symbol_kernel_new(&k, path), 0);
	symbol_kernel_find(k, 0x1234, &s);
	cr_assert_eq(load(k, 0), 0);
	for (uint64_t minute = 1; minute < 5; minute++) {
		cr_expect_not(symbol_kernel_find(k, 0x1234, &s));
		cr_expect_eq(load(k, minute * SYMBOL_KERNEL_RELOAD_NS), -EAGAIN);
	}
	cr_expect_not(symbol_kernel_find(k, MODULE_FN, &s));
	write_symbols(loaded);
	cr_expect_eq(load(k, 6 * SYMBOL_KERNEL_RELOAD_NS), 0);
	cr_expect(symbol_kernel_find(k, MODULE_FN, &s));
	cr_expect_not(symbol_kernel_find(k, 0x1234, &s));
	cr_expect_eq(load(k, 9 * SYMBOL_KERNEL_RELOAD_NS), -EAGAIN, "still hopeless");
	symbol_kernel_free(k);
}

Test(kernel_names, a_kernel_that_hides_addresses)
{
	struct symbol_kernel *k = NULL;
	struct kallsyms_symbol s;

	write_symbols("0000000000000000 T a\n0000000000000000 T b\n");
	cr_assert_eq(symbol_kernel_new(&k, path), 0);
	symbol_kernel_find(k, KERNEL_FN, &s);
	cr_assert_eq(load(k, 0), 0);
	cr_expect_eq(symbol_kernel_status(k), -EPERM);
	cr_expect_not(symbol_kernel_find(k, KERNEL_FN, &s));
	cr_expect_eq(load(k, 100 * SYMBOL_KERNEL_RELOAD_NS), -EAGAIN, "not tried again");
	cr_expect_null(symbol_kernel_table(k));
	symbol_kernel_free(k);
}

Test(kernel_names, after_an_error_the_old_table_stays_and_loading_is_retried)
{
	struct symbol_kernel *k = NULL;
	struct kallsyms_symbol s;

	unlink(path);
	cr_assert_eq(symbol_kernel_new(&k, path), 0);
	symbol_kernel_find(k, KERNEL_FN, &s);
	cr_assert_eq(load(k, 0), 0);
	cr_expect_eq(symbol_kernel_status(k), -ENOENT);
	write_symbols(unloaded);
	symbol_kernel_find(k, KERNEL_FN, &s);
	cr_assert_eq(load(k, SYMBOL_KERNEL_RELOAD_NS), 0);
	cr_expect_eq(symbol_kernel_status(k), 0);
	unlink(path);
	symbol_kernel_find(k, MODULE_FN, &s);
	cr_assert_eq(load(k, 2 * SYMBOL_KERNEL_RELOAD_NS), 0);
	cr_expect_eq(symbol_kernel_status(k), 0);
	cr_expect(symbol_kernel_find(k, KERNEL_FN, &s));
	symbol_kernel_free(k);
}

Test(kernel_names, one_job_at_a_time_and_a_cancelled_one_is_due_again)
{
	struct symbol_kernel *k = NULL;
	struct symbol_kernel_job *job = NULL, *other = NULL;
	struct kallsyms_symbol s;

	write_symbols(unloaded);
	cr_assert_eq(symbol_kernel_new(&k, path), 0);
	symbol_kernel_find(k, KERNEL_FN, &s);
	cr_assert_eq(symbol_kernel_job_new(&job, k, 5), 0);
	cr_expect_eq(symbol_kernel_job_new(&other, k, 5 + SYMBOL_KERNEL_RELOAD_NS), -EAGAIN);
	job->work.done(&job->work, true);
	cr_expect_eq(symbol_kernel_status(k), -EAGAIN);
	cr_expect_eq(load(k, 6), 0);
	cr_expect(symbol_kernel_find(k, KERNEL_FN, &s));
	symbol_kernel_free(k);
}

Test(kernel_names, the_running_kernel_on_a_worker_thread)
{
	struct symbol_kernel *k = NULL;
	struct symbol_kernel_job *job = NULL;
	struct kallsyms_symbol s;
	struct worker *w = NULL;
	int status;

	cr_assert_eq(worker_new(&w, 1, 4, "test"), 0);
	cr_assert_eq(symbol_kernel_new(&k, NULL), 0);
	symbol_kernel_find(k, KERNEL_FN, &s);
	cr_assert_eq(symbol_kernel_job_new(&job, k, clock_mono_ns()), 0);
	cr_assert_eq(worker_submit(w, &job->work, WORKER_HIGH), 0);
	worker_drain(w, 60 * NS_PER_SEC);
	cr_assert_eq(worker_pending(w), 0);
	status = symbol_kernel_status(k);
	cr_expect(status == 0 || status == -EPERM || status == -ENOENT, "%d", status);
	cr_expect_eq(symbol_kernel_table(k) != NULL, status == 0);
	worker_free(w);
	symbol_kernel_free(k);
}
