// SPDX-License-Identifier: Apache-2.0
/* /proc is read again after something was lost: what for, when, and what comes of it. */
#include <errno.h>
#include <string.h>

#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL FLOW_SHELL
#define CODE FLOW_SHELL_CODE
#define LIB 0x7f0000000000ull

static struct flow *with_shell(void)
{
	struct flow *f = flow_prepare();

	flow_add_shell(f);
	flow_start(f);
	return f;
}

/* For each reason: a process that no event reported is known afterwards. */
static void loss_leads_to_rescan(enum sideband_loss reason)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_process_add(&f->host, 200, SHELL, "missed");
	fake_process_map(&f->host, 200, CODE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_eq(flow_slot(f, 200), SLOT_ABSENT);
	fake_lost(&f->host, reason, 3);
	(void)track_drain(f->track);
	cr_expect_eq(flow_stats(f).rescans, 1);
	cr_expect_eq(flow_stats(f).gaps[GAP_EVENTS], 1);
	cr_expect_eq(flow_stats(f).events_lost[reason], 3);
	cr_expect_eq(track_events_lost(&(struct track_stats){.events_lost = {1, 2, 3}}), 6);
	cr_expect_eq(flow_slot(f, 200), SLOT_LIST);
	cr_expect_str_eq(flow_path(f, 200, CODE), "/bin/tool");
}

Test(rescans, after_an_overflow)
{
	loss_leads_to_rescan(SIDEBAND_LOSS_OVERFLOW);
}

Test(rescans, after_a_bad_record)
{
	loss_leads_to_rescan(SIDEBAND_LOSS_BAD_RECORD);
}

Test(rescans, after_records_without_memory)
{
	loss_leads_to_rescan(SIDEBAND_LOSS_NO_MEMORY);
}

Test(rescans, after_a_cpu_came)
{
	_cleanup_flow_ struct flow *f = with_shell();

	track_events_missed(f->track);
	cr_expect_eq(flow_stats(f).rescans, 0, "at the next drain");
	(void)track_drain(f->track);
	cr_expect_eq(flow_stats(f).rescans, 1);
	cr_expect_eq(flow_stats(f).gaps[GAP_CPU_CAME], 1);
	(void)track_drain(f->track);
	cr_expect_eq(flow_stats(f).rescans, 1);
}

/* Processes that ended, that have the pid of another, and that run another program, without an event. */
Test(rescans, what_changed_unheard_of)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t before;

	for (uint32_t pid = 201; pid <= 203; pid++) {
		fake_process_add(&f->host, pid, SHELL, "sh");
		fake_fork(&f->host, SHELL, pid);
	}
	(void)track_drain(f->track);
	before = fake_now_ns;
	flow_wait(f, NS_PER_SEC);
	fake_process_remove(&f->host, 201);
	fake_process_remove(&f->host, 202);
	fake_process_add(&f->host, 202, SHELL, "other");
	fake_process_map(&f->host, 202, CODE, 4, 0, "/bin/tool");
	fake_process_remove(&f->host, 203);
	fake_process_add(&f->host, 203, SHELL, "tool")->start_ns = before;
	fake_process_map(&f->host, 203, LIB, 4, 0, "/bin/tool");
	flow_wait(f, NS_PER_SEC);
	fake_lost(&f->host, SIDEBAND_LOSS_OVERFLOW, 1);
	(void)track_drain(f->track);
	cr_expect_eq(flow_slot(f, 201), SLOT_ABSENT);
	cr_expect_neq(flow_process(f, 201)->end_ns, 0);
	cr_expect_str_eq(flow_sample(f, 202, 202).image->comm, "other");
	cr_expect_str_eq(flow_sample_at(f, 202, 202, before).image->comm, "sh");
	cr_expect_str_eq(flow_sample(f, 203, 203).image->comm, "tool");
	cr_expect_str_eq(flow_path(f, 203, LIB), "/bin/tool");
	cr_expect_str_eq(flow_path(f, 203, CODE), "");
	cr_expect_eq(flow_sample_at(f, 203, 203, before).process, flow_process(f, 203), "the same process");
	cr_expect_eq(flow_stats(f).processes, 3);
}

/* A thread that begins after its process's lost execve has the former program's name, until /proc is read. */
Test(rescans, threads_have_the_names_that_proc_says)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct fake_process *p = &f->host.processes[0];

	fake_thread(&f->host, SHELL, 101);
	(void)track_drain(f->track);
	strcpy(p->comm, "tool"); /* whose event is lost */
	strcpy(p->thread_comm, "pool");
	fake_thread(&f->host, SHELL, 102);
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_sample(f, SHELL, 102).thread, "sh");
	flow_wait(f, NS_PER_SEC);
	fake_lost(&f->host, SIDEBAND_LOSS_OVERFLOW, 1);
	(void)track_drain(f->track);
	flow_wait(f, NS_PER_SEC);
	cr_expect_str_eq(flow_sample(f, SHELL, SHELL).thread, "tool");
	cr_expect_str_eq(flow_sample(f, SHELL, 101).thread, "pool");
	cr_expect_str_eq(flow_sample(f, SHELL, 102).thread, "pool");
	fake_comm(&f->host, SHELL, 102, "worker");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_sample(f, SHELL, 101).thread, "pool");
	cr_expect_str_eq(flow_sample(f, SHELL, 102).thread, "worker");
}

static unsigned rescans_within(struct flow *f, uint64_t ns, uint64_t step_ns)
{
	uint64_t before = flow_stats(f).rescans;

	for (uint64_t t = 0; t < ns; t += step_ns) {
		fake_lost(&f->host, SIDEBAND_LOSS_OVERFLOW, 1);
		(void)track_drain(f->track);
		flow_wait(f, step_ns);
	}
	return (unsigned)(flow_stats(f).rescans - before);
}

/* Events that are lost all the time: at once, after 3 s, 6 s, 12 s … 48 s, and so on. */
Test(rescans, back_off)
{
	_cleanup_flow_ struct flow *f = with_shell();
	unsigned n;

	cr_expect_eq(rescans_within(f, 2 * NS_PER_SEC, NS_PER_SEC / 10), 1);
	n = rescans_within(f, 100 * NS_PER_SEC, NS_PER_SEC / 2);
	cr_expect(n >= 4 && n <= 6, "%u", n);
	n = rescans_within(f, 480 * NS_PER_SEC, NS_PER_SEC);
	cr_expect(n >= 8 && n <= 11, "%u: one in 48 s", n);
	flow_wait(f, 200 * NS_PER_SEC);
	cr_expect_eq(rescans_within(f, NS_PER_SEC, NS_PER_SEC), 1, "after a quiet time at once");
	cr_expect_eq(rescans_within(f, 8 * NS_PER_SEC, NS_PER_SEC), 1, "then after 3 s, and 6 s");
}

/* A scan that takes a second is not repeated for minutes. */
Test(rescans, costly_ones_are_rare)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.readers.answer_ns = NS_PER_MS;
	for (uint32_t pid = 300; pid < 350; pid++)
		fake_process_add(&f->host, pid, 1, "other");
	cr_expect_eq(rescans_within(f, NS_PER_SEC, NS_PER_SEC), 1);
	cr_expect_eq(rescans_within(f, 9 * NS_PER_SEC, NS_PER_SEC), 0, "50 ms are 1/200 of 10 s");
	cr_expect_eq(rescans_within(f, 3 * NS_PER_SEC, NS_PER_SEC), 1);
}

/* So is one whose answers come late and take much CPU time. */
Test(rescans, late_answers_are_charged)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.readers.answer = FAKE_LATE;
	cr_expect_eq(rescans_within(f, NS_PER_SEC, NS_PER_SEC), 1);
	fake_cpu_step_ns = 20 * NS_PER_MS;
	cr_expect_gt(fake_pool_work(&f->host.readers), 0);
	fake_cpu_step_ns = 0;
	f->host.readers.answer = FAKE_NOW;
	cr_expect_eq(rescans_within(f, 5 * NS_PER_SEC, NS_PER_SEC), 0);
	cr_expect_eq(rescans_within(f, 20 * NS_PER_SEC, NS_PER_SEC), 1);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh");
}

Test(rescans, proc_cannot_be_read)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.scan_error = -ENOMEM;
	fake_lost(&f->host, SIDEBAND_LOSS_OVERFLOW, 1);
	(void)track_drain(f->track);
	cr_expect_eq(flow_process(f, SHELL)->end_ns, 0, "no process is taken to have ended");
	f->host.scan_error = 0;
	fake_process_add(&f->host, 200, SHELL, "missed");
	fake_process_map(&f->host, 200, CODE, 4, 0, "/bin/tool");
	flow_wait(f, 10 * NS_PER_SEC);
	(void)track_drain(f->track);
	cr_expect_eq(flow_stats(f).rescans, 2, "it is tried again without another loss");
	cr_expect_eq(flow_slot(f, 200), SLOT_LIST);
}

Test(rescans, kernel_threads)
{
	_cleanup_flow_ struct flow *f = flow_prepare();

	fake_process_add(&f->host, 2, 0, "kthreadd")->kernel_thread = true;
	flow_start(f);
	cr_expect_str_eq(flow_sample(f, 2, 2).image->comm, "kthreadd");
	cr_expect_eq(f->host.n_maps, 0);
	fake_lost(&f->host, SIDEBAND_LOSS_OVERFLOW, 1);
	(void)track_drain(f->track);
	cr_expect_eq(f->host.n_maps, 0);
	cr_expect_eq(flow_process(f, 2)->end_ns, 0);
}

/* More processes than are read ahead, with the same files: each file is opened once. */
Test(rescans, files_of_many_processes)
{
	_cleanup_flow_ struct flow *f = flow_prepare();

	fake_file_add(&f->host, "/lib/libc", false);
	fake_file_add(&f->host, "/bin/sh", false);
	for (uint32_t pid = 100; pid < 160; pid++) {
		fake_process_add(&f->host, pid, 1, "sh");
		fake_process_map(&f->host, pid, CODE, 2, 0, "/bin/sh");
		fake_process_map(&f->host, pid, CODE + 2 * FAKE_PAGE, 2, 2 * FAKE_PAGE, "/bin/sh");
		fake_process_map(&f->host, pid, LIB, 2, 0, "/lib/libc");
	}
	f->host.processes[59].mount_namespace = 2; /* a path means something else there */
	flow_start(f);
	cr_expect_eq(flow_stats(f).processes, 60);
	cr_expect_eq(f->host.n_opens, 4);
	for (uint32_t pid = 100; pid < 160; pid++) {
		cr_expect_str_eq(flow_path(f, pid, LIB), "/lib/libc");
		cr_expect_eq(flow_slot(f, pid), SLOT_LIST);
	}
}

/* What is mapped while the first scan waits for the lines of maps is newer than they are. */
Test(rescans, events_are_newer_than_late_lines)
{
	_cleanup_flow_ struct flow *f = flow_prepare();

	fake_file_add(&f->host, "/bin/sh", false);
	fake_file_add(&f->host, "/bin/tool", false);
	fake_process_add(&f->host, SHELL, 1, "sh");
	fake_process_map(&f->host, SHELL, CODE, 4, 0, "/bin/sh");
	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/bin/sh");
	f->host.readers.answer = FAKE_LATE;
	flow_start(f);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "");
	f->host.readers.answer = FAKE_NOW;
	fake_mmap(&f->host, SHELL, LIB, 2, 0, NULL);
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "-");
	cr_expect_gt(fake_pool_work(&f->host.readers), 0);
	track_progress(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh");
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "-");
	cr_expect_str_eq(flow_path(f, SHELL, LIB + 2 * FAKE_PAGE), "/bin/sh");
	cr_expect_eq(flow_slot(f, SHELL), SLOT_LIST);
}

static void lose_events(struct flow *f)
{
	flow_wait(f, 60 * NS_PER_SEC);
	fake_lost(&f->host, SIDEBAND_LOSS_OVERFLOW, 1);
	(void)track_drain(f->track);
}

/* A rescan whose answers come late: until then, samples find the mappings that were known. */
Test(rescans, known_mappings_stay_until_the_answer)
{
	_cleanup_flow_ struct flow *f = with_shell();
	const struct mapping_list *list = flow_list(f, SHELL);

	f->host.processes[0].n_lines = 0;
	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	f->host.readers.answer = FAKE_LATE;
	lose_events(f);
	cr_expect_eq(flow_stats(f).rescans, 1);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh");
	cr_expect_eq(flow_list(f, SHELL), list, "the list that was published");
	f->host.readers.answer = FAKE_NOW;
	(void)fake_pool_work(&f->host.readers);
	track_progress(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "", "unmapped, says the answer");
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/tool");
	cr_expect_neq(flow_list(f, SHELL), list);
}

Test(rescans, known_mappings_stay_without_an_answer)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.readers.answer = FAKE_NEVER;
	lose_events(f);
	fake_pool_stick(&f->host.readers);
	flow_wait(f, 60 * NS_PER_SEC);
	track_check(f->track);
	track_progress(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh");
	cr_expect_eq(flow_slot(f, SHELL), SLOT_LIST);
	lose_events(f);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh", "a second rescan is refused, or unanswered");
}

/* What is mapped while a rescan waits for its answer is newer, also where the same was mapped before. */
Test(rescans, events_are_newer_than_late_lines_of_a_rescan)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.processes[0].n_lines = 0;
	fake_process_map(&f->host, SHELL, 2 * LIB, 4, 0, "/bin/sh");
	f->host.readers.answer = FAKE_LATE;
	lose_events(f);
	f->host.readers.answer = FAKE_NOW;
	fake_mmap(&f->host, SHELL, CODE, 4, 0, "/bin/sh");
	fake_mmap(&f->host, SHELL, 2 * LIB + 2 * FAKE_PAGE, 1, FAKE_PAGE, "/bin/tool");
	(void)track_drain(f->track);
	(void)fake_pool_work(&f->host.readers);
	track_progress(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh", "known before, and mapped again");
	cr_expect_str_eq(flow_path(f, SHELL, 2 * LIB), "/bin/sh");
	cr_expect_str_eq(flow_path(f, SHELL, 2 * LIB + 2 * FAKE_PAGE), "/bin/tool");
	cr_expect_str_eq(flow_path(f, SHELL, 2 * LIB + 3 * FAKE_PAGE), "/bin/sh");
}

/* The file of a mapping becomes known while a rescan waits for its answer. */
Test(rescans, file_is_opened_during_a_rescan)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.readers.answer = FAKE_LATE;
	lose_events(f);
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "?");
	f->host.readers.answer = FAKE_NOW;
	(void)fake_pool_work(&f->host.readers);
	track_progress(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/tool");
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh");
}

/* Nothing has changed: no list is written. */
Test(rescans, unchanged_process_is_not_published_again)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t lists = flow_stats(f).publish.lists;

	lose_events(f);
	cr_expect_eq(flow_stats(f).rescans, 1);
	cr_expect_eq(flow_stats(f).publish.lists, lists);
}

/* A sample of a process that nothing is known of. */
Test(rescans, sample_of_an_unknown_process)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_process_add(&f->host, 300, 1, "new");
	fake_process_map(&f->host, 300, CODE, 4, 0, "/bin/sh");
	cr_expect_str_eq(flow_sample(f, 300, 300).image->comm, "new");
	cr_expect_str_eq(flow_path(f, 300, CODE), "/bin/sh");
	cr_expect_str_eq(flow_sample(f, 301, 301).image->comm, "[exited]");
	cr_expect_neq(flow_process(f, 301)->end_ns, 0);
	cr_expect_str_eq(flow_sample_at(f, 300, 300, 5).image->comm, "[exited]", "before it began");
}

Test(rescans, ended_processes_are_forgotten)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t then;

	fake_exit(&f->host, SHELL, SHELL);
	fake_process_remove(&f->host, SHELL);
	(void)track_drain(f->track);
	then = fake_now_ns - 1;
	track_drained(f->track, fake_now_ns);
	cr_expect_str_eq(flow_sample_at(f, SHELL, SHELL, then).image->comm, "sh");
	flow_wait(f, 10 * NS_PER_SEC);
	track_drained(f->track, fake_now_ns);
	cr_expect_str_eq(flow_sample_at(f, SHELL, SHELL, then).image->comm, "[exited]");
}
