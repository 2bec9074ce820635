// SPDX-License-Identifier: Apache-2.0
#include "recording.h"

#include "agent/output/folded.h"
#include "agent/output/profile_private.h"

static char *folded(const struct output_profile *p)
{
	const struct output_folded_options options = {0};
	size_t len;

	return WRITTEN(&len, output_folded_write(p, &options, f));
}

Test(output_profile, strings_are_copied)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	char process[] = "proc", function[] = "func", path[] = "/bin/x", name[] = "x";
	const struct frame_module m = {.path = path, .name = name, .limit = 0x1000};
	const struct frame frame = {.module = &m, .function = function, .address = 1};
	_cleanup_free_ char *text = NULL;

	cr_assert_eq(recording_add(p, process, 1, NULL, &frame, 1, 2), 0);
	memset(process, 'z', sizeof process - 1);
	memset(function, 'z', sizeof function - 1);
	memset(path, 'z', sizeof path - 1);
	text = folded(p);
	cr_expect_str_eq(text, "proc;func 2\n");
	cr_expect_str_eq(output_string_text(p, output_module_of(p, 1)->path), "/bin/x");
}

Test(output_profile, past_the_node_limit_a_stack_becomes_other)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(3);
	_cleanup_free_ char *text = NULL;

	cr_expect_eq(ADD(p, "app", 1, NULL, 1, APP("b", 2), APP("a", 1)), 0);
	cr_expect_eq(ADD(p, "app", 1, NULL, 4, APP("d", 4), APP("c", 3)), -ENOSPC);
	cr_expect_eq(ADD(p, "app", 1, NULL, 1, APP("e", 2), APP("a", 1)), 0,
		     "the refused stack left nothing behind");
	cr_expect_eq(ADD(p, "app", 1, NULL, 1, APP("b", 2), APP("a", 1)), 0, "known stacks still count");
	cr_expect_eq(ADD(p, "new", 2, NULL, 8, APP("f", 5)), -ENOSPC);
	cr_expect_eq(output_profile_samples(p), 15);
	cr_expect_eq(output_profile_merged(p), 12);
	text = folded(p);
	cr_expect_str_eq(text, "app;[other] 4\napp;a;b 2\napp;a;e 1\nnew;[other] 8\n", "got:\n%s", text);
}

Test(output_profile, a_stack_too_deep_is_merged)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	static struct frame frames[OUTPUT_MAX_DEPTH + 1];

	for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
		frames[i] = (struct frame)APP("f", i);
	cr_expect_eq(recording_add(p, "app", 1, NULL, frames, OUTPUT_MAX_DEPTH, 1), 0);
	cr_expect_eq(recording_add(p, "app", 1, NULL, frames, OUTPUT_MAX_DEPTH + 1, 1), -ENOSPC);
	cr_expect_eq(output_profile_merged(p), 1);
	free(folded(p));
}

Test(output_profile, odd_stacks_have_a_name)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	_cleanup_free_ char *text = NULL;
	char long_name[OUTPUT_MAX_NAME * 2];
	const struct frame_module m = {.path = "/x", .name = long_name};

	memset(long_name, 'n', sizeof long_name - 1);
	long_name[sizeof long_name - 1] = '\0';
	recording_add(p, "empty", 1, NULL, NULL, 0, 1);
	recording_add(p, NULL, 1, NULL, NULL, 0, 1);
	ADD(p, "early", 1, NULL, 1, ENDING(NULL));
	ADD(p, "long", 1, NULL, 1, {.module = &m, .address = 0x1234});
	text = folded(p);
	cr_expect_not_null(strstr(text, "empty;[no frames] 1\n"));
	cr_expect_not_null(strstr(text, "[unknown];[no frames] 1\n"));
	cr_expect_not_null(strstr(text, "early;[truncated] 1\n"));
	cr_expect_not_null(strstr(text, "\xe2\x80\xa6+0x1234 1\n"),
			   "the address of an unnamed frame is never cut");
}

Test(output_profile, info_can_be_set_again)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(7);
	const struct output_info info = {.hostname = "other\n", .n_taken = 9};

	cr_assert_eq(output_profile_set_info(p, &info), 0);
	cr_expect_str_eq(p->info.hostname, "other?");
	cr_expect_null(p->info.command);
	cr_expect_eq(p->info.n_taken, 9);
	cr_expect_eq(p->info.max_nodes, 7);
	output_profile_free(NULL);
}

/*
 * Adds `n` processes of one name, each with one stack of its own and one that all have; pid 1 has the most
 * samples.
 */
static void add_processes(struct output_profile *p, uint32_t first_pid, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct frame frames[] = {APP(NULL, 0x2000 + i % 7), APP("main", 0x1100)};
		struct output_stack s = {.process = i % 3 ? "sh" : "cc",
					 .pid = first_pid + i,
					 .thread = i % 2 ? "a" : "b",
					 .frames = frames,
					 .n_frames = 2,
					 .count = first_pid + i == 1 ? 100 : 1,
					 .complete = true};

		cr_assert_eq(output_profile_add(p, &s), 0, "process %u", i);
		s.n_frames = 0;
		cr_assert_eq(output_profile_add(p, &s), 0, "process %u", i);
	}
}

static uint64_t sum_of_trees(const struct output_profile *p)
{
	uint64_t sum = 0;
	struct map_node *n;

	map_for_each (&p->nodes, n, it)
		sum += container_of(n, struct output_node, node)->self;
	for (uint32_t id = 1; id <= output_table_len(&p->groups); id++)
		sum += output_group_of(p, id)->other.self;
	return sum;
}

Test(output_profile, a_hundred_thousand_processes_share_trees)
{
	/* too many for a tree each */
	const uint32_t n = 100000;
	_cleanup_output_profile_ struct output_profile *p = recording_new(0);
	uint64_t folded = 0, samples = 0;
	uint32_t kept = 0;

	add_processes(p, 1, n);
	cr_expect_eq(output_profile_merged(p), 0, "nothing had to become [other]");
	cr_expect_eq(output_profile_samples(p), 2 * n + 2 * 99);
	cr_expect_eq(sum_of_trees(p), 2 * n + 2 * 99);
	for (uint32_t id = 1; id <= output_table_len(&p->groups); id++) {
		const struct output_group *g = output_group_of(p, id);

		cr_assert_eq(g->entry.id, id);
		samples += g->n_samples;
		cr_expect_eq(g->n_complete, g->n_samples);
		folded += g->n_folded;
		kept += g->pid != 0;
		cr_expect(g->pid != 1 || g->n_samples == 200, "the largest keeps its tree");
	}
	cr_expect_eq(samples, 2 * n + 2 * 99);
	/* a process with samples after it was folded is counted twice */
	cr_expect(folded + kept >= n && folded + kept <= n + 10, "%lu", (unsigned long)(folded + kept));
	cr_expect_lt(output_table_len(&p->groups), 65536);
}

Test(output_profile, folding_makes_room_for_nodes)
{
	_cleanup_output_profile_ struct output_profile *p = recording_new(10000);

	add_processes(p, 1, 9000); /* three nodes each */
	cr_expect_eq(output_profile_merged(p), 0);
	cr_expect_eq(sum_of_trees(p), 18000 + 2 * 99);
	cr_expect_leq(p->nodes.len, 10000);
}

Test(output_profile, stacks_counted_as_other_are_folded_too)
{
	const struct frame frames[] = {APP("leaf", 0x2000), APP("main", 0x1100)};
	_cleanup_output_profile_ struct output_profile *p = recording_new(4100);
	uint64_t other = 0;

	for (uint32_t pid = 1; pid <= 3000; pid++) {
		struct output_stack s = {
			.process = "sh", .pid = pid, .frames = frames, .n_frames = 2, .count = 1};

		(void)output_profile_add(p, &s);
		s.n_frames = OUTPUT_MAX_DEPTH + 1; /* too deep */
		cr_assert_eq(output_profile_add(p, &s), -ENOSPC);
	}
	for (uint32_t id = 1; id <= output_table_len(&p->groups); id++)
		other += output_group_of(p, id)->other.self;
	cr_expect_eq(output_profile_samples(p), 6000);
	cr_expect_eq(sum_of_trees(p), 6000);
	cr_expect_eq(output_profile_merged(p), other);
	cr_expect_geq(other, 3000);
}
