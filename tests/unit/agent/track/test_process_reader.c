// SPDX-License-Identifier: Apache-2.0
/* Processes as /proc shows them, with answers that come late, and where no events report mappings. */
#include <string.h>

#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL FLOW_SHELL
#define CHILD 200u
#define CODE FLOW_SHELL_CODE
#define LIB 0x7f0000000000ull

static struct flow *prepare(void)
{
	struct flow *f = flow_prepare();

	flow_add_shell(f);
	return f;
}

/* The lines of maps of a process come late; something has happened to it by then. */
static struct flow *with_late_lines(void)
{
	struct flow *f = prepare();

	f->host.readers.answer = FAKE_LATE;
	flow_start(f);
	f->host.readers.answer = FAKE_NOW;
	return f;
}

Test(process_reader, lines_come_after_exit)
{
	_cleanup_flow_ struct flow *f = with_late_lines();
	struct process *p = flow_process(f, SHELL);

	fake_exit(&f->host, SHELL, SHELL);
	(void)track_drain(f->track);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_str_eq(flow_path_at(f, p->maps, CODE), "", "they may be those of another process");
	cr_expect_eq(flow_slot(f, SHELL), SLOT_ABSENT);
}

Test(process_reader, lines_come_after_execve)
{
	_cleanup_flow_ struct flow *f = with_late_lines();

	fake_exec(&f->host, SHELL, SHELL, "tool");
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "");
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/tool");
}

Test(process_reader, lines_come_after_the_pid_was_used_again)
{
	_cleanup_flow_ struct flow *f = with_late_lines();

	fake_exit(&f->host, SHELL, SHELL);
	fake_fork(&f->host, 1, SHELL);
	fake_process_remove(&f->host, SHELL);
	fake_process_add(&f->host, SHELL, 1, "next");
	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "");
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/tool");
	cr_expect_str_eq(flow_sample(f, SHELL, SHELL).image->comm, "next");
}

Test(process_reader, lines_do_not_come)
{
	_cleanup_flow_ struct flow *f = with_late_lines();
	unsigned n_maps;

	fake_pool_stick(&f->host.readers);
	flow_wait(f, REQUEST_BLOCKED_NS + 1);
	track_check(f->track);
	cr_expect_eq(flow_stats(f).requests.given_up, 1);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "");
	n_maps = f->host.n_maps;
	fake_lost(&f->host, SIDEBAND_LOSS_OVERFLOW, 1);
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "");
	cr_expect_eq(f->host.n_maps, n_maps, "the process is not touched");
	cr_expect_geq(flow_stats(f).requests.n_parked, 1);
	(void)fake_pool_work(&f->host.readers); /* back after all */
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh");
	cr_expect_eq(flow_stats(f).requests.n_parked, 0);
}

Test(process_reader, settle)
{
	_cleanup_flow_ struct flow *f = with_late_lines();
	uint64_t before = fake_now_ns;

	track_settle(f->track, NS_PER_SEC);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh");
	cr_expect_lt(fake_now_ns - before, NS_PER_SEC);
}

Test(process_reader, settle_is_bounded)
{
	_cleanup_flow_ struct flow *f = with_late_lines();
	uint64_t before = fake_now_ns;

	f->host.readers.answer = FAKE_NEVER;
	track_settle(f->track, NS_PER_SEC);
	cr_expect_eq(fake_now_ns - before, NS_PER_SEC);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "");
}

Test(process_reader, too_many_lines_of_a_list)
{
	_cleanup_flow_ struct flow *f = prepare();

	for (uint64_t i = 0; i < 40; i++)
		fake_process_map(&f->host, SHELL, LIB + 2 * i * FAKE_PAGE, 1, 0, "/bin/tool");
	flow_start(f);
	cr_expect_eq(flow_process(f, SHELL)->maps->n, 41);
	cr_expect_eq(flow_stats(f).reader.cut, 0);
	cr_expect_eq(f->host.n_opens, 2, "of a row of lines of one file, the first is opened");
}

/* --- where no events report mappings */

static struct flow *by_tick(void)
{
	struct flow *f = prepare();

	f->host.mappings = false;
	flow_start(f);
	return f;
}

Test(process_reader, tick_execve)
{
	_cleanup_flow_ struct flow *f = by_tick();

	strcpy(fake_process_add(&f->host, CHILD, SHELL, "tool")->exe, "/bin/tool");
	fake_process_map(&f->host, CHILD, CODE, 2, 0, "/bin/tool");
	fake_fork(&f->host, SHELL, CHILD);
	fake_exec(&f->host, CHILD, CHILD, "tool");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, CHILD, CODE), "/bin/tool");
	cr_expect_str_eq(flow_sample(f, CHILD, CHILD).image->program->exe, "/bin/tool");
}

/* A sample outside of all mappings: they are read again, at once if they have changed. */
Test(process_reader, tick_miss)
{
	_cleanup_flow_ struct flow *f = by_tick();
	uint64_t before = fake_now_ns, epoch = track_epoch(f->track);

	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	flow_wait(f, NS_PER_MS);
	(void)flow_sample_ending(f, SHELL, ENDING_NO_MAPPING);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/tool");
	cr_expect_eq(flow_stats(f).reader.rereads, 1);
	cr_expect_neq(track_epoch(f->track), epoch, "published");
	cr_expect_str_eq(flow_path_at(f, proc_history_at(flow_process(f, SHELL), before), LIB), "");
	cr_expect_eq(f->host.n_opens, 2, "known mappings are not opened again");
}

/* Samples that lie outside again and again say nothing new. */
Test(process_reader, tick_back_off)
{
	_cleanup_flow_ struct flow *f = by_tick();
	uint64_t n;

	for (unsigned i = 0; i < 100; i++) {
		(void)flow_sample_ending(f, SHELL, ENDING_NO_MAPPING);
		flow_wait(f, 10 * NS_PER_MS);
	}
	n = flow_stats(f).reader.rereads;
	cr_expect(n >= 4 && n <= 7, "%lu in a second", n);
	for (unsigned i = 0; i < 600; i++) {
		(void)flow_sample_ending(f, SHELL, ENDING_NO_MAPPING);
		flow_wait(f, 100 * NS_PER_MS);
	}
	n = flow_stats(f).reader.rereads - n;
	cr_expect(n >= 9 && n <= 15, "%lu in a minute", n);
	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	flow_wait(f, 6 * NS_PER_SEC);
	(void)flow_sample_ending(f, SHELL, ENDING_NO_MAPPING);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/tool");
	fake_process_map(&f->host, SHELL, 2 * LIB, 4, 0, "/bin/tool");
	flow_wait(f, 10 * NS_PER_SEC);
	(void)flow_sample_ending(f, SHELL, ENDING_NO_PROCESS);
	flow_wait(f, 50 * NS_PER_MS);
	(void)flow_sample_ending(f, SHELL, ENDING_NO_PROCESS);
	cr_expect_str_eq(flow_path(f, SHELL, 2 * LIB), "/bin/tool");
}

/* A mapping may be replaced without any sample outside: maps is read again now and then in any case. */
Test(process_reader, tick_now_and_then)
{
	_cleanup_flow_ struct flow *f = by_tick();

	(void)flow_sample(f, SHELL, SHELL);
	cr_expect_eq(flow_stats(f).reader.rereads, 1);
	flow_wait(f, 5 * NS_PER_SEC);
	(void)flow_sample(f, SHELL, SHELL);
	cr_expect_eq(flow_stats(f).reader.rereads, 1);
	flow_wait(f, 6 * NS_PER_SEC);
	(void)flow_sample(f, SHELL, SHELL);
	cr_expect_eq(flow_stats(f).reader.rereads, 2);
}

Test(process_reader, tick_of_one_that_is_gone)
{
	_cleanup_flow_ struct flow *f = by_tick();

	fake_process_remove(&f->host, SHELL);
	(void)flow_sample_ending(f, SHELL, ENDING_NO_MAPPING);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh", "its last samples still have them");
}

/* Two lists of the same mappings: the answer of a second look comes late. */
Test(process_reader, tick_late)
{
	_cleanup_flow_ struct flow *f = by_tick();

	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	f->host.readers.answer = FAKE_LATE;
	(void)flow_sample_ending(f, SHELL, ENDING_NO_MAPPING);
	f->host.readers.answer = FAKE_NOW;
	(void)fake_pool_work(&f->host.readers);
	track_progress(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/tool");
}
