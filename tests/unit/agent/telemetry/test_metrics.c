// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/metrics.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"

static struct metrics_view filled(void)
{
	struct metrics_view v = {.frequency_max_hz = 19, .cpu_max = 0.05, .ready = true};

	v.agent.frequency_hz = 7;
	v.agent.probe.cpu_ns = 2500 * NS_PER_MS;
	v.agent.taken_ever = 1000;
	v.agent.probe.counters[COUNTER_TAKEN] = 1000;
	v.agent.probe.counters[COUNTER_RING_FULL] = 3;
	v.agent.not_selected = 9;
	v.agent.report.dropped[REPORT_DROP_WINDOW_FULL] = 6;
	v.agent.report.by_ending[ENDING_NO_TABLE] = 7;
	v.agent.report.shortened = 4;
	v.agent.report.omitted = 4000;
	v.agent.bpf_run_ns = 250 * NS_PER_MS;
	v.memory_max_bytes = 256 << 20;
	v.agent.track.tables.build_ns = 1500 * NS_PER_MS;
	v.agent.in_flight = 10;
	v.agent.metadata.failed = 40;
	v.agent.metadata.table.pods = 50;
	v.exporter.samples.queued = 20;
	v.exporter.samples.dropped[OTLP_DROP_QUEUE_FULL] = 30;
	return v;
}

static void expect_line(struct buf *b, const char *line)
{
	_cleanup_buf_ struct buf want = {0};

	buf_printf(&want, "\n%s\n", line);
	cr_expect_not_null(strstr(buf_str(b), buf_str(&want)), "no line %s", line);
}

Test(metrics, lines)
{
	_cleanup_buf_ struct buf b = {0};
	struct metrics_view v = filled();

	cr_assert_eq(metrics_format(&v, METRICS_TEXT, &b), 0);
	expect_line(&b, "# TYPE proflet_samples_recovered_total counter");
	expect_line(&b, "# HELP proflet_tables Unwind tables in use.");
	expect_line(&b, "proflet_samples_taken_total 1000");
	expect_line(&b, "proflet_samples_cpu_seconds_total{where=\"kernel\"} 2.5");
	expect_line(&b, "proflet_sampling_frequency_hertz 7");
	expect_line(&b, "proflet_sampling_frequency_max_hertz 19");
	expect_line(&b, "proflet_cpu_max_ratio 0.05");
	expect_line(&b, "proflet_samples_dropped_total{reason=\"ring_full\"} 3");
	expect_line(&b, "proflet_samples_not_selected_total 9");
	expect_line(&b, "proflet_samples_dropped_total{reason=\"window_full\"} 6");
	expect_line(&b, "proflet_samples_dropped_total{reason=\"queue_full\"} 30");
	expect_line(&b, "proflet_samples_dropped_total{reason=\"rejected\"} 0");
	expect_line(&b, "proflet_samples_in_flight 30");
	expect_line(&b, "proflet_stacks_total{ending=\"no_table\"} 7");
	expect_line(&b, "proflet_stacks_shortened_total 4");
	expect_line(&b, "proflet_stack_frames_omitted_total 4000");
	expect_line(&b, "proflet_tables_build_seconds_total 1.5");
	expect_line(&b, "proflet_sampling_stalled 0");
	expect_line(&b, "proflet_kubelet_requests_total{result=\"failed\"} 40");
	expect_line(&b, "proflet_kubelet_pods 50");
	cr_expect_null(strstr(buf_str(&b), "proflet_kubelet_age_seconds"), "no answer yet: no age");
}

Test(metrics, languages)
{
	_cleanup_buf_ struct buf b = {0};
	struct metrics_view v = filled();

	v.languages.v[0] = (struct runtimes_version){"v8js", "12.4.254", true, 3};
	v.languages.v[1] = (struct runtimes_version){"jvm", "", false, 1};
	v.languages.n = 2;
	v.agent.runtimes.v8.by_ending[ENDING_ROOT] = 80;
	v.agent.runtimes.v8.by_ending[ENDING_NO_MAPPING] = 2;
	v.agent.runtimes.vm[VM_HOTSPOT].unnamed = 5;
	cr_assert_eq(metrics_format(&v, METRICS_TEXT, &b), 0);
	expect_line(
		&b,
		"proflet_language_processes{runtime=\"v8js\",version=\"12.4.254\",functions=\"shown\"} 3");
	expect_line(&b, "proflet_language_processes{runtime=\"jvm\",version=\"\",functions=\"not_shown\"} 1");
	expect_line(&b, "proflet_node_samples_total{ending=\"complete\"} 80");
	expect_line(&b, "proflet_node_samples_total{ending=\"no_mapping\"} 2");
	expect_line(&b, "proflet_java_samples_total{ending=\"complete\"} 0");
	expect_line(&b, "proflet_java_samples_unnamed_total 5");
	cr_expect_null(strstr(buf_str(&b), "runtime=\"others\""));
}

Test(metrics, cpu_times_only_where_known)
{
	_cleanup_buf_ struct buf b = {0};
	struct metrics_view v = filled();

	v.cpu = (struct cpu_wait_times){.main = {1500 * NS_PER_MS, 250 * NS_PER_MS},
					.others = {500 * NS_PER_MS, 9000 * NS_PER_MS},
					.starved = true};
	cr_assert_eq(metrics_format(&v, METRICS_TEXT, &b), 0);
	cr_expect_null(strstr(buf_str(&b), "proflet_cpu_wait"), "unknown is not 0");
	cr_expect_null(strstr(buf_str(&b), "proflet_cpu_starved"));
	v.cpu.known = true;
	b.len = 0;
	cr_assert_eq(metrics_format(&v, METRICS_OPEN, &b), 0);
	expect_line(&b, "# UNIT proflet_cpu_wait_seconds seconds");
	expect_line(&b, "proflet_cpu_run_seconds_total{thread=\"main\"} 1.5");
	expect_line(&b, "proflet_cpu_run_seconds_total{thread=\"other\"} 0.5");
	expect_line(&b, "proflet_cpu_wait_seconds_total{thread=\"main\"} 0.25");
	expect_line(&b, "proflet_cpu_wait_seconds_total{thread=\"other\"} 9");
	expect_line(&b, "proflet_cpu_starved 1");
}

Test(metrics, openmetrics)
{
	static const char accept[] = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
	_cleanup_buf_ struct buf b = {0};
	struct metrics_view v = filled();

	cr_assert_eq(metrics_form_of(accept), METRICS_OPEN);
	cr_assert_eq(metrics_form_of("text/plain;version=0.0.4;q=1,*/*;q=0.1"), METRICS_TEXT);
	cr_assert_eq(metrics_form_of(""), METRICS_TEXT);
	cr_assert_eq(metrics_format(&v, METRICS_OPEN, &b), 0);
	expect_line(&b, "# TYPE proflet_samples_recovered counter");
	expect_line(&b, "proflet_samples_recovered_total 0");
	expect_line(&b, "# TYPE proflet_bpf_run_seconds counter\n# UNIT proflet_bpf_run_seconds seconds");
	expect_line(&b, "proflet_bpf_run_seconds_total 0.25");
	expect_line(&b, "# UNIT proflet_memory_max_bytes bytes");
	expect_line(&b, "# UNIT proflet_cpu_max_ratio ratio");
	expect_line(&b, "# TYPE proflet_build info");
	cr_expect_null(strstr(buf_str(&b), "# UNIT proflet_samples_recovered"),
		       "a number of things has no unit");
	cr_expect(strcmp(buf_str(&b) + b.len - 6, "# EOF\n") == 0);
}

Test(metrics, no_memory)
{
	_cleanup_buf_ struct buf b = {.max = 64};
	struct metrics_view v = filled();

	cr_expect_eq(metrics_format(&v, METRICS_TEXT, &b), -EOVERFLOW);
}
