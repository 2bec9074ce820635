// SPDX-License-Identifier: Apache-2.0
/* Events → process table → what is published, on a machine that does what the test says. */
#include <string.h>

#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL 100u
#define CHILD 200u
#define CODE 0x400000ull
#define LIB 0x7f0000000000ull

/* A shell that was there before the agent, and two files. */
static struct flow *with_shell(void)
{
	struct flow *f = flow_prepare();

	fake_file_add(&f->host, "/bin/sh", false);
	fake_file_add(&f->host, "/bin/tool", false);
	strcpy(fake_process_add(&f->host, SHELL, 1, "sh")->exe, "/bin/sh");
	fake_process_map(&f->host, SHELL, CODE, 4, 0, "/bin/sh");
	flow_wait(f, NS_PER_SEC);
	flow_start(f);
	return f;
}

static void run_tool(struct flow *f, uint32_t pid)
{
	fake_process_add(&f->host, pid, SHELL, "tool");
	fake_fork(&f->host, SHELL, pid);
	fake_exec(&f->host, pid, pid, "tool");
	fake_mmap(&f->host, pid, CODE, 2, 0, "/bin/tool");
}

Test(process_events, first_scan)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct sampled_task task = flow_sample(f, SHELL, SHELL);

	cr_assert_not_null(task.process);
	cr_expect_str_eq(task.image->comm, "sh");
	cr_expect_str_eq(task.thread, "sh");
	cr_expect_str_eq(task.image->program->exe, "/bin/sh");
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh");
	cr_expect_str_eq(flow_path(f, SHELL, CODE + 4 * FAKE_PAGE), "");
	cr_expect_eq(flow_slot(f, SHELL), SLOT_LIST);
	cr_expect_eq(flow_stats(f).processes, 1);
}

Test(process_events, fork_exec_exit)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t forked, execed;

	fake_process_add(&f->host, CHILD, SHELL, "sh");
	fake_fork(&f->host, SHELL, CHILD);
	forked = fake_now_ns;
	cr_expect(track_drain(f->track));
	cr_expect_str_eq(flow_path(f, CHILD, CODE), "/bin/sh", "a fork has its parent's mappings");
	cr_expect_str_eq(flow_sample(f, CHILD, CHILD).image->comm, "sh");
	cr_expect_eq(flow_slot(f, CHILD), SLOT_LIST);
	cr_expect(flow_process(f, CHILD)->save_stack, "until its execve is known");
	fake_exec(&f->host, CHILD, CHILD, "tool");
	execed = fake_now_ns;
	fake_mmap(&f->host, CHILD, CODE, 2, 0, "/bin/tool");
	cr_expect(track_drain(f->track));
	cr_expect_str_eq(flow_path(f, CHILD, CODE), "/bin/tool");
	cr_expect_str_eq(flow_sample(f, CHILD, CHILD).image->comm, "tool");
	cr_expect_str_eq(flow_sample(f, CHILD, CHILD).image->program->exe, "/bin/tool");
	cr_expect_str_eq(flow_sample_at(f, CHILD, CHILD, forked).image->comm, "sh", "as it was then");
	cr_expect_str_eq(flow_path_at(f, proc_history_at(flow_process(f, CHILD), execed - 1), CODE),
			 "/bin/sh");
	fake_exit(&f->host, CHILD, CHILD);
	fake_process_remove(&f->host, CHILD);
	cr_expect(track_drain(f->track));
	cr_expect_eq(flow_slot(f, CHILD), SLOT_ABSENT);
	cr_expect_str_eq(flow_sample(f, CHILD, CHILD).image->comm, "tool", "its last samples are its own");
	cr_expect_eq(flow_stats(f).processes, 1);
	cr_expect_eq(flow_stats(f).events.forks, 1);
	cr_expect_eq(flow_stats(f).events.execs, 1);
	cr_expect_eq(flow_stats(f).events.exits, 1);
	cr_expect_not(track_drain(f->track), "nothing new");
}

/* One drain reports the whole life. As events are drained before samples, each sample finds its process. */
Test(process_events, samples_of_a_life_that_one_drain_reports)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t as_shell, as_tool;

	fake_process_add(&f->host, CHILD, SHELL, "sh");
	fake_fork(&f->host, SHELL, CHILD);
	as_shell = fake_now_ns;
	fake_exec(&f->host, CHILD, CHILD, "tool");
	fake_mmap(&f->host, CHILD, CODE, 2, 0, "/bin/tool");
	as_tool = fake_now_ns;
	fake_exit(&f->host, CHILD, CHILD);
	fake_process_remove(&f->host, CHILD);
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_sample_at(f, CHILD, CHILD, as_shell).image->comm, "sh");
	cr_expect_str_eq(flow_sample_at(f, CHILD, CHILD, as_tool).image->comm, "tool");
	cr_expect_str_eq(flow_sample_at(f, CHILD, CHILD, as_shell - 1).image->comm, "[exited]",
			 "the pid was somebody else's before");
}

Test(process_events, pid_is_used_again)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t first, second;

	run_tool(f, CHILD);
	first = fake_now_ns;
	fake_exit(&f->host, CHILD, CHILD);
	fake_process_remove(&f->host, CHILD);
	fake_process_add(&f->host, CHILD, SHELL, "sh");
	fake_fork(&f->host, SHELL, CHILD);
	second = fake_now_ns;
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_sample_at(f, CHILD, CHILD, first).image->comm, "tool");
	cr_expect_str_eq(flow_sample_at(f, CHILD, CHILD, second).image->comm, "sh");
	cr_expect_str_eq(flow_path(f, CHILD, CODE), "/bin/sh");
	cr_expect_neq(flow_sample_at(f, CHILD, CHILD, first).process, flow_process(f, CHILD));
}

/* The exit of the first one was lost. */
Test(process_events, pid_is_used_again_without_an_exit)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t first;

	run_tool(f, CHILD);
	first = fake_now_ns;
	(void)track_drain(f->track);
	fake_fork(&f->host, SHELL, CHILD);
	(void)track_drain(f->track);
	cr_expect_neq(flow_sample_at(f, CHILD, CHILD, first).process->end_ns, 0);
	cr_expect_str_eq(flow_path(f, CHILD, CODE), "/bin/sh");
	cr_expect_eq(flow_stats(f).processes, 2);
}

/* execve in a thread ends all others, and the caller becomes the main one. */
Test(process_events, exec_in_a_thread)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_thread(&f->host, SHELL, 101);
	fake_thread(&f->host, SHELL, 102);
	fake_exit(&f->host, SHELL, SHELL); /* the main one goes first */
	(void)track_drain(f->track);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_LIST, "the process goes on");
	cr_expect_eq(flow_process(f, SHELL)->n_threads, 2);
	fake_exit(&f->host, SHELL, 102);
	fake_exec(&f->host, SHELL, SHELL, "tool");
	fake_mmap(&f->host, SHELL, CODE, 2, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_eq(flow_process(f, SHELL)->n_threads, 0);
	cr_expect_not(flow_process(f, SHELL)->main_over);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/tool");
	fake_exit(&f->host, SHELL, SHELL);
	(void)track_drain(f->track);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_ABSENT);
}

Test(process_events, exec_twice)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t between;

	run_tool(f, CHILD);
	between = fake_now_ns;
	fake_exec(&f->host, CHILD, CHILD, "sh");
	fake_mmap(&f->host, CHILD, CODE, 4, 0, "/bin/sh");
	(void)track_drain(f->track);
	cr_expect(flow_process(f, CHILD)->save_stack, "it may do so once more");
	cr_expect_str_eq(flow_path(f, CHILD, CODE), "/bin/sh");
	cr_expect_str_eq(flow_sample_at(f, CHILD, CHILD, between).image->comm, "tool");
	cr_expect_str_eq(flow_path_at(f, proc_history_at(flow_process(f, CHILD), between), CODE),
			 "/bin/tool");
	flow_wait(f, 2 * NS_PER_SEC);
	track_sweep(f->track, fake_now_ns);
	cr_expect_not(flow_process(f, CHILD)->save_stack);
}

Test(process_events, former_mappings_are_known_while_samples_wait)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct process *waiting;
	uint64_t between;

	run_tool(f, CHILD);
	between = fake_now_ns;
	fake_exec(&f->host, CHILD, CHILD, "sh");
	fake_mmap(&f->host, CHILD, CODE, 4, 0, "/bin/sh");
	(void)track_drain(f->track);
	waiting = process_ref(flow_process(f, CHILD));
	flow_wait(f, 60 * NS_PER_SEC);
	track_sweep(f->track, fake_now_ns);
	cr_expect_str_eq(flow_path_at(f, proc_history_at(waiting, between), CODE), "/bin/tool");
	process_unref(waiting);
	track_sweep(f->track, fake_now_ns);
	cr_expect_str_eq(flow_path_at(f, proc_history_at(flow_process(f, CHILD), between), CODE), "/bin/sh",
			 "nobody needs the former ones");
}

/* Nothing is known of the parent: the child is read from /proc. */
Test(process_events, fork_of_an_unknown_parent)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_process_add(&f->host, 300, 1, "daemon");
	fake_process_map(&f->host, 300, LIB, 1, 0, "/bin/tool");
	fake_fork(&f->host, 299, 300);
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_sample(f, 300, 300).image->comm, "daemon");
	cr_expect_str_eq(flow_path(f, 300, LIB), "/bin/tool");
	cr_expect_eq(flow_slot(f, 300), SLOT_LIST);
}

/* A fork of a fork, of which the first was missed and is gone. */
Test(process_events, fork_of_a_fork_that_is_not_known)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_process_add(&f->host, 302, 1, "grandchild");
	fake_process_map(&f->host, 302, CODE, 4, 0, "/bin/sh");
	fake_fork(&f->host, 301, 302);
	fake_exit(&f->host, 301, 301);
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_sample(f, 302, 302).image->comm, "grandchild");
	cr_expect_str_eq(flow_path(f, 302, CODE), "/bin/sh");
	cr_expect_eq(flow_stats(f).events.exits, 0, "of no known process");
}

Test(process_events, mapping_of_an_unknown_process)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_process_add(&f->host, 300, 1, "late");
	fake_process_map(&f->host, 300, CODE, 4, 0, "/bin/sh");
	fake_process_map(&f->host, 300, LIB, 1, 0, "/bin/tool");
	fake_mmap(&f->host, 300, LIB, 1, 0, "/bin/tool");
	cr_expect(track_drain(f->track));
	cr_expect_str_eq(flow_path(f, 300, CODE), "/bin/sh");
	cr_expect_str_eq(flow_path(f, 300, LIB), "/bin/tool");
}

Test(process_events, threads)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t before, named;

	fake_thread(&f->host, SHELL, 101);
	before = fake_now_ns;
	fake_comm(&f->host, SHELL, 101, "worker");
	named = fake_now_ns;
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_sample_at(f, SHELL, 101, before).thread, "sh",
			 "called as the one that made it");
	cr_expect_str_eq(flow_sample_at(f, SHELL, 101, named).thread, "worker");
	cr_expect_str_eq(flow_sample(f, SHELL, SHELL).thread, "sh");
	cr_expect_eq(flow_stats(f).names.threads, 1);
	fake_exit(&f->host, SHELL, 101);
	(void)track_drain(f->track);
	cr_expect_eq(flow_process(f, SHELL)->n_threads, 0);
	flow_wait(f, 10 * NS_PER_SEC);
	track_drained(f->track, fake_now_ns);
	track_sweep(f->track, fake_now_ns);
	cr_expect_eq(flow_stats(f).names.threads, 0);
}

/* Threads that are older than the agent. */
Test(process_events, older_threads)
{
	_cleanup_flow_ struct flow *f = with_shell();

	strcpy(f->host.processes[0].thread_comm, "pool");
	cr_expect_str_eq(flow_sample(f, SHELL, 105).thread, "pool");
	fake_comm(&f->host, SHELL, 106, "renamed");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_sample_at(f, SHELL, 106, FAKE_START_NS).thread, "sh");
	cr_expect_str_eq(flow_sample(f, SHELL, 106).thread, "renamed");
}

Test(process_events, renamed)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t before = fake_now_ns;

	fake_comm(&f->host, SHELL, SHELL, "sh"); /* as before: no new image */
	(void)track_drain(f->track);
	cr_expect_eq(flow_process(f, SHELL)->n_images, 1);
	fake_comm(&f->host, SHELL, SHELL, "busy");
	fake_comm(&f->host, 999, 999, "nobody");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_sample(f, SHELL, SHELL).image->comm, "busy");
	cr_expect_str_eq(flow_sample(f, SHELL, SHELL).thread, "busy");
	cr_expect_str_eq(flow_sample_at(f, SHELL, SHELL, before).image->comm, "sh");
	cr_expect_eq(flow_sample(f, SHELL, SHELL).image->program,
		     flow_sample_at(f, SHELL, SHELL, before).image->program, "the same program");
}

/* The main thread goes first, and the exit of the other one is lost: /proc tells. */
Test(process_events, main_thread_first)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_thread(&f->host, SHELL, 101);
	fake_exit(&f->host, SHELL, SHELL);
	(void)track_drain(f->track);
	f->host.processes[0].n_threads = 2;
	track_sweep(f->track, fake_now_ns);
	cr_expect_eq(flow_process(f, SHELL)->end_ns, 0);
	f->host.processes[0].n_threads = 1;
	track_sweep(f->track, fake_now_ns);
	cr_expect_neq(flow_process(f, SHELL)->end_ns, 0);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_ABSENT);
}

Test(process_events, main_thread_last)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_thread(&f->host, SHELL, 101);
	fake_exit(&f->host, SHELL, 101);
	(void)track_drain(f->track);
	cr_expect_eq(flow_process(f, SHELL)->end_ns, 0);
	fake_exit(&f->host, SHELL, SHELL);
	(void)track_drain(f->track);
	cr_expect_neq(flow_process(f, SHELL)->end_ns, 0);
}

/* --- mappings */

Test(process_events, mapping_is_replaced)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t before;

	fake_mmap(&f->host, SHELL, LIB, 2, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_not(flow_process(f, SHELL)->save_stack, "nothing was there");
	before = fake_now_ns;
	fake_mmap(&f->host, SHELL, LIB, 2, 0, "/bin/sh");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/sh");
	cr_expect(flow_process(f, SHELL)->save_stack);
	cr_expect_str_eq(flow_path_at(f, proc_history_at(flow_process(f, SHELL), before), LIB), "/bin/tool");
	flow_wait(f, 20 * NS_PER_SEC);
	track_sweep(f->track, fake_now_ns);
	cr_expect_str_eq(flow_path_at(f, proc_history_at(flow_process(f, SHELL), before), LIB), "/bin/sh",
			 "no sample of that time comes any more");
}

/* A runtime maps the same memory again and again: no news, and not reported any more. */
Test(process_events, known_memory_is_ignored)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_mmap(&f->host, SHELL, LIB, 8, 0, NULL);
	cr_expect(track_drain(f->track));
	fake_mmap(&f->host, SHELL, LIB + 4 * FAKE_PAGE, 1, 0, NULL);
	cr_expect_not(track_drain(f->track));
	cr_expect_eq(f->host.ignored.n, 1);
	cr_expect_eq(f->host.ignored.pid, SHELL);
	cr_expect_eq(f->host.ignored.start, LIB);
	cr_expect_eq(f->host.ignored.end, LIB + 8 * FAKE_PAGE);
	fake_mmap(&f->host, SHELL, CODE, 4, 0, "/bin/sh"); /* known, of a file: reported each time */
	cr_expect_not(track_drain(f->track));
	cr_expect_eq(f->host.ignored.n, 1);
}

Test(process_events, memory_that_is_not_executable)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_mmap(&f->host, SHELL, LIB, 2, 0, "/bin/tool");
	f->host.events[0].event.mmap.executable = false;
	cr_expect_not(track_drain(f->track));
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "");
}

/* A forked process that changes its mappings does not change its parent's. */
Test(process_events, mappings_are_shared_until_one_changes)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_process_add(&f->host, CHILD, SHELL, "sh");
	fake_fork(&f->host, SHELL, CHILD);
	(void)track_drain(f->track);
	cr_expect_eq(flow_process(f, CHILD)->maps, flow_process(f, SHELL)->maps);
	fake_mmap(&f->host, CHILD, LIB, 2, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, CHILD, LIB), "/bin/tool");
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "");
}

Test(process_events, full_list_of_mappings)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct process *p = flow_process(f, SHELL);
	struct proc_mapping m = {.offset = 0, .file = proc_maps_at(p->maps, 0)->file};

	for (uint64_t i = 0; p->maps->n < PROC_MAPS_MAX - 1; i++) {
		m.start = LIB + 2 * i * FAKE_PAGE;
		m.end = m.start + FAKE_PAGE;
		cr_assert_eq(proc_maps_insert(p->maps, m), 0);
	}
	fake_mmap(&f->host, SHELL, 2 * LIB, 1, 0, "/bin/tool");
	fake_mmap(&f->host, SHELL, 2 * LIB + 4 * FAKE_PAGE, 1, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_geq(flow_stats(f).events.mappings_full, 1);
	cr_expect_eq(flow_stats(f).rescans, 0, "reading it again would not help");
}

/* --- limits */

Test(process_events, full_process_table)
{
	_cleanup_flow_ struct flow *f = flow_prepare();

	f->options.max_processes = 2;
	fake_process_add(&f->host, SHELL, 1, "sh");
	flow_start(f);
	fake_fork(&f->host, SHELL, 201);
	fake_fork(&f->host, SHELL, 202);
	(void)track_drain(f->track);
	cr_expect_eq(flow_stats(f).processes, 2);
	cr_expect_eq(flow_stats(f).processes_full, 1);
	cr_expect_null(flow_process(f, 202));
	cr_expect_eq(flow_stats(f).rescans, 0);
	fake_exit(&f->host, 201, 201);
	fake_process_add(&f->host, 202, SHELL, "second");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_sample(f, 202, 202).image->comm, "second", "there is room again");
}

Test(process_events, no_events_can_be_read)
{
	_cleanup_flow_ struct flow *f = with_shell();

	run_tool(f, CHILD);
	f->host.drain_error = -12;
	cr_expect_not(track_drain(f->track));
	cr_expect_eq(flow_stats(f).rescans, 0, "nothing is lost: the events wait");
	f->host.drain_error = 0;
	cr_expect(track_drain(f->track));
	cr_expect_str_eq(flow_path(f, CHILD, CODE), "/bin/tool");
}
