// SPDX-License-Identifier: Apache-2.0
#include "live_support.h"

#include "agent/output/pprof.h"

static struct output_live_sums sums_of(const struct output_live *l, bool since_start)
{
	struct output_live_sums s;

	output_live_sums(l, since_start, &s);
	return s;
}

/* Returns "name self/total; …". */
static char *rows_text(struct output_live *l, struct output_live_query q)
{
	struct output_live_rows rows;
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert_eq(output_live_rows(l, &q, &rows), 0);
	for (size_t i = 0; i < rows.n; i++) {
		const struct output_live_row *r = &rows.rows[i];

		if (q.view == OUTPUT_LIVE_FUNCTIONS)
			fprintf(f, "%s@%s %lu/%lu%s; ", r->name, r->module, r->self, r->total,
				r->elsewhere ? "+" : "");
		else
			fprintf(f, "%s %u:%u %.4s %lu %s=%lu; ", r->name, r->pid, r->n_processes,
				r->container, r->self, r->top, r->top_self);
	}
	fclose(f);
	output_live_rows_fini(&rows);
	return text;
}

#define EXPECT_ROWS(l, expected, ...)                                                  \
	do {                                                                           \
		char *_text = rows_text((l), (struct output_live_query){__VA_ARGS__}); \
		cr_expect_str_eq(_text, expected, "got: %s", _text);                   \
		free(_text);                                                           \
	} while (0)

Test(output_live, functions_of_a_language_runtime_have_their_file)
{
	static const struct frame_line a = {"f", "/srv/shop/__init__.py", 3, 3},
				       b = {"f", "/srv/shop/__init__.py", 4, 3};
	struct output_live *l = live_new(NULL);

	LIVE(l, "app", 10, NULL, 2, LANGUAGE("cpython", &a, 1), APP("main", 3));
	LIVE(l, "app", 10, NULL, 3, LANGUAGE("cpython", &b, 1));
	LIVE(l, "app", 10, NULL, 1, {.runtime = "cpython", .function = "[unknown function]"});
	EXPECT_ROWS(l, "f@shop/__init__.py 5/5; [unknown function]@cpython 1/1; main@app 0/2; ",
		    .view = OUTPUT_LIVE_FUNCTIONS);
	output_live_free(l);
}

Test(output_live, functions_processes_containers)
{
	struct output_live *l = live_new(NULL);

	live_sample(l);
	EXPECT_ROWS(l,
		    "f8@app 80/80+; vfs_read@[kernel] 15/15; [no name in libc.so.6]@libc.so.6 5/5; main@app "
		    "0/95; "
		    "f7@app 0/60; [truncated: no table]@ 0/5; ",
		    .view = OUTPUT_LIVE_FUNCTIONS);
	EXPECT_ROWS(l,
		    "main@app 0/95; f8@app 80/80+; f7@app 0/60; vfs_read@[kernel] 15/15; "
		    "[no name in libc.so.6]@libc.so.6 5/5; [truncated: no table]@ 0/5; ",
		    .view = OUTPUT_LIVE_FUNCTIONS, .by_total = true);
	EXPECT_ROWS(l, "app 10:1 0123 60 f8=60; app 11:1  20 f8=20; cron 12:1  20 vfs_read=15; ",
		    .view = OUTPUT_LIVE_PROCESSES);
	EXPECT_ROWS(l,
		    " 0:1 0123 60 f8=60; "
		    " 0:2  40 f8=20; ",
		    .view = OUTPUT_LIVE_CONTAINERS);
	cr_expect_eq(sums_of(l, false).samples, 100);
	cr_expect_eq(sums_of(l, false).incomplete, 5);
	cr_expect_eq(sums_of(l, false).n_processes, 3);
	output_live_free(l);
}

Test(output_live, a_filter_finds_any_of_a_rows_texts)
{
	struct output_live *l = live_new(NULL);

	live_sample(l);
	EXPECT_ROWS(l, "vfs_read@[kernel] 15/15; ", .filter = "KERN");
	EXPECT_ROWS(l, "cron 12:1  20 vfs_read=15; ", .view = OUTPUT_LIVE_PROCESSES, .filter = "vfs");
	EXPECT_ROWS(l, "app 11:1  20 f8=20; ", .view = OUTPUT_LIVE_PROCESSES, .filter = "11");
	EXPECT_ROWS(l, " 0:1 0123 60 f8=60; ", .view = OUTPUT_LIVE_CONTAINERS, .filter = "0123456789");
	EXPECT_ROWS(l, "", .filter = "nobody");
	output_live_free(l);
}

Test(output_live, older_intervals_leave_the_window)
{
	struct output_live *l = live_new(NULL);

	LIVE(l, "old", 1, NULL, 7, APP("before", 1));
	output_live_tick(l, NS_PER_SEC, 0);
	for (int i = 0; i < 4; i++) {
		LIVE(l, "new", 2, NULL, 1, APP("now", 1));
		output_live_tick(l, NS_PER_SEC + 1000, 0); /* intervals have varying lengths */
	}
	cr_expect_eq(sums_of(l, false).samples, 11);
	LIVE(l, "new", 2, NULL, 1, APP("now", 1));
	output_live_tick(l, NS_PER_SEC, 0);
	EXPECT_ROWS(l, "now@app 5/5; ", .view = OUTPUT_LIVE_FUNCTIONS);
	EXPECT_ROWS(l, "new 2:1  5 now=5; ", .view = OUTPUT_LIVE_PROCESSES);
	EXPECT_ROWS(l, "before@app 7/7; now@app 5/5; ", .since_start = true);
	cr_expect_eq(sums_of(l, false).samples, 5);
	cr_expect_eq(sums_of(l, true).samples, 12);
	cr_expect_eq(sums_of(l, false).duration_ns / NS_PER_MS, 5000);
	cr_expect_eq(sums_of(l, true).duration_ns / NS_PER_MS, 6000);
	cr_expect_eq(sums_of(l, false).n_processes, 1);
	output_live_free(l);
}

/*
 * A day of short processes: the window is right, memory stays within the maxima, and all samples are counted.
 */
Test(output_live, entries_with_the_fewest_samples_are_removed_and_counted)
{
	const struct output_live_options o = {
		.window_ns = 2 * NS_PER_SEC, .max_functions = 64, .max_processes = 32, .max_cells = 128};
	struct output_live *l = live_new(&o);
	struct output_live_rows rows;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < 2000; i++) {
		char name[32];

		snprintf(name, sizeof name, "f%u", i);
		LIVE(l, "long", 1, NULL, 10, APP("loop", 1), APP("main", 1));
		LIVE(l, "short", 100 + i, NULL, 1, APP(name, 1), APP("main", 1));
		output_live_tick(l, NS_PER_SEC, 0);
	}
	cr_expect_eq(sums_of(l, true).merged, 0, "%lu", sums_of(l, true).merged);
	cr_assert_eq(output_live_rows(l, &(struct output_live_query){.since_start = true}, &rows), 0);
	cr_expect_leq(rows.n, 64);
	cr_expect_str_eq(rows.rows[0].name, "loop");
	cr_expect_eq(rows.rows[0].self, 20000);
	for (size_t i = 0; i < rows.n; i++)
		sum += rows.rows[i].self;
	cr_expect_eq(sum + sums_of(l, true).forgotten_functions, 22000);
	output_live_rows_fini(&rows);
	cr_assert_eq(output_live_rows(
			     l,
			     &(struct output_live_query){.view = OUTPUT_LIVE_PROCESSES, .since_start = true},
			     &rows),
		     0);
	cr_expect_leq(rows.n, 33);
	sum = sums_of(l, true).forgotten_processes;
	for (size_t i = 0; i < rows.n; i++)
		sum += rows.rows[i].self;
	cr_expect_eq(sum, 22000);
	output_live_rows_fini(&rows);
	EXPECT_ROWS(l, "loop@app 20/20; f1998@app 1/1; f1999@app 1/1; main@app 0/22; ",
		    .view = OUTPUT_LIVE_FUNCTIONS);
	output_live_free(l);
}

Test(output_live, without_room_in_the_window_samples_are_other)
{
	const struct output_live_options o = {
		.window_ns = 5 * NS_PER_SEC, .max_functions = 4, .max_processes = 2, .max_cells = 8};
	struct output_live *l = live_new(&o);
	struct output_live_rows rows;
	uint64_t self = 0;

	for (uint32_t i = 0; i < 10; i++) {
		char name[32];

		snprintf(name, sizeof name, "f%u", i);
		LIVE(l, "p", 1 + i, NULL, 1, APP(name, 1));
	}
	cr_expect_eq(sums_of(l, false).samples, 10);
	cr_expect_eq(sums_of(l, false).merged, 8);
	for (unsigned view = 0; view < OUTPUT_LIVE_VIEWS_N; view++) {
		self = 0;
		cr_assert_eq(output_live_rows(l, &(struct output_live_query){.view = view}, &rows), 0);
		for (size_t i = 0; i < rows.n; i++)
			self += rows.rows[i].self;
		cr_expect_eq(self, 10, "view %u", view);
		output_live_rows_fini(&rows);
	}
	output_live_free(l);
}

Test(output_live, names_are_cleaned_and_cut)
{
	struct output_live *l = live_new(NULL);
	char name[4000];
	struct output_live_rows rows;

	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	name[0] = '\033';
	LIVE(l, "\033[2J", 1, NULL, 2, APP(name, 1));
	cr_assert_eq(output_live_rows(l, &(struct output_live_query){0}, &rows), 0);
	cr_expect_leq(strlen(rows.rows[0].name), OUTPUT_LIVE_MAX_NAME);
	cr_expect_eq(rows.rows[0].name[0], '?');
	output_live_rows_fini(&rows);
	EXPECT_ROWS(l, "", .view = OUTPUT_LIVE_PROCESSES, .filter = "\033");
	output_live_free(l);
}

/* --- the stacks of the window */

Test(output_live, functions_of_a_process_and_of_a_container)
{
	struct output_live *l = live_new(NULL);

	live_sample(l);
	EXPECT_ROWS(l,
		    "vfs_read@[kernel] 15/15; [no name in libc.so.6]@libc.so.6 5/5; main@app 0/15; "
		    "[truncated: no table]@ 0/5; ",
		    .scope = &(struct output_live_scope){.process = "cron", .pid = 12});
	EXPECT_ROWS(l, "f8@app 60/60; f7@app 0/60; main@app 0/60; ",
		    .scope = &(struct output_live_scope){.container = CONTAINER});
	EXPECT_ROWS(l, "f8@app 20/20; main@app 0/20; ", .by_total = true, .filter = "A",
		    .scope = &(struct output_live_scope){.process = "app", .pid = 11});
	EXPECT_ROWS(l, "", .scope = &(struct output_live_scope){.process = "app", .pid = 12});
	output_live_free(l);
}

/* Each stack has one caller at most, and one callee or the function itself. */
Test(output_live, callers_and_callees)
{
	struct output_live *l = live_new(NULL);
	const struct output_live_scope f8 = {.function = "f8", .module = "app"};
	const struct output_live_scope outer = {.function = "main", .module = "app", .container = ""};
	struct output_live_query q = {.scope = &outer};
	struct output_live_rows rows;

	live_sample(l);
	EXPECT_ROWS(l, "f7@app 60/60; main@app 20/20; f8@app 80/80; ", .scope = &f8);
	EXPECT_ROWS(l, "f8@app 20/20; vfs_read@[kernel] 15/15; ", .scope = &outer);
	cr_assert_eq(output_live_rows(l, &q, &rows), 0);
	cr_expect_eq(rows.whole, 35);
	cr_expect_eq(rows.rows[0].role, OUTPUT_LIVE_CALLEE);
	output_live_rows_fini(&rows);
	EXPECT_ROWS(l, "", .scope = &(struct output_live_scope){.function = "f8", .module = "other"});
	output_live_free(l);
}

/* A function that calls itself by way of another: the outermost caller, the innermost callee. */
Test(output_live, callers_and_callees_of_recursion)
{
	struct output_live *l = live_new(NULL);
	const struct output_live_scope a = {.function = "a", .module = "app"};

	LIVE(l, "app", 1, NULL, 3, APP("leaf", 1), APP("a", 2), APP("b", 3), APP("a", 4), APP("main", 5));
	EXPECT_ROWS(l, "main@app 3/3; leaf@app 3/3; ", .scope = &a);
	output_live_free(l);
}

Test(output_live, stacks_leave_with_their_interval)
{
	struct output_live *l = live_new(&(struct output_live_options){.window_ns = NS_PER_SEC});
	const struct output_live_scope host = {.container = ""};

	LIVE(l, "app", 1, NULL, 3, APP("old", 1));
	output_live_tick(l, NS_PER_SEC, 0);
	EXPECT_ROWS(l, "old@app 3/3; ", .scope = &host);
	LIVE(l, "app", 1, NULL, 2, APP("new", 1));
	output_live_tick(l, NS_PER_SEC, 0);
	EXPECT_ROWS(l, "new@app 2/2; ", .scope = &host);
	output_live_free(l);
}

/* Beyond the maximum, the oldest stacks are given up, and the samples of these are counted. */
Test(output_live, kept_stacks_have_a_maximum)
{
	struct output_live *l = live_new(
		&(struct output_live_options){.window_ns = 100 * NS_PER_SEC, .max_kept_bytes = 20000});
	struct output_live_sums s;
	struct output_live_query q = {.scope = &(struct output_live_scope){.container = ""}};
	struct output_live_rows rows;

	for (unsigned i = 0; i < 50; i++) {
		char name[16];

		for (unsigned k = 0; k < 10; k++) {
			snprintf(name, sizeof name, "f%u", 10 * i + k);
			LIVE(l, "app", 1, NULL, 1, APP(name, 1));
		}
		output_live_tick(l, NS_PER_SEC, 0);
	}
	s = sums_of(l, false);
	cr_assert_eq(output_live_rows(l, &q, &rows), 0);
	cr_expect(s.unkept > 300 && s.unkept < 500, "%lu", s.unkept);
	cr_expect_eq(s.unkept + rows.whole, 500);
	output_live_rows_fini(&rows);
	output_live_free(l);
}

static int to_profile(const struct output_stack *s, const uint64_t *numbers, void *data)
{
	cr_expect_str_eq(output_live_frame(numbers[0]).function, s->frames[0].function);
	return output_profile_add(data, s);
}

/* A kept stack is as good as the one that was added: both make the same file. */
Test(output_live, a_recording_of_the_window)
{
	static const struct frame_line lines[] = {{"inner", "/src/a.c", 3, 1}, {"outer", "/src/b.c", 9, 7}};
	const uint64_t times[] = {NS_PER_SEC, 2 * NS_PER_SEC};
	const struct frame frames[] = {{.module = &app,
					.function = "outer",
					.address = 7,
					.lines = lines,
					.n_lines = 2,
					.system_name = "_Zouter",
					.start_line = 7},
				       LANGUAGE("cpython", &lines[0], 1),
				       KERNEL("vfs_read", 5)};
	const struct output_stack s = {.process = "app",
				       .pid = 7,
				       .thread = "worker",
				       .tid = 8,
				       .count = 2,
				       .container = CONTAINER,
				       .container_name = "db",
				       .frames = frames,
				       .n_frames = 3,
				       .times = times,
				       .mono_ns = times,
				       .complete = true};
	_cleanup_output_profile_ struct output_profile *direct = NULL, *kept = NULL;
	struct output_live *l = live_new(NULL);
	size_t len_one, len_two;

	cr_assert_eq(output_profile_new(&direct, &(struct output_info){0}), 0);
	cr_assert_eq(output_profile_new(&kept, &(struct output_info){0}), 0);
	output_live_add(l, &s);
	LIVE(l, "other", 9, NULL, 1, APP("f", 1));
	cr_assert_eq(output_profile_add(direct, &s), 0);
	cr_assert_eq(output_live_stacks(l, &(struct output_live_query){.filter = "OUTER"}, to_profile, kept),
		     0);
	_cleanup_free_ char *one = WRITTEN(&len_one, output_pprof_write(direct, f));
	_cleanup_free_ char *two = WRITTEN(&len_two, output_pprof_write(kept, f));

	cr_expect(len_one == len_two && memcmp(one, two, len_one) == 0);
	cr_expect_eq(output_profile_timed(kept), 2);
	output_live_free(l);
}
