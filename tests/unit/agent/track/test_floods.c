// SPDX-License-Identifier: Apache-2.0
/* Processes that map memory too fast for each event to be applied, and files that are mapped very often. */
#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "agent/track/event_files.h"
#include "agent/track/floods.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL FLOW_SHELL
#define CHILD 200u
#define CODE FLOW_SHELL_CODE
#define LIB 0x7f0000000000ull
#define PIECE(i) (LIB + 4ull * (i) * FAKE_PAGE)

static struct flow *with_shell(void)
{
	struct flow *f = flow_prepare();

	flow_add_shell(f);
	flow_start(f);
	return f;
}

/* The shell maps pieces of the tool's file, all within a few milliseconds. */
static void flood(struct flow *f, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		fake_mmap(&f->host, SHELL, PIECE(i), 1, i * FAKE_PAGE, "/bin/tool");
	(void)track_drain(f->track);
}

/* What the process really has by now: one mapping. */
static void set_lines(struct flow *f)
{
	f->host.processes[0].n_lines = 0;
	fake_process_map(&f->host, SHELL, 2 * LIB, 4, 0, "/bin/tool");
}

Test(floods, mappings_are_read_instead)
{
	_cleanup_flow_ struct flow *f = with_shell();

	set_lines(f);
	flood(f, FLOOD_EVENTS + 300);
	cr_expect_eq(flow_stats(f).events.mappings_left, 300);
	cr_expect_str_eq(flow_path(f, SHELL, PIECE(FLOOD_EVENTS - 1)), "/bin/tool", "applied");
	cr_expect_str_eq(flow_path(f, SHELL, PIECE(FLOOD_EVENTS)), "", "not applied");
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh", "what was known is still there");
	cr_expect(flow_sends_stack(f, SHELL));
	cr_expect_eq(flow_stats(f).reader.rereads, 0, "not at once");
	flow_wait(f, FLOOD_WINDOW_NS);
	(void)track_drain(f->track);
	cr_expect_eq(flow_stats(f).reader.rereads, 1);
	cr_expect_str_eq(flow_path(f, SHELL, 2 * LIB), "/bin/tool");
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "");
	cr_expect_eq(flow_list(f, SHELL)->n, 1, "published");
	flow_wait(f, NS_PER_SEC);
	(void)track_drain(f->track);
	cr_expect_eq(flow_stats(f).reader.rereads, 1, "once");
	fake_mmap(&f->host, SHELL, CODE, 2, 0, "/bin/sh");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh", "applied as before");
}

/* Until the answer comes, samples find the mappings that were known; later ones find those of their time. */
Test(floods, answer_comes_late)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t before = fake_now_ns;

	set_lines(f);
	flood(f, FLOOD_EVENTS + 1);
	flow_wait(f, FLOOD_WINDOW_NS);
	f->host.readers.answer = FAKE_LATE;
	(void)track_drain(f->track);
	f->host.readers.answer = FAKE_NOW;
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh");
	flow_wait(f, NS_PER_SEC);
	(void)track_drain(f->track);
	cr_expect_eq(flow_stats(f).reader.rereads, 1, "one request at a time");
	(void)fake_pool_work(&f->host.readers);
	track_progress(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "");
	cr_expect_str_eq(flow_path_at(f, proc_history_at(flow_process(f, SHELL), before), CODE), "/bin/sh");
}

/* A flood that does not end: reading takes a bounded share of the time. */
Test(floods, reading_is_bounded_by_its_cost)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t rereads;

	for (unsigned i = 0; i < 100; i++) { /* ten seconds, each read takes 20 ms */
		fake_cpu_step_ns = 0;
		for (uint64_t k = 0; k < FLOOD_EVENTS + 1; k++)
			fake_mmap(&f->host, SHELL, PIECE(k), 1, k * FAKE_PAGE, "/bin/tool");
		fake_cpu_step_ns = 10 * NS_PER_MS;
		(void)track_drain(f->track);
		flow_wait(f, NS_PER_SEC / 10);
	}
	fake_cpu_step_ns = 0;
	rereads = flow_stats(f).reader.rereads;
	cr_expect(rereads >= 2 && rereads <= 20, "%lu", (unsigned long)rereads);
}

/* The other processes' events are applied. */
Test(floods, others_are_not_concerned)
{
	_cleanup_flow_ struct flow *f = with_shell();

	for (uint64_t i = 0; i < FLOOD_EVENTS + 100; i++)
		fake_mmap(&f->host, SHELL, PIECE(i), 1, i * FAKE_PAGE, "/bin/tool");
	fake_process_add(&f->host, CHILD, 1, "tool");
	fake_fork(&f->host, 1, CHILD);
	fake_exec(&f->host, CHILD, CHILD, "tool");
	fake_mmap(&f->host, CHILD, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, CHILD, LIB), "/bin/tool");
	cr_expect_eq(flow_slot(f, CHILD), SLOT_LIST);
}

/* The new program's mappings are applied, whatever the one before did. */
Test(floods, execve_ends_a_flood)
{
	_cleanup_flow_ struct flow *f = with_shell();

	flood(f, FLOOD_EVENTS + 1);
	flow_wait(f, FLOOD_WINDOW_NS / 2);
	fake_exec(&f->host, SHELL, SHELL, "tool");
	flow_wait(f, FLOOD_WINDOW_NS);
	fake_mmap(&f->host, SHELL, CODE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/tool");
	cr_expect_eq(flow_stats(f).events.mappings_left, 1);
}

/* A child has what its parent has, also what is not known of that. */
Test(floods, fork_during_a_flood)
{
	_cleanup_flow_ struct flow *f = with_shell();

	flood(f, FLOOD_EVENTS + 1);
	fake_process_add(&f->host, CHILD, SHELL, "sh");
	fake_process_map(&f->host, CHILD, 2 * LIB, 4, 0, "/bin/tool");
	fake_fork(&f->host, SHELL, CHILD);
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, CHILD, 2 * LIB), "");
	flow_wait(f, 2 * FLOOD_WINDOW_NS);
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, CHILD, 2 * LIB), "/bin/tool");
}

/* --- files */

Test(event_files, opened_rarely_when_mapped_often)
{
	_cleanup_flow_ struct flow *f = with_shell();
	unsigned opens = f->host.n_opens;

	flood(f, 300);
	cr_expect_eq(f->host.n_opens, opens + EVENT_FILES_OFTEN);
	cr_expect_str_eq(flow_path(f, SHELL, PIECE(299)), "/bin/tool");
	flow_wait(f, 2 * NS_PER_SEC);
	opens = f->host.n_opens;
	flood(f, 300);
	cr_expect_leq(f->host.n_opens, opens + 1, "once a second: %u", f->host.n_opens - opens);
	flow_wait(f, 2 * NS_PER_SEC);
	fake_mmap(&f->host, SHELL, LIB, 1, 7 * FAKE_PAGE, "/bin/sh");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/sh", "another file");
}

/* A file is opened again for another program of the same pid, and for another path of the same inode. */
Test(event_files, what_tells_files_apart)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct fake_file *other = fake_file_add(&f->host, "/subvolume/tool", false);
	unsigned opens;

	flood(f, 100);
	opens = f->host.n_opens;
	fake_exec(&f->host, SHELL, SHELL, "tool");
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_eq(f->host.n_opens, opens + 1);
	other->inode = f->host.files[1].inode; /* as subvolumes may have it */
	other->generation = f->host.files[1].generation;
	fake_mmap(&f->host, SHELL, PIECE(9), 1, 0, "/subvolume/tool");
	(void)track_drain(f->track);
	cr_expect_eq(f->host.n_opens, opens + 2);
}
