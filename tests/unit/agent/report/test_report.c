// SPDX-License-Identifier: Apache-2.0
/* When windows end and are sent, what they are sent with, and that no sample is lost without a count. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/base/worker.h"
#include "fake_code_names.h"
#include "fake_machine.h"

#define OTHER_CODE frame_native(4711, 0x1000) /* of no binary that is known */
#define ALPHA "machine_alpha;[anonymous]"

/* Every sample that was added is emitted, dropped with a reason, or waiting. */
static struct report_stats expect_identity(const struct machine *m)
{
	struct report_stats s = machine_stats(m);
	uint64_t dropped = 0;

	for (size_t i = 0; i < REPORT_DROPS_N; i++)
		dropped += s.dropped[i];
	cr_expect_eq(s.added, s.emitted + dropped + s.waiting,
		     "%lu added, %lu emitted, %lu dropped, %lu waiting", (unsigned long)s.added,
		     (unsigned long)s.emitted, (unsigned long)dropped, (unsigned long)s.waiting);
	if (m->options.emit)
		cr_expect_eq(s.emitted, m->n_events);
	return s;
}

/* Adds n samples with different stacks of 100 frames. */
static void add_deep(struct machine *m, struct process *p, unsigned n)
{
	static uint64_t number;
	uint64_t words[100];

	for (unsigned i = 0; i < n; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(words); k++)
			words[k] = OTHER_CODE + k;
		words[0] += ++number << 8;
		struct sample_view v = machine_sample(p, words, 0, ARRAY_SIZE(words));

		machine_add(m, p, &v);
		expect_identity(m);
	}
}

Test(report, a_window_is_sent_with_its_names)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_add_alpha(&m, p, OTHER_CODE);
	machine_now_ns += NS_PER_SEC;
	machine_add_alpha(&m, p, OTHER_CODE);
	cr_expect_eq(expect_identity(&m).waiting, 2);
	cr_expect_not(report_closing(m.report));
	machine_now_ns += NS_PER_SEC;
	report_close_window(m.report);
	cr_expect(report_closing(m.report));
	cr_expect_eq(expect_identity(&m).waiting, 2);
	machine_work(&m);
	cr_expect(report_sendable(m.report));
	report_send(m.report);
	cr_expect_not(report_closing(m.report));
	cr_expect_not(report_sendable(m.report));
	cr_expect_eq(expect_identity(&m).emitted, 2);

	cr_assert_eq(m.n_sent, 1, "equal samples are one, with two times");
	const struct sent *s = &m.sent[0];

	cr_expect_str_eq(s->frames, ALPHA);
	cr_expect_str_eq(s->kinds, "native;native");
	cr_expect_str_eq(s->mappings, "/proc/self/exe;");
	cr_expect_str_eq(s->attributes, "process.pid=7;process.executable.name=app;thread.name=worker");
	cr_expect_str_eq(s->type, "samples");
	cr_expect_eq(s->period, NS_PER_SEC / 100);
	cr_expect_eq(s->start_ns, MACHINE_UNIX_NS);
	cr_expect_eq(s->duration_ns, 2 * NS_PER_SEC);
	cr_assert_eq(s->n_times, 2);
	cr_expect_eq(s->times_ns[0], MACHINE_UNIX_NS);
	cr_expect_eq(s->times_ns[1], MACHINE_UNIX_NS + (int64_t)NS_PER_SEC);

	cr_assert_eq(m.n_stacks, 1);
	cr_expect_str_eq(m.stacks[0].frames, "machine_alpha;?");
	cr_expect_str_eq(m.stacks[0].process, "app");
	cr_expect_str_eq(m.stacks[0].thread, "worker");
	cr_expect_str_eq(m.stacks[0].container, "");
	cr_expect_eq(m.stacks[0].count, 2);
	cr_expect(m.stacks[0].complete);
}

Test(report, functions_of_language_runtimes)
{
	static const struct fake_code known = {0x1000, 0x20, {"", "A.run", "/srv/a.py", 3, 7}};
	struct code_names code = {
		.codes = &known, .n = 1, .stats = {.added = 4, .bad = 3, .evicted = 2, .functions = 1}};
	_cleanup_machine_ struct machine m;
	struct report_stats s;

	machine_init(&m, 1);
	m.options.code_names = &code;
	machine_report(&m);
	struct process *p = machine_process(&m, 7);
	const uint64_t words[] = {frame_runtime_head(RUNTIME_CPYTHON, 1, 0x1000), 0x20,
				  frame_runtime_head(RUNTIME_CPYTHON, 1, 0x2000), 0x20,
				  machine_alpha_frame(&m)};
	struct sample_view v = machine_sample(p, words, 0, ARRAY_SIZE(words));

	machine_add(&m, p, &v);
	machine_flush(&m);
	cr_assert_eq(m.n_sent, 1);
	cr_expect_str_eq(m.sent[0].frames, "A.run;[unknown function];machine_alpha");
	cr_expect_str_eq(m.sent[0].kinds, "cpython;cpython;native");
	cr_expect_str_eq(m.sent[0].mappings, "/proc/self/exe");
	cr_assert_eq(m.n_stacks, 1);
	cr_expect_str_eq(m.stacks[0].frames, "A.run;[unknown function];machine_alpha");
	s = expect_identity(&m);
	cr_expect_eq(s.unknown_code, 1, "also if it is both exported and recorded");
	cr_expect_eq(s.code.added, 4);
	cr_expect_eq(s.code.bad, 3);
	cr_expect_eq(s.code.evicted, 2);
	cr_expect_eq(s.code.functions, 1);
}

Test(report, statistics_of_what_was_added)
{
	_cleanup_machine_ struct machine m;
	struct report_stats s;

	machine_init(&m, 1);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);
	const uint64_t word = machine_alpha_frame(&m);
	struct sample_view v = machine_sample(p, &word, 0, 1);

	cr_expect_eq(machine_stats(&m).first_sample_ns, 0);
	machine_add(&m, p, &v);
	machine_now_ns += NS_PER_SEC;
	v = machine_sample(p, &word, 0, 1);
	v.ending = ENDING_NO_TABLE;
	machine_add(&m, p, &v);
	for (uint64_t n = 100; n <= 101; n++) {
		const uint64_t deep[] = {word, frame_omitted(n), word};

		v = machine_sample(p, deep, 0, 3);
		v.omitted = 1;
		machine_add(&m, p, &v);
	}
	machine_flush(&m);
	s = expect_identity(&m);
	cr_expect_eq(s.first_sample_ns, MACHINE_START_NS);
	cr_expect_eq(s.by_ending[ENDING_ROOT], 3);
	cr_expect_eq(s.shortened, 2);
	cr_expect_eq(s.omitted, 201);
	cr_expect_eq(s.by_ending[ENDING_NO_TABLE], 1);
	cr_expect_eq(s.windows, 1);
	cr_expect_eq(s.windows_early, 0);
	cr_expect_eq(s.windows_late, 0);
	cr_expect_gt(s.windows_cpu_ns, 0);
	cr_expect_gt(s.names_bytes, 0);
	cr_expect_eq(s.lines_left, 0);
}

Test(report, a_stack_that_is_cut_says_why)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);
	const uint64_t word = machine_alpha_frame(&m);
	struct sample_view v = machine_sample(p, &word, 0, 1);

	v.ending = ENDING_NO_TABLE;
	machine_add(&m, p, &v);
	machine_flush(&m);
	cr_assert_eq(m.n_sent, 1);
	cr_expect_str_eq(m.sent[0].frames, "machine_alpha;[truncated: no table]");
	cr_expect_not_null(strstr(m.sent[0].attributes, "proflet.stack.truncated=no table"));
	cr_expect_not(m.stacks[0].complete);
}

/* Half of its bytes are used: it is closed before its time, and nothing is lost. */
Test(report, a_window_that_is_half_full_ends_early)
{
	_cleanup_machine_ struct machine m;
	struct report_stats s;
	unsigned n = 0;

	machine_init(&m, 1);
	m.options.window_bytes = 64u << 10;
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	while (!report_closing(m.report) && n < 1000)
		add_deep(&m, p, 1), n++;
	s = expect_identity(&m);
	cr_expect_eq(s.windows_early, 1);
	cr_expect(n > 30 && n < 45, "%u stacks of 900 bytes", n);
	add_deep(&m, p, 10); /* they go into the next window */
	cr_expect_eq(expect_identity(&m).waiting, n + 10);
	machine_work(&m);
	cr_expect(report_sendable(m.report));
	report_send(m.report);
	cr_expect_eq(expect_identity(&m).emitted, n);
	machine_flush(&m);
	s = expect_identity(&m);
	cr_expect_eq(s.emitted, n + 10);
	cr_expect_eq(s.windows, 2);
	cr_expect_eq(s.dropped[REPORT_DROP_WINDOW_FULL], 0);
}

/* While the window before waits for names, the open one may be filled; from three quarters on it needs the
 * other's room, and when it is full the other goes without names. */
Test(report, a_full_window_does_not_wait_for_names)
{
	_cleanup_machine_ struct machine m;
	struct report_stats s;
	unsigned n = 0;

	machine_init(&m, 0); /* names never come */
	m.options.window_bytes = 64u << 10;
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_add_alpha(&m, p, OTHER_CODE);
	report_close_window(m.report);
	cr_expect_not(report_sendable(m.report));
	while (!report_sendable(m.report) && n < 1000)
		add_deep(&m, p, 1), n++;
	cr_expect(n > 48 && n < 65, "three quarters: %u", n);
	cr_expect_eq(expect_identity(&m).windows_early, 0, "half full is no reason while another waits");
	while (machine_stats(&m).windows_early == 0 && n < 1000)
		add_deep(&m, p, 1), n++;
	s = expect_identity(&m);
	cr_expect_eq(s.emitted, 1, "the first window was sent as it was");
	cr_expect_eq(s.windows_late, 1);
	cr_expect(report_closing(m.report), "the full one waits now");
	cr_expect_eq(s.waiting, n);
	cr_expect_eq(s.dropped[REPORT_DROP_WINDOW_FULL], 0, "late names cost no samples");
}

Test(report, a_sample_that_no_window_can_hold_is_dropped)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	m.options.window_bytes = 512;
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	add_deep(&m, p, 3);
	cr_expect_eq(expect_identity(&m).dropped[REPORT_DROP_WINDOW_FULL], 3);
	machine_add_alpha(&m, p, OTHER_CODE);
	cr_expect_eq(expect_identity(&m).waiting, 1, "a small one fits");
	cr_expect_str_eq(report_drop_text(REPORT_DROP_WINDOW_FULL), "window_full");
	cr_expect_str_eq(report_drop_text(REPORT_DROP_ENCODE), "encode");
}

Test(report, closing_sends_the_window_before)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 0);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_add_alpha(&m, p, OTHER_CODE);
	report_close_window(m.report);
	machine_add_alpha(&m, p, OTHER_CODE);
	report_close_window(m.report);
	cr_expect_eq(expect_identity(&m).emitted, 1);
	cr_expect_eq(expect_identity(&m).windows_late, 1);
	cr_expect_eq(expect_identity(&m).waiting, 1);
	report_send(m.report);
	report_send(m.report); /* there is none */
	cr_expect_eq(expect_identity(&m).emitted, 2);
}

Test(report, a_window_without_samples_sends_nothing)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	machine_report(&m);
	machine_flush(&m);
	cr_expect_eq(m.n_requests, 0);
	cr_expect_eq(machine_stats(&m).windows, 1);
	report_progress(m.report); /* nothing is closing */
	cr_expect(!report_closing(m.report));
}

/* One more binary that nobody refers to: the registry has room for 16. */
static uint32_t add_binary(struct machine *m, unsigned number)
{
	char name[16];

	snprintf(name, sizeof name, "file-%u", number);
	return machine_binary(m, machine_write(m, name, name, strlen(name)));
}

static bool never(uint32_t index, void *data)
{
	(void)index, (void)data;
	return false;
}

/*
 * The program of a window ends right after its sample, and other binaries want its place: names, and what the
 * process was called, last until the window is sent, an hour later.
 */
Test(report, names_survive_the_end_of_the_process)
{
	_cleanup_machine_ struct machine m;
	struct binary_stats known;

	machine_init(&m, 1);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_add_alpha(&m, p, OTHER_CODE);
	proc_table_end(m.processes, p, machine_now_ns);
	machine_now_ns += NS_PER_SEC;
	proc_table_reap(m.processes, machine_now_ns);
	cr_expect_null(proc_table_at(m.processes, 7, MACHINE_START_NS), "the table has forgotten it");
	binary_registry_release(m.binaries, m.program); /* its mapping is gone */
	machine_now_ns += 3600 * NS_PER_SEC;
	for (unsigned i = 0; i < 40; i++)
		add_binary(&m, i);
	binary_registry_close_unused(m.binaries, machine_now_ns + 1, never, NULL);
	machine_flush(&m);
	cr_assert_eq(m.n_sent, 1);
	cr_expect_str_eq(m.sent[0].frames, ALPHA);
	cr_expect_not_null(strstr(m.sent[0].attributes, "process.executable.name=app"));
	cr_expect_str_eq(m.stacks[0].process, "app");
	binary_registry_stats(m.binaries, &known);
	cr_expect_eq(known.unused, known.known, "the window held it, and does no longer");
}

/* A window whose names take long is sent with them: the next one goes on meanwhile, but not for ever. */
Test(report, a_window_waits_for_its_names)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	m.config.symbols.kernel = false;
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_block(&m);
	machine_add_alpha(&m, p, OTHER_CODE);
	cr_expect(report_end_window(m.report));
	machine_now_ns += 10 * NS_PER_SEC;
	machine_add_alpha(&m, p, OTHER_CODE);
	cr_expect_not(report_end_window(m.report));
	machine_unblock(&m);
	machine_work(&m);
	cr_expect(report_sendable(m.report));
	report_send(m.report);
	cr_expect_eq(machine_sent(&m, ALPHA), 1);
	cr_expect_eq(expect_identity(&m).windows_late, 0);
	cr_expect(report_end_window(m.report));
	cr_expect_eq(expect_identity(&m).waiting, 1);
}

Test(report, a_window_does_not_wait_for_names_for_ever)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 0);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_add_alpha(&m, p, OTHER_CODE);
	cr_expect(report_end_window(m.report));
	machine_now_ns += 59 * NS_PER_SEC;
	cr_expect_not(report_end_window(m.report));
	machine_now_ns += NS_PER_SEC;
	machine_add_alpha(&m, p, OTHER_CODE);
	cr_expect(report_end_window(m.report));
	cr_expect_eq(expect_identity(&m).windows_late, 1);
	cr_expect_eq(expect_identity(&m).emitted, 1);
}

/* The answer of a slow file comes when its window has been sent: the next window has the names. */
Test(report, names_that_come_late_are_there_for_the_next_window)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	m.config.symbols.kernel = false;
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_block(&m);
	machine_add_alpha(&m, p, OTHER_CODE);
	report_close_window(m.report);
	cr_expect_not(report_sendable(m.report));
	report_send(m.report);
	cr_expect_eq(machine_sent(&m, ALPHA), 0);
	cr_expect_eq(expect_identity(&m).windows_late, 1);
	machine_unblock(&m);
	machine_work(&m);
	machine_add_alpha(&m, p, OTHER_CODE);
	report_close_window(m.report);
	machine_work(&m); /* looks whether the file has changed; nothing is to be read */
	cr_expect(report_sendable(m.report));
	report_send(m.report);
	cr_expect_eq(machine_sent(&m, ALPHA), 1);
	cr_expect_eq(expect_identity(&m).windows_late, 1);
}

/* The index of a binary that is gone stands for another one: it does not get the names of the first. */
Test(report, an_index_that_is_used_again_has_no_old_names)
{
	_cleanup_machine_ struct machine m;
	uint32_t first;

	machine_init(&m, 1);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_add_alpha(&m, p, OTHER_CODE);
	machine_flush(&m);
	cr_expect_eq(machine_sent(&m, ALPHA), 1);
	first = m.program;
	binary_registry_release(m.binaries, m.program);
	for (unsigned i = 0; i < 40 && (i == 0 || m.program != first); i++)
		m.program = add_binary(&m, i);
	cr_assert_eq(m.program, first);
	cr_assert(binary_registry_hold(m.binaries, m.program));
	machine_add_alpha(&m, p, OTHER_CODE);
	machine_flush(&m);
	cr_expect_eq(machine_sent(&m, ALPHA), 1, "the second has none");
	cr_expect_eq(expect_identity(&m).emitted, 2);
}

/* --- times */

Test(report, the_wall_clock_is_set_while_a_window_is_open)
{
	_cleanup_machine_ struct machine m;
	const int64_t step = 3600 * (int64_t)NS_PER_SEC;

	machine_init(&m, 1);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_add_alpha(&m, p, OTHER_CODE);
	machine_now_ns += NS_PER_SEC;
	cr_expect_eq(report_clock_set(m.report), 0, "it was not");
	machine_real_offset_ns += step;
	cr_expect_eq(report_clock_set(m.report), step);
	machine_now_ns += NS_PER_SEC;
	machine_add_alpha(&m, p, OTHER_CODE);
	machine_now_ns += NS_PER_SEC;
	machine_flush(&m);
	cr_assert_eq(m.n_sent, 1);
	cr_expect_eq(m.sent[0].start_ns, MACHINE_UNIX_NS);
	cr_expect_eq(m.sent[0].times_ns[0], MACHINE_UNIX_NS, "taken before: by the clock as it was");
	cr_expect_eq(m.sent[0].times_ns[1], MACHINE_UNIX_NS + step + 2 * (int64_t)NS_PER_SEC);
	cr_expect_eq(m.sent[0].duration_ns, (uint64_t)step + 3 * NS_PER_SEC, "by the wall clock");
}

Test(report, the_wall_clock_is_set_back)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_add_alpha(&m, p, OTHER_CODE);
	machine_now_ns += NS_PER_SEC;
	machine_real_offset_ns -= 3600 * (int64_t)NS_PER_SEC;
	cr_expect_lt(report_clock_set(m.report), 0);
	machine_now_ns += NS_PER_SEC;
	machine_flush(&m);
	cr_assert_eq(m.n_sent, 1);
	cr_expect_eq(m.sent[0].duration_ns, 2 * NS_PER_SEC, "the time that has passed");
}

/* Where nothing reports that the clock was set, the next window notices. */
Test(report, a_window_begins_with_a_look_at_the_clock)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_now_ns += NS_PER_SEC;
	machine_real_offset_ns += 60 * (int64_t)NS_PER_SEC;
	machine_flush(&m);
	machine_add_alpha(&m, p, OTHER_CODE);
	machine_now_ns += NS_PER_SEC;
	machine_flush(&m);
	cr_assert_eq(m.n_sent, 1);
	cr_expect_eq(m.sent[0].start_ns, MACHINE_UNIX_NS + 61 * (int64_t)NS_PER_SEC);
}

Test(report, each_window_has_the_frequency_of_its_samples)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_add_alpha(&m, p, OTHER_CODE);
	report_close_window(m.report);
	report_set_frequency(m.report, 20); /* the closed window has those of before */
	machine_add_alpha(&m, p, OTHER_CODE);
	machine_work(&m);
	report_send(m.report);
	machine_flush(&m);
	machine_add_alpha(&m, p, OTHER_CODE);
	machine_flush(&m);
	cr_assert_eq(m.n_sent, 3);
	cr_expect_eq(m.sent[0].period, NS_PER_SEC / 100);
	cr_expect_eq(m.sent[1].period, NS_PER_SEC / 20);
	cr_expect_eq(m.sent[2].period, NS_PER_SEC / 20);
}

/* --- what is sent where */

Test(report, one_request_takes_all_windows)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	m.options.one_request = true;
	machine_report(&m);
	struct process *p = machine_process(&m, 7), *q = machine_process(&m, 8);

	for (int i = 0; i < 3; i++) {
		machine_add_alpha(&m, p, OTHER_CODE);
		machine_add_alpha(&m, q, machine_beta_frame(&m));
		machine_now_ns += NS_PER_SEC;
		machine_flush(&m);
		cr_expect_eq(m.n_requests, 0);
		cr_expect_eq(expect_identity(&m).waiting, 2 * (unsigned)i + 2, "in the request");
		cr_expect_eq(m.spilled.len > 0, i > 0, "completed profiles do not stay in memory");
	}
	report_finish(m.report);
	cr_expect_eq(expect_identity(&m).emitted, 6);
	cr_expect_eq(m.n_requests, 1);
	cr_expect_eq(m.n_stacks, 6, "these went out window by window");
	cr_expect_eq(machine_sent(&m, ALPHA), 3);
	cr_expect_eq(machine_sent(&m, "machine_alpha;machine_beta"), 3);
	cr_expect_eq(m.sent[0].start_ns, MACHINE_UNIX_NS);
	cr_expect_eq(m.sent[m.n_sent - 1].start_ns, MACHINE_UNIX_NS + 2 * (int64_t)NS_PER_SEC,
		     "each window is a profile of its own");
	report_finish(m.report);
	cr_expect_eq(m.n_requests, 1, "there is nothing more");
}

Test(report, without_requests_samples_are_emitted_as_stacks)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	m.options.emit = NULL;
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	machine_add_alpha(&m, p, OTHER_CODE);
	machine_add_alpha(&m, p, OTHER_CODE);
	cr_expect_eq(expect_identity(&m).emitted, 0);
	machine_flush(&m);
	cr_expect_eq(expect_identity(&m).emitted, 2);
	cr_expect_eq(m.n_requests, 0);
	cr_assert_eq(m.n_stacks, 1);
	cr_expect_str_eq(m.stacks[0].frames, "machine_alpha;?");
}

Test(report, each_origin_is_a_profile_of_its_own)
{
	static const struct {
		uint16_t origin;
		uint64_t value;
		const char *type, *unit;
		int64_t period;
	} rows[] = {{ORIGIN_CPU, 1, "samples", "count", NS_PER_SEC / 100},
		    {ORIGIN_OFF_CPU, 12345, "off_cpu", "nanoseconds", 0},
		    {ORIGIN_EVENT_FIRST, 1, "events", "count", 0}};
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	machine_report(&m);
	struct process *p = machine_process(&m, 7);
	const uint64_t word = machine_alpha_frame(&m);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sample_view v = machine_sample(p, &word, 0, 1);

		v.origin = rows[i].origin;
		v.value = rows[i].value;
		machine_add(&m, p, &v);
	}
	machine_flush(&m);
	cr_assert_eq(m.n_sent, ARRAY_SIZE(rows));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cr_expect_str_eq(m.sent[i].type, rows[i].type);
		cr_expect_str_eq(m.sent[i].unit, rows[i].unit);
		cr_expect_eq(m.sent[i].period, rows[i].period);
		cr_expect_eq(m.sent[i].n_times, 1);
		if (rows[i].value != 1)
			cr_expect_eq(m.sent[i].values[0], (int64_t)rows[i].value);
	}
	cr_expect_eq(m.n_stacks, 1, "recordings are of CPU time");
	cr_expect_eq(expect_identity(&m).emitted, ARRAY_SIZE(rows));
}

Test(report, aggregated_samples_have_a_value_instead_of_times)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	m.config.samples = CONFIG_SAMPLES_AGGREGATE;
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	for (int i = 0; i < 5; i++)
		machine_add_alpha(&m, p, OTHER_CODE);
	machine_flush(&m);
	cr_assert_eq(m.n_sent, 1);
	cr_expect_eq(m.sent[0].n_times, 0);
	cr_assert_eq(m.sent[0].n_values, 1);
	cr_expect_eq(m.sent[0].values[0], 5);
	cr_expect_eq(expect_identity(&m).emitted, 5);
}

Test(report, attributes_that_were_wanted)
{
	static char *wanted[] = {(char *)"thread.id", (char *)"cpu.logical_number",
				 (char *)"process.executable.path", (char *)"none.such"};
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	m.config.attributes.sample = (struct config_list){.items = wanted, .n = ARRAY_SIZE(wanted)};
	machine_report(&m);
	struct process *p = machine_process(&m, 7);
	const uint64_t word = machine_alpha_frame(&m);

	for (uint16_t cpu = 2; cpu < 4; cpu++) {
		struct sample_view v = machine_sample(p, &word, 0, 1);

		v.cpu = cpu;
		machine_add(&m, p, &v);
	}
	machine_flush(&m);
	cr_assert_eq(m.n_sent, 2, "those of two CPUs are kept apart, since the CPU is wanted");
	cr_expect_str_eq(m.sent[0].attributes,
			 "thread.id=7;cpu.logical_number=2;process.executable.path=/usr/bin/app");
}

Test(report, a_large_window_becomes_several_requests)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	m.options.max_request_bytes = 16u << 10;
	machine_report(&m);
	struct process *p = machine_process(&m, 7);

	add_deep(&m, p, 400);
	machine_flush(&m);
	cr_expect_gt(m.n_requests, 1);
	cr_expect_eq(expect_identity(&m).emitted, 400);
}

/* A stack, or the attributes of a resource, that no request can hold: counted, and the others go on. */
Test(report, what_no_request_can_hold_is_dropped)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 1);
	m.options.max_request_bytes = 4u << 10;
	machine_report(&m);
	struct process *p = machine_process(&m, 7);
	uint64_t words[1000];

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = OTHER_CODE + i;
	struct sample_view v = machine_sample(p, words, 0, ARRAY_SIZE(words));

	machine_add(&m, p, &v);
	machine_add_alpha(&m, p, OTHER_CODE);
	machine_flush(&m);
	cr_expect_eq(expect_identity(&m).dropped[REPORT_DROP_ENCODE], 1);
	cr_expect_eq(machine_sent(&m, ALPHA), 1);

	free(p->image->program->service_name);
	p->image->program->service_name = malloc(3000);
	cr_assert_not_null(p->image->program->service_name);
	memset(p->image->program->service_name, 'x', 2999);
	p->image->program->service_name[2999] = '\0';
	machine_add_alpha(&m, p, OTHER_CODE);
	machine_flush(&m);
	cr_expect_eq(expect_identity(&m).dropped[REPORT_DROP_ENCODE], 2);
}

/* Random samples, windows and answers: the account is right after every step. */
Test(report, no_sample_is_lost_whatever_happens)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		_cleanup_machine_ struct machine m;
		uint64_t random = seed;

		machine_init(&m, 1);
		m.options.window_bytes = 16u << 10;
		m.options.max_request_bytes = 8u << 10;
		m.options.stack = NULL;
		m.options.one_request = seed == 3;
		machine_report(&m);
		struct process *p = machine_process(&m, 7);

		for (int i = 0; i < 150; i++) {
			random = hash_u64(random);
			machine_now_ns += random % NS_PER_SEC;
			if (random % 16 < 10)
				machine_add_alpha(&m, p, OTHER_CODE + random % 7);
			else if (random % 16 < 13)
				add_deep(&m, p, 1);
			else if (random % 16 == 13)
				report_close_window(m.report);
			else if (random % 16 == 14)
				machine_work(&m);
			else
				report_send(m.report);
			expect_identity(&m);
		}
		machine_flush(&m);
		report_finish(m.report);
		cr_expect_eq(expect_identity(&m).waiting, 0, "seed %lu", (unsigned long)seed);
	}
}

/* Without a descriptor for /proc: no report, and nothing of it is left. */
Test(report, starting_without_resources_fails)
{
	_cleanup_machine_ struct machine m;
	struct rlimit before, none = {0};
	int r;

	machine_init(&m, 1);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = report_new(&m.report, &m.options);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_expect_eq(r, -EMFILE);
	cr_expect_null(m.report);
	report_free(NULL);
}
