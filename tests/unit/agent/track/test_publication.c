// SPDX-License-Identifier: Apache-2.0
/* When a changed process is published: with and without room in the arena, and after grace periods. */
#include "agent/proc/table.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL 100u
#define CHILD 200u
#define CODE 0x400000ull
#define LIB 0x7f0000000000ull

#define BLOCKS_MAX 64

/* Blocks without a use of their own that leave no room in the arena. */
struct filling {
	struct arena_block blocks[BLOCKS_MAX];
	size_t n;
};

/* A shell with one mapping. The arena has one segment. */
static struct flow *with_shell(void)
{
	struct flow *f = flow_prepare();

	f->options.table_bytes = SEGMENT_BYTES;
	fake_file_add(&f->host, "/bin/sh", false);
	fake_file_add(&f->host, "/bin/tool", false);
	fake_process_add(&f->host, SHELL, 1, "sh");
	fake_process_map(&f->host, SHELL, CODE, 4, 0, "/bin/sh");
	flow_wait(f, NS_PER_SEC);
	flow_start(f);
	cr_assert_eq(flow_slot(f, SHELL), SLOT_LIST);
	return f;
}

static struct filling fill(struct flow *f)
{
	const struct arena_owner nobody = {ARENA_LIST, 0};
	struct filling filling = {.n = 0};

	for (size_t len = SEGMENT_BYTES; len >= 64; len /= 2)
		while (filling.n < BLOCKS_MAX &&
		       arena_alloc(track_arena(f->track), len, nobody, &filling.blocks[filling.n]) == 0)
			filling.n++;
	cr_assert_lt(filling.n, BLOCKS_MAX);
	return filling;
}

/* Gives the bytes back, which are free after the next grace period. */
static void empty(struct flow *f, const struct filling *filling)
{
	for (size_t i = 0; i < filling->n; i++)
		arena_retire(track_arena(f->track), filling->blocks[i]);
}

static void end_grace(struct flow *f)
{
	track_progress(f->track);
	cr_assert_eq(fake_pool_work(&f->host.workers), 1, "a grace period had begun");
	track_progress(f->track);
}

/* A child of the shell that runs another program. */
static void child_runs_tool(struct flow *f)
{
	fake_process_add(&f->host, CHILD, SHELL, "tool");
	fake_fork(&f->host, SHELL, CHILD);
	fake_exec(&f->host, CHILD, CHILD, "tool");
	fake_mmap(&f->host, CHILD, CODE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
}

static struct publish_stats published(const struct flow *f)
{
	return flow_stats(f).publish;
}

/* --- no room */

Test(publication, full_arena_is_tried_again_after_a_second)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t before = published(f).no_memory;

	(void)fill(f);
	child_runs_tool(f);
	cr_expect_eq(flow_slot(f, CHILD), SLOT_ABSENT);
	cr_expect_eq(published(f).no_memory, before + 1);
	flow_wait(f, NS_PER_SEC / 2);
	track_progress(f->track);
	cr_expect_eq(published(f).no_memory, before + 1, "not tried at every turn");
	flow_wait(f, NS_PER_SEC / 2);
	track_progress(f->track);
	cr_expect_eq(published(f).no_memory, before + 2);
	cr_expect_eq(flow_slot(f, SHELL), SLOT_LIST);
}

Test(publication, grace_period_brings_room_at_once)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct filling filling = fill(f);
	uint64_t then;

	child_runs_tool(f);
	cr_expect_eq(flow_slot(f, CHILD), SLOT_ABSENT);
	then = fake_now_ns;
	empty(f, &filling);
	end_grace(f);
	cr_expect_eq(fake_now_ns, then, "without waiting for the second to pass");
	cr_expect_eq(flow_slot(f, CHILD), SLOT_LIST);
	cr_expect_eq(f->host.n_graces, 1);
}

/* The slot names the list that it has, and that list is neither freed nor changed. */
Test(publication, full_arena_leaves_the_list_that_is_there)
{
	_cleanup_flow_ struct flow *f = with_shell();
	const struct mapping_list *list = flow_list(f, SHELL);
	uint32_t generation = list->generation;
	struct filling filling = fill(f);

	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_str_eq(flow_path(f, SHELL, LIB), "/bin/tool", "known, though not published");
	cr_expect(publisher_outdated(track_publisher(f->track), flow_process(f, SHELL)->maps));
	for (unsigned i = 0; i < 3; i++) {
		flow_wait(f, 10 * NS_PER_SEC);
		track_sweep(f->track, fake_now_ns);
		track_progress(f->track);
		(void)fake_pool_work(&f->host.workers);
		cr_expect_eq(flow_list(f, SHELL), list);
		cr_expect(list->generation == generation && list->n == 1);
	}
	empty(f, &filling);
	end_grace(f);
	cr_expect_eq(flow_list(f, SHELL)->n, 2);
	cr_expect_not(publisher_outdated(track_publisher(f->track), flow_process(f, SHELL)->maps));
}

/* All lists are out of date when tables come; those that find no room are written later. */
Test(publication, tables_come_while_the_arena_is_full)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint32_t generation = flow_list(f, SHELL)->generation;
	struct filling filling = fill(f);

	flow_settle(f);
	cr_expect(publisher_outdated(track_publisher(f->track), flow_process(f, SHELL)->maps));
	cr_expect_eq(flow_list(f, SHELL)->generation, generation);
	empty(f, &filling);
	end_grace(f);
	cr_expect_neq(flow_list(f, SHELL)->generation, generation);
	cr_expect_not(publisher_outdated(track_publisher(f->track), flow_process(f, SHELL)->maps));
}

Test(publication, process_ends_while_it_waits_for_room)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct filling filling = fill(f);
	uint64_t tried;

	child_runs_tool(f);
	tried = published(f).no_memory;
	fake_exit(&f->host, CHILD, CHILD);
	fake_process_remove(&f->host, CHILD);
	(void)track_drain(f->track);
	flow_wait(f, 5 * NS_PER_SEC);
	track_sweep(f->track, fake_now_ns);
	track_progress(f->track);
	cr_expect_eq(published(f).no_memory, tried);
	empty(f, &filling);
	end_grace(f);
	cr_expect_eq(flow_slot(f, CHILD), SLOT_ABSENT);
}

/* --- lists that take long to write */

Test(publication, costly_list_is_written_less_often)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	fake_now_step_ns = 2 * NS_PER_MS; /* of which one passes while the list is written */
	(void)track_drain(f->track);
	fake_now_step_ns = 0;
	cr_expect_eq(flow_list(f, SHELL)->n, 2);
	fake_mmap(&f->host, SHELL, LIB + 64 * FAKE_PAGE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	flow_wait(f, 30 * NS_PER_MS);
	track_progress(f->track);
	cr_expect_eq(flow_list(f, SHELL)->n, 2, "1/20 of the time goes into such a list");
	flow_wait(f, 10 * NS_PER_MS);
	track_progress(f->track);
	cr_expect_eq(flow_list(f, SHELL)->n, 3);
	fake_mmap(&f->host, SHELL, LIB + 128 * FAKE_PAGE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_eq(flow_list(f, SHELL)->n, 4, "the last one was cheap");
}

/* Many changes of one drain are one list. */
Test(publication, one_list_for_all_changes_of_a_drain)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t lists = published(f).lists, epoch = track_epoch(f->track);

	for (unsigned i = 0; i < 20; i++)
		fake_mmap(&f->host, SHELL, LIB + i * 64 * FAKE_PAGE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_eq(published(f).lists, lists + 1);
	cr_expect_eq(flow_list(f, SHELL)->n, 21);
	cr_expect_neq(track_epoch(f->track), epoch, "samples that wait are tried again");
	epoch = track_epoch(f->track);
	track_progress(f->track);
	cr_expect_eq(track_epoch(f->track), epoch, "nothing has changed");
}

/* --- grace periods */

/* The workers' queue has no room for the wait: the period begins later, and no memory is reused before. */
Test(publication, grace_period_finds_the_queue_full)
{
	_cleanup_flow_ struct flow *f = with_shell();

	f->host.workers.full = true;
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	track_progress(f->track);
	cr_expect_eq(f->host.n_graces, 0);
	cr_expect_gt(flow_stats(f).arena.retired_bytes, 0);
	f->host.workers.full = false;
	end_grace(f);
	cr_expect_eq(f->host.n_graces, 1);
	cr_expect_eq(flow_stats(f).arena.retired_bytes, 0);
}

/* What is retired while programs are being waited for may be read by programs that began since. */
Test(publication, one_grace_period_at_a_time)
{
	_cleanup_flow_ struct flow *f = with_shell();
	size_t retired;

	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	retired = flow_stats(f).arena.retired_bytes;
	fake_mmap(&f->host, SHELL, LIB + 64 * FAKE_PAGE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_gt(flow_stats(f).arena.retired_bytes, retired);
	cr_expect_eq(fake_pool_work(&f->host.workers), 1);
	cr_expect_gt(flow_stats(f).arena.retired_bytes, 0, "the second list's");
	end_grace(f);
	cr_expect_eq(flow_stats(f).arena.retired_bytes, 0);
	cr_expect_eq(f->host.n_graces, 2);
}

/* --- samples that bring their stack */

static void sweep_after(struct flow *f, uint64_t ns)
{
	flow_wait(f, ns);
	track_sweep(f->track, fake_now_ns);
	track_progress(f->track);
}

/* Until its execve is published, a fork is walked with its parent's list. */
Test(publication, fork_sends_its_stack_for_a_second)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_fork(&f->host, SHELL, CHILD);
	(void)track_drain(f->track);
	cr_expect_eq(flow_list(f, CHILD), flow_list(f, SHELL), "shared");
	cr_expect(flow_sends_stack(f, CHILD));
	cr_expect_not(flow_sends_stack(f, SHELL));
	sweep_after(f, NS_PER_SEC / 2);
	cr_expect(flow_sends_stack(f, CHILD));
	sweep_after(f, NS_PER_SEC / 2);
	cr_expect_not(flow_sends_stack(f, CHILD));
	cr_expect_eq(flow_slot(f, CHILD), SLOT_LIST);
}

/* A program that replaces code does so again, and so do its forks. */
Test(publication, replaced_code_sends_its_stack_for_ten_seconds)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_mmap(&f->host, SHELL, CODE, 2, 0, "/bin/tool");
	fake_fork(&f->host, SHELL, CHILD);
	(void)track_drain(f->track);
	cr_expect(flow_sends_stack(f, SHELL) && flow_sends_stack(f, CHILD));
	sweep_after(f, 9 * NS_PER_SEC);
	cr_expect(flow_sends_stack(f, SHELL) && flow_sends_stack(f, CHILD));
	sweep_after(f, NS_PER_SEC);
	cr_expect_not(flow_sends_stack(f, SHELL) || flow_sends_stack(f, CHILD));
}
