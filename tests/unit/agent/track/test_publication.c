// SPDX-License-Identifier: Apache-2.0
/* When a changed process is published: with and without room in the arena, and after grace periods. */
#include "agent/proc/table.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL FLOW_SHELL
#define CHILD 200u
#define CODE FLOW_SHELL_CODE
#define LIB 0x7f0000000000ull

#define BLOCKS_MAX 64

/* Blocks without a use of their own that leave no room in the arena. */
struct filling {
	struct arena_block blocks[BLOCKS_MAX];
	size_t n;
};

/* A shell with one mapping. */
static struct flow *with_segments(size_t n)
{
	struct flow *f = flow_prepare();

	f->options.table_bytes = n * SEGMENT_BYTES;
	flow_add_shell(f);
	flow_start(f);
	cr_assert_eq(flow_slot(f, SHELL), SLOT_LIST);
	return f;
}

static struct flow *with_shell(void)
{
	return with_segments(1);
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
	fake_cpu_step_ns = 2 * NS_PER_MS; /* of which one passes while the list is written */
	(void)track_drain(f->track);
	fake_cpu_step_ns = 0;
	cr_expect_eq(flow_list(f, SHELL)->n, 2);
	fake_mmap(&f->host, SHELL, LIB + 64 * FAKE_PAGE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	flow_wait(f, 90 * NS_PER_MS);
	track_progress(f->track);
	cr_expect_eq(flow_list(f, SHELL)->n, 2, "1/50 of the time goes into such a list");
	flow_wait(f, 10 * NS_PER_MS);
	track_progress(f->track);
	cr_expect_eq(flow_list(f, SHELL)->n, 3);
	fake_mmap(&f->host, SHELL, LIB + 128 * FAKE_PAGE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_eq(flow_list(f, SHELL)->n, 4, "the last one was cheap");
}

/* Time that passes while the list is written is no cost of it: the agent may wait for a CPU. */
Test(publication, waiting_for_a_cpu_is_no_cost)
{
	_cleanup_flow_ struct flow *f = with_shell();

	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	fake_now_step_ns = 100 * NS_PER_MS;
	(void)track_drain(f->track);
	fake_now_step_ns = 0;
	fake_mmap(&f->host, SHELL, LIB + 64 * FAKE_PAGE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_eq(flow_list(f, SHELL)->n, 3);
}

/* --- one process with very many mappings beside small ones */

#define HUGE 50u /* below the pids of the small ones */
#define HUGE_2 51u
#define SMALL(i) (1000u + (i))
#define N_SMALL 200u
#define N_MAPPINGS 30000u
#define PIECE(i) (LIB + 4ull * (i) * FAKE_PAGE)

/* It has pieces of a file, with gaps between them. */
static void huge_add(struct flow *f, uint32_t pid)
{
	struct process *p;
	uint32_t file;

	fake_process_add(&f->host, pid, 1, "huge");
	fake_fork(&f->host, SHELL, pid);
	fake_exec(&f->host, pid, pid, "huge");
	fake_mmap(&f->host, pid, CODE, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	p = flow_process(f, pid);
	file = proc_maps_find(p->maps, CODE)->file;
	cr_assert_eq(proc_maps_own(p), 0);
	for (uint64_t i = 0; i < N_MAPPINGS; i++)
		cr_assert_eq(proc_maps_insert(p->maps, (struct proc_mapping){PIECE(i), PIECE(i) + FAKE_PAGE,
									     i * FAKE_PAGE, file}),
			     0);
	fake_mmap(&f->host, pid, PIECE(N_MAPPINGS), 1, 0, "/bin/tool");
	(void)track_drain(f->track);
	flow_wait(f, NS_PER_SEC);
	track_progress(f->track);
	(void)fake_pool_work(&f->host.workers);
	cr_assert_geq(flow_list(f, pid)->n, N_MAPPINGS);
}

static void small_processes_run(struct flow *f)
{
	for (uint32_t i = 0; i < N_SMALL; i++) {
		fake_process_add(&f->host, SMALL(i), SHELL, "sh");
		fake_fork(&f->host, SHELL, SMALL(i));
		fake_exec(&f->host, SMALL(i), SMALL(i), "tool");
		fake_mmap(&f->host, SMALL(i), CODE, 4, 0, "/bin/tool");
	}
}

/* Pieces are mapped again, at other places in the file. */
static void huge_changes(struct flow *f, uint32_t pid, uint64_t n, uint64_t round)
{
	for (uint64_t i = 0; i < n; i++)
		fake_mmap(&f->host, pid, PIECE(i * 13 % N_MAPPINGS), 1, (i + round) * FAKE_PAGE, "/bin/tool");
}

/* The file of all of these mappings is opened a few times, and all small processes are published first. */
Test(publication, small_processes_beside_a_huge_one)
{
	_cleanup_flow_ struct flow *f = with_segments(FAKE_SEGMENTS_MAX);
	uint64_t lists, next = 0;
	unsigned opens;
	uint32_t huge;

	huge_add(f, HUGE);
	opens = f->host.n_opens;
	lists = published(f).lists;
	for (uint64_t i = 0; i < 4; i++) { /* 2,000 changes, in a second */
		huge_changes(f, HUGE, 500, 1 + i);
		if (i == 3)
			break;
		flow_wait(f, NS_PER_SEC / 4);
		(void)track_drain(f->track);
		(void)fake_pool_work(&f->host.workers);
	}
	small_processes_run(f);
	(void)track_drain(f->track);
	cr_expect_leq(f->host.n_opens - opens, 20 + N_SMALL, "%u files opened", f->host.n_opens - opens);
	cr_expect_leq(published(f).lists - lists, 4 + N_SMALL);
	huge = flow_list(f, HUGE)->generation;
	for (uint32_t i = 0; i < N_SMALL; i++) {
		cr_assert_eq(flow_slot(f, SMALL(i)), SLOT_LIST, "in the same turn");
		cr_expect_lt(flow_list(f, SMALL(i))->generation, huge, "before the huge one");
		next += flow_list(f, SMALL(i))->n;
	}
	cr_expect_eq(next, N_SMALL);
	cr_expect_eq(flow_stats(f).events.mappings_left, 0, "each change is applied");
	cr_expect_eq(proc_maps_find(flow_process(f, HUGE)->maps, PIECE(13))->offset, 5 * FAKE_PAGE);
}

/* Long lists together take a bounded share of the time, and each has its turn. */
Test(publication, long_lists_take_turns)
{
	_cleanup_flow_ struct flow *f = with_segments(FAKE_SEGMENTS_MAX);
	uint32_t generation[2], turns[2] = {0, 0};

	huge_add(f, HUGE);
	huge_add(f, HUGE_2);
	fake_cpu_step_ns = 5 * NS_PER_MS;
	for (uint64_t i = 0; i < 100; i++) { /* each 20 ms */
		for (uint32_t k = 0; k < 2; k++) {
			generation[k] = flow_list(f, HUGE + k)->generation;
			huge_changes(f, HUGE + k, 1, 1 + i);
		}
		flow_wait(f, 20 * NS_PER_MS);
		(void)track_drain(f->track);
		for (uint32_t k = 0; k < 2; k++)
			turns[k] += flow_list(f, HUGE + k)->generation != generation[k];
		(void)fake_pool_work(&f->host.workers);
	}
	fake_cpu_step_ns = 0;
	cr_expect(turns[0] + turns[1] >= 8 && turns[0] + turns[1] <= 11, "%u and %u in two seconds", turns[0],
		  turns[1]);
	cr_expect(turns[0] >= 4 && turns[1] >= 4, "%u, %u", turns[0], turns[1]);
}

/* A fork of such a process has its list, and does not wait. */
Test(publication, fork_of_a_huge_process)
{
	_cleanup_flow_ struct flow *f = with_segments(FAKE_SEGMENTS_MAX);

	huge_add(f, HUGE);
	fake_cpu_step_ns = 5 * NS_PER_MS;
	huge_changes(f, HUGE, 1, 1);
	(void)track_drain(f->track);
	fake_process_add(&f->host, CHILD, HUGE, "huge");
	fake_fork(&f->host, HUGE, CHILD);
	(void)track_drain(f->track);
	fake_cpu_step_ns = 0;
	cr_expect_eq(flow_list(f, CHILD), flow_list(f, HUGE));
}

/* Two processes change in turn, thousands of times: each is published once. */
Test(publication, two_processes_in_turn)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t lists;

	child_runs_tool(f);
	lists = published(f).lists;
	for (uint64_t i = 0; i < 200; i++)
		fake_mmap(&f->host, i & 1 ? SHELL : CHILD, PIECE(i), 1, 0, "/bin/tool");
	(void)track_drain(f->track);
	cr_expect_eq(published(f).lists, lists + 2);
	cr_expect_eq(flow_list(f, SHELL)->n, 101);
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
