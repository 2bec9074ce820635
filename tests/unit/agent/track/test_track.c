// SPDX-License-Identifier: Apache-2.0
/* The flow as a whole: what it refuses to start with, and how long it holds what others refer to. */
#include <errno.h>
#include <string.h>

#include "agent/proc/history.h"
#include "agent/proc/image.h"
#include "agent/proc/table.h"
#include "tests/unit/agent/track/fake_host.h"

#define SHELL 100u
#define CODE 0x400000ull
#define LIB 0x7f0000000000ull

static struct flow *with_shell(void)
{
	struct flow *f = flow_prepare();

	fake_file_add(&f->host, "/bin/sh", false);
	fake_process_add(&f->host, SHELL, 1, "sh");
	fake_process_map(&f->host, SHELL, CODE, 4, 0, "/bin/sh");
	flow_wait(f, NS_PER_SEC);
	flow_start(f);
	flow_settle(f);
	return f;
}

Test(track, budget_below_one_segment)
{
	_cleanup_flow_ struct flow *f = flow_prepare();

	f->options.host = f->host.host;
	f->options.table_bytes = SEGMENT_BYTES - 1;
	cr_expect_eq(track_new(&f->track, &f->options), -EINVAL);
	cr_expect_null(f->track, "written on success only");
}

Test(track, no_segment_can_be_made)
{
	_cleanup_flow_ struct flow *f = flow_prepare();

	f->options.host = f->host.host;
	f->host.n_segments_max = 0;
	cr_expect_eq(track_new(&f->track, &f->options), -ENOMEM);
	cr_expect_null(f->track);
}

static uint32_t file_at(struct flow *f, uint64_t address)
{
	return proc_maps_find(flow_process(f, SHELL)->maps, address)->file;
}

static void end_shell(struct flow *f)
{
	fake_exit(&f->host, SHELL, SHELL);
	fake_process_remove(&f->host, SHELL);
	(void)track_drain(f->track);
}

static void pass(struct flow *f, uint64_t seconds)
{
	for (uint64_t i = 0; i < seconds; i++) {
		flow_wait(f, NS_PER_SEC);
		track_drained(f->track, fake_now_ns);
		track_sweep(f->track, fake_now_ns);
		track_progress(f->track);
		(void)fake_pool_work(&f->host.workers);
	}
}

/* A window holds the binaries of its samples: their names are wanted when it ends, however late. */
Test(track, binary_lives_until_the_window_ends)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct binary_registry *binaries = unwind_tables_binaries(track_tables(f->track));
	uint32_t file = file_at(f, CODE);

	cr_assert(binary_registry_hold(binaries, file));
	end_shell(f);
	pass(f, 150);
	cr_assert_not_null(binary_registry_get(binaries, file));
	cr_expect_str_eq(binary_registry_get(binaries, file)->module.path, "/bin/sh");
	binary_registry_release(binaries, file);
	pass(f, 60);
	cr_expect_null(binary_registry_get(binaries, file), "nothing refers to it any more");
}

/* A sample that waits for a table holds its process: what is known of that stays. */
Test(track, process_lives_while_a_sample_waits)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct process *p = process_ref(flow_process(f, SHELL));
	uint32_t file = file_at(f, CODE);

	end_shell(f);
	pass(f, 100);
	cr_expect_neq(flow_process(f, SHELL), p, "new samples are of another process");
	cr_expect_str_eq(p->image->comm, "sh");
	cr_expect_str_eq(flow_path_at(f, p->maps, CODE), "/bin/sh");
	process_unref(p);
	pass(f, 60);
	cr_expect_null(binary_registry_get(unwind_tables_binaries(track_tables(f->track)), file));
}

/* The mappings by which a sample from before a change is judged are those of its time. */
Test(track, sample_from_before_a_change_of_mappings)
{
	_cleanup_flow_ struct flow *f = with_shell();
	uint64_t before;
	const struct proc_maps *maps;

	fake_file_add(&f->host, "/bin/tool", false);
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/sh");
	(void)track_drain(f->track);
	before = fake_now_ns;
	fake_mmap(&f->host, SHELL, LIB, 4, 0, "/bin/tool");
	(void)track_drain(f->track);
	maps = proc_history_at(flow_sample_at(f, SHELL, SHELL, before).process, before);
	cr_expect_str_eq(flow_path_at(f, maps, LIB), "/bin/sh");
	maps = proc_history_at(flow_process(f, SHELL), fake_now_ns);
	cr_expect_str_eq(flow_path_at(f, maps, LIB), "/bin/tool");
}

/* A single object that is none may have changed while it was read; of a layout that is wrong, none is one. */
Test(track, a_runtime_is_refused_when_most_of_its_objects_are_none)
{
	_cleanup_flow_ struct flow *f = with_shell();
	const struct proc_program *program = flow_process(f, SHELL)->image->program;

	for (int i = 0; i < 100; i++)
		cr_expect(track_judge_runtime(f->track, SHELL, i % 3 != 0), "%d", i);
	cr_expect(!program->runtime_refused);
	for (int i = 0; i < 32; i++)
		cr_expect(track_judge_runtime(f->track, SHELL, false) || i == 31, "%d", i);
	cr_expect(program->runtime_refused);
	cr_expect(track_judge_runtime(f->track, SHELL + 1, false), "no such process");
}

Test(track, losses_are_summed_over_their_reasons)
{
	_cleanup_flow_ struct flow *f = with_shell();
	struct track_stats s;

	fake_lost(&f->host, SIDEBAND_LOSS_OVERFLOW, 3);
	fake_lost(&f->host, SIDEBAND_LOSS_NO_MEMORY, 4);
	(void)track_drain(f->track);
	s = flow_stats(f);
	cr_expect_eq(track_events_lost(&s), 7);
	cr_expect_eq(s.gaps[GAP_EVENTS], 2);
	cr_expect_eq(s.rescans, 1);
}
