// SPDX-License-Identifier: Apache-2.0
/* Files of mappings: opened at once, late, through others, or never. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL FLOW_SHELL
#define CHILD 200u
#define CODE FLOW_SHELL_CODE
#define LIB 0x7f0000000000ull

static struct flow *with_shell(void)
{
	struct flow *f = flow_prepare();

	flow_add_shell(f);
	fake_file_add(&f->host, "/lib/lib", true);
	flow_start(f);
	return f;
}

/* The shell maps the library, whose file comes late. */
static void map_late(struct flow *f)
{
	f->host.readers.answer = FAKE_LATE;
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	(void)track_drain(f->track);
	f->host.readers.answer = FAKE_NOW;
	cr_assert_str_eq(flow_path(f, SHELL, LIB), "?");
}

Test(openings, late)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t epoch;

	map_late(f);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_LIST, "the other mappings are published");
	epoch = track_epoch(f->track);
	(void)fake_pool_work(&f->host.readers);
	track_progress(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/lib/lib");
	cr_expect_neq(track_epoch(f->track), epoch, "samples that wait are tried again");
	cr_expect_eq(flow_stats(f).openings.opened, 2);
}

/* There was no descriptor for it, say: that passes. */
Test(openings, tried_again_when_something_was_short)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.open_error = -EMFILE;
	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "-");
	cr_expect_gt(flow_stats(f).openings.failed, 0);
	cr_expect_gt(flow_stats(f).gaps[GAP_NOT_OPENED], 0);
	f->host.open_error = 0;
	fake_now_ns += 60 * NS_PER_SEC;
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/lib/lib");
}

/* Forks share the list, or have a copy of it, by the time that the file comes. */
Test(openings, late_and_forked)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t before;

	map_late(f);
	for (uint32_t pid = CHILD; pid < CHILD + 3; pid++) {
		fake_process_add(&f->host, pid, SHELL, "sh");
		fake_fork(&f->host, SHELL, pid);
	}
	(void)track_drain(f->track);
	before = fake_now_ns;
	fake_mmap(&f->host, CHILD + 1, LIB + 16 * FAKE_PAGE, 1, 0, NULL); /* has a copy from here on */
	fake_mmap(&f->host, CHILD + 2, LIB, 4, 0, NULL);		  /* has it in its history only */
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, CHILD, LIB), "?");
	cr_expect_str_eq(flow_path(f, CHILD + 1, LIB), "?");
	cr_expect_str_eq(flow_path(f, CHILD + 2, LIB), "-");
	(void)fake_pool_work(&f->host.readers);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/lib/lib");
	cr_expect_str_eq(flow_path(f, CHILD, LIB), "/lib/lib");
	cr_expect_str_eq(flow_path(f, CHILD + 1, LIB), "/lib/lib");
	cr_expect_str_eq(flow_path(f, CHILD + 2, LIB), "-");
	cr_expect_str_eq(flow_path_at(f, proc_history_at(flow_process(f, CHILD + 2), before), LIB),
			 "/lib/lib");
}

Test(openings, late_and_unmapped)
{
	_cleanup_flow_ struct flow *f = with_shell();

	map_late(f);
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/tool");
}

Test(openings, late_and_ended)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct process *p;
	uint64_t epoch;

	map_late(f);
	p = flow_process(f, SHELL);
	fake_exit(&f->host, SHELL, SHELL);
	(void)track_drain(f->track);
	epoch = track_epoch(f->track);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_str_eq(flow_path_at(f, p->maps, LIB), "/lib/lib", "its last samples have it");
	cr_expect_neq(track_epoch(f->track), epoch);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_ABSENT);
}

/* Whether samples there wait for a table. */
static bool is_waited_for(struct flow *f, uint32_t pid, uint64_t address)
{
	const struct mapping_list *list = flow_list(f, pid);
	const struct mapping_entry *entries;
	uint32_t i = 0;

	cr_assert_not_null(list);
	entries = (const struct mapping_entry *)((const uint8_t *)list + list->entries);
	while (i < list->n && !(entries[i].start <= address && address < entries[i].end))
		i++;
	cr_assert_lt(i, list->n);
	return entries[i].table == TABLE_PENDING;
}

static void stick(struct flow *f)
{
	fake_pool_stick(&f->host.readers);
	flow_wait(f, REQUEST_BLOCKED_NS + 1);
	track_check(f->track);
}

/* The thread that opens the file is stuck. The mapping waits for the file, however long that takes. */
Test(openings, stuck)
{
	_cleanup_flow_ struct flow *f = with_shell();

	map_late(f);
	cr_expect(is_waited_for(f, SHELL, LIB));
	stick(f);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "?");
	track_progress(f->track);
	cr_expect_not(is_waited_for(f, SHELL, LIB), "as memory without a file: samples there do not wait");
	cr_expect_eq(flow_stats(f).openings.stuck, 1);
	cr_expect_eq(flow_stats(f).requests.given_up, 2, "and reading its environment, behind it");
	flow_wait(f, 3600 * NS_PER_SEC);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/lib/lib");
}

/* The thread waits for a CPU: nothing is stuck. */
Test(openings, late_by_minutes)
{
	_cleanup_flow_ struct flow *f = with_shell();

	map_late(f);
	for (int i = 0; i < 60; i++) {
		flow_wait(f, 10 * NS_PER_SEC);
		track_check(f->track);
	}
	cr_expect_eq(flow_stats(f).openings.stuck, 0);
	cr_expect_eq(flow_stats(f).requests.given_up, 0);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/lib/lib");
}

/* A request about the process is stuck: another one is made when it is back. */
Test(openings, parked)
{
	_cleanup_flow_ struct flow *f = with_shell();
	unsigned n_submitted;

	map_late(f);
	stick(f);
	n_submitted = f->host.readers.n_submitted;
	fake_mmap(&f->host, SHELL, LIB + 16 * FAKE_PAGE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB + 16 * FAKE_PAGE), "?");
	cr_expect_eq(f->host.readers.n_submitted, n_submitted, "the process is not touched");
	cr_expect_eq(flow_stats(f).requests.n_parked, 1);
	(void)fake_pool_work(&f->host.readers);
	cr_expect_str_eq(flow_path(f, SHELL, LIB + 16 * FAKE_PAGE), "/bin/tool");
	cr_expect_eq(flow_stats(f).openings.failed, 0);
	cr_expect_eq(flow_stats(f).requests.n_parked, 0);
}

/* Parked for good: nothing is left of it at the end. */
Test(openings, parked_at_the_end)
{
	_cleanup_flow_ struct flow *f = with_shell();

	map_late(f);
	stick(f);
	fake_mmap(&f->host, SHELL, LIB + 16 * FAKE_PAGE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_eq(flow_stats(f).requests.n_parked, 1);
}

/* The pool's queue is full. */
Test(openings, refused)
{
	_cleanup_flow_ struct flow *f = with_shell();

	(void)flow_process(f, SHELL); /* reads its environment */
	f->host.readers.full = true;
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "-");
	cr_expect_eq(flow_stats(f).openings.failed, 1);
	cr_expect_gt(flow_stats(f).requests.refused, 0);
	f->host.readers.full = false;
	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	fake_now_ns += 60 * NS_PER_SEC;
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/tool", "when /proc is read again");
}

/* Three quarters of what may wait; then there is room for another one's. */
Test(openings, a_tenant_leaves_room_for_others)
{
	enum { WAITING_MAX = REQUEST_QUEUE_MAX / 4 * 3, APART = 16 * FAKE_PAGE };
	_cleanup_flow_ struct flow *f = flow_prepare();
	uint64_t at = LIB;

	flow_add_shell(f);
	fake_process_add(&f->host, CHILD, 1, "other");
	fake_process_map(&f->host, CHILD, CODE, 4, 0, "/bin/tool");
	fake_file_add(&f->host, "/lib/lib", true);
	flow_start(f);
	flow_process(f, SHELL)->image->context.tenant = 1;
	flow_process(f, CHILD)->image->context.tenant = 2;
	f->host.readers.answer = FAKE_LATE;
	for (unsigned i = 0; i <= WAITING_MAX; i++, at += APART) {
		char path[32];

		snprintf(path, sizeof path, "/lib/%u", i);
		fake_mmap(&f->host, SHELL, at, 4, 0, path);
		fake_now_ns += NS_PER_MS;
		(void)track_drain(f->track);
	}
	cr_expect_str_eq(flow_path(f, SHELL, at - 2 * APART), "?");
	cr_expect_str_eq(flow_path(f, SHELL, at - APART), "-");
	fake_mmap(&f->host, CHILD, LIB, 4, 0, "/lib/lib");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, CHILD, LIB), "?");
	cr_expect_eq(flow_stats(f).requests.refused, 0);
}

Test(openings, refused_by_rights)
{
	_cleanup_flow_ struct flow *f = with_shell();

	close(f->host.files[1].fd);
	f->host.files[1].fd = -1;
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "-");
	cr_expect_eq(flow_stats(f).openings.failed, 1);
}

/* The process is gone; its parent sees the same file. */
Test(openings, through_the_parent)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_fork(&f->host, SHELL, CHILD);
	fake_exec(&f->host, CHILD, CHILD, "tool");
	fake_mmap(&f->host, CHILD, CODE, 2, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, CHILD, CODE), "/bin/tool");
	cr_expect_eq(flow_stats(f).openings.other, 1);
	cr_expect_eq(f->host.n_opens_other, 1);
}

Test(openings, gone)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_fork(&f->host, SHELL, CHILD);
	fake_exec(&f->host, CHILD, CHILD, "tool");
	fake_mmap(&f->host, CHILD, CODE, 2, 0, "/tmp/deleted");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, CHILD, CODE), "-");
	cr_expect_eq(flow_stats(f).openings.gone, 1);
}

Test(openings, names_of_no_file)
{
	static const char *const names[] = {"//anon", "/dev/zero (deleted)", "/SYSV00000000",
					    "/anon_hugepage", "[heap]"};
	_cleanup_flow_ struct flow *f = with_shell();
	unsigned n_opens = f->host.n_opens;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		fake_mmap(&f->host, SHELL, LIB + i * 16 * FAKE_PAGE, 1, 0, names[i]);
		(void)track_drain(f->track);
		cr_expect_str_eq(flow_path(f, SHELL, LIB + i * 16 * FAKE_PAGE), "-");
	}
	cr_expect_eq(f->host.n_opens, n_opens);
}

/* The agent's own copy stands for that of every process. */
Test(openings, vdso)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_mmap(&f->host, SHELL, LIB, 2, 0, "[vdso]");
	fake_process_add(&f->host, 300, 1, "other");
	fake_process_map(&f->host, 300, LIB, 2, 0, "[vdso]");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "[vdso]");
	cr_expect_str_eq(flow_path(f, 300, LIB), "[vdso]");
}

/* A known file is found by its stat(2), and read once. */
Test(openings, known_file)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t known = flow_stats(f).binaries.known;

	fake_process_add(&f->host, 300, 1, "other");
	fake_process_map(&f->host, 300, CODE, 4, 0, "/bin/sh");
	cr_expect_str_eq(flow_path(f, 300, CODE), "/bin/sh");
	cr_expect_eq(flow_stats(f).binaries.known, known);
	cr_expect_eq(proc_maps_at(flow_process(f, 300)->maps, 0)->file,
		     proc_maps_at(flow_process(f, SHELL)->maps, 0)->file);
}

Test(openings, full_registry)
{
	_cleanup_flow_ struct flow *f = flow_prepare();

	f->options.max_files = 2; /* the vDSO is one */
	fake_file_add(&f->host, "/bin/sh", false);
	fake_file_add(&f->host, "/bin/tool", false);
	fake_process_add(&f->host, SHELL, 1, "sh");
	fake_process_map(&f->host, SHELL, CODE, 4, 0, "/bin/sh");
	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	flow_start(f);
	cr_expect_str_eq(flow_path(f, SHELL, CODE), "/bin/sh");
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "-");
	cr_expect_eq(flow_stats(f).binaries.full, 1);
}

Test(openings, root_for_debug_files)
{
	_cleanup_flow_ struct flow *f = flow_prepare();

	f->options.debug_files = true;
	fake_file_add(&f->host, "/lib/lib", true);
	fake_process_add(&f->host, SHELL, 1, "sh");
	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	flow_start(f);
	cr_expect_eq(f->host.n_roots, 1);
	flow_settle(f);
}

/* A short-lived program that is known: its file is looked for neither there nor through ancestors. */
static void run_lib(struct flow *f)
{
	fake_fork(&f->host, SHELL, CHILD);
	fake_exec(&f->host, CHILD, CHILD, "tool");
	fake_mmap(&f->host, CHILD, LIB, 4, 0, "/lib/lib");
	(void)track_drain(f->track);
}

Test(openings, gone_and_known)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.files[2].generation = 5;
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	run_lib(f);
	cr_expect_eq(f->host.n_opens_other, 0);
	cr_expect_str_eq(flow_path(f, CHILD, LIB), "/lib/lib");
	cr_expect_eq(flow_stats(f).openings.known, 1);
}

/* The inode number has been reused: what is known, and what the parent sees now, is another file. */
Test(openings, gone_and_another_generation)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.files[2].generation = 5;
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	(void)track_drain(f->track);
	f->host.files[2].generation = 6;
	run_lib(f);
	cr_expect_eq(f->host.n_opens_other, 1);
	cr_expect_str_eq(flow_path(f, CHILD, LIB), "-");
	cr_expect_eq(flow_stats(f).openings.failed, 1);
}

/* What lies under the path has been changed since it was mapped. */
Test(openings, changed_since)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_real_offset_ns -= (int64_t)(3600 * NS_PER_SEC);
	run_lib(f);
	cr_expect_eq(f->host.n_opens_other, 1);
	cr_expect_str_eq(flow_path(f, CHILD, LIB), "-");
	cr_expect_eq(flow_stats(f).openings.changed, 1);
	cr_expect_eq(flow_stats(f).openings.failed, 0);
}

/* What is mapped has been changed since it was mapped: what ran before is not known. */
Test(openings, changed_where_it_is_mapped)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_real_offset_ns -= (int64_t)(3600 * NS_PER_SEC);
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "-");
	cr_expect_eq(flow_stats(f).openings.changed, 1);
}

static struct proc_view_ops ops_of_host;

/* Another program is written over the library, while the scan is between two processes. */
static int write_library(void *data, uint32_t pid, uint64_t *ret)
{
	struct fake_host *h = data;
	struct stat st;

	if (pid == CHILD) {
		cr_assert_eq(fstat(h->files[2].fd, &st), 0);
		cr_assert_eq(ftruncate(h->files[2].fd, st.st_size + 1), 0);
	}
	return ops_of_host.mount_namespace(data, pid, ret);
}

Test(openings, changed_between_two_processes_of_a_scan)
{
	_cleanup_flow_ struct flow *f = flow_prepare();
	struct proc_view_ops ops;

	flow_add_shell(f);
	fake_file_add(&f->host, "/lib/lib", true);
	fake_process_map(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	fake_process_add(&f->host, CHILD, 1, "child");
	fake_process_map(&f->host, CHILD, LIB, 4, 0, "/lib/lib");
	ops = ops_of_host = *f->host.host.proc.ops;
	ops.mount_namespace = write_library;
	f->host.host.proc.ops = &ops;
	flow_start(f);
	cr_expect_str_eq(flow_path(f, CHILD, LIB), "/lib/lib");
	cr_expect_neq(proc_maps_find(flow_process(f, CHILD)->maps, LIB)->file,
		      proc_maps_find(flow_process(f, SHELL)->maps, LIB)->file);
}

/* A short-lived program of a known binary whose file has been changed since, or was just before it ran. */
Test(openings, gone_and_changed)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.files[2].generation = 5;
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	(void)track_drain(f->track);
	fake_real_offset_ns -= (int64_t)(3600 * NS_PER_SEC);
	run_lib(f);
	cr_expect_str_eq(flow_path(f, CHILD, LIB), "-");
	cr_expect_eq(flow_stats(f).openings.known, 0);
	cr_expect_eq(flow_stats(f).openings.changed, 1);
}

/* A binary that nothing refers to is forgotten after a while, and opened again when it is mapped. */
Test(openings, unused)
{
	_cleanup_flow_ struct flow *f = with_shell();
	const struct binary_registry *binaries = unwind_tables_binaries(track_tables(f->track));
	unsigned n_opens;
	uint32_t index;

	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/lib/lib");
	(void)track_drain(f->track);
	flow_settle(f);
	index = proc_maps_find(flow_process(f, SHELL)->maps, LIB)->file;
	fake_exit(&f->host, SHELL, SHELL);
	fake_process_remove(&f->host, SHELL);
	(void)track_drain(f->track);
	flow_wait(f, 10 * NS_PER_SEC);
	track_drained(f->track, fake_now_ns);
	track_sweep(f->track, fake_now_ns);
	cr_expect_not_null(binary_registry_get(binaries, index));
	flow_wait(f, 60 * NS_PER_SEC);
	track_sweep(f->track, fake_now_ns);
	cr_expect_null(binary_registry_get(binaries, index), "its device may stand for another soon");
	n_opens = f->host.n_opens;
	fake_process_add(&f->host, 300, 1, "other");
	fake_process_map(&f->host, 300, LIB, 4, 0, "/lib/lib");
	cr_expect_str_eq(flow_path(f, 300, LIB), "/lib/lib");
	cr_expect_eq(f->host.n_opens, n_opens + 1);
	flow_settle(f);
}

static void on_forget(uint32_t index, void *data)
{
	uint32_t *forgotten = data;

	*forgotten = index;
}

/* At the maximum, a binary that nothing refers to makes room for another. */
Test(openings, forgotten)
{
	_cleanup_flow_ struct flow *f = flow_prepare();
	uint32_t forgotten = 0, index;

	f->options.max_files = 2; /* the vDSO is one */
	f->options.forget = on_forget;
	f->options.forget_data = &forgotten;
	fake_file_add(&f->host, "/bin/sh", false);
	fake_file_add(&f->host, "/bin/tool", false);
	fake_process_add(&f->host, SHELL, 1, "sh");
	fake_process_map(&f->host, SHELL, CODE, 4, 0, "/bin/sh");
	flow_start(f);
	flow_settle(f);
	index = proc_maps_find(flow_process(f, SHELL)->maps, CODE)->file;
	fake_exit(&f->host, SHELL, SHELL);
	fake_process_remove(&f->host, SHELL);
	(void)track_drain(f->track);
	flow_wait(f, 10 * NS_PER_SEC);
	track_drained(f->track, fake_now_ns);
	fake_process_add(&f->host, 300, 1, "other");
	fake_process_map(&f->host, 300, CODE, 4, 0, "/bin/tool");
	cr_expect_str_eq(flow_path(f, 300, CODE), "/bin/tool");
	cr_expect_eq(forgotten, index);
}
