// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "version.h"

enum unit { NUMBER, SECONDS }; /* SECONDS: stored in nanoseconds */

/* One number of the view. `label`: NULL, or "name=\"value\"". Rows of one name are adjacent; the first has
 * the help. */
struct metric {
	const char *name, *type, *help, *label;
	size_t offset;
	enum unit unit;
};

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "every field in the table has eight bytes");

#define AT(field) offsetof(struct metrics_view, field)
#define COUNTER(name, field, help) {name, "counter", help, NULL, AT(field), NUMBER}
#define GAUGE(name, field, help) {name, "gauge", help, NULL, AT(field), NUMBER}
#define LABELLED(name, label, field, help) {name, "counter", help, label, AT(field), NUMBER}
#define SECONDS_LABELLED(name, label, field, help) {name, "counter", help, label, AT(field), SECONDS}
#define SECONDS_OF(name, field, help) {name, "counter", help, NULL, AT(field), SECONDS}

static const struct metric metrics[] = {
	COUNTER("proflet_samples_taken_total", agent.taken_ever,
		"Samples that the BPF program took, of processes that are to be sampled."),
	COUNTER("proflet_samples_not_selected_total", agent.not_selected,
		"Samples of processes that are not to be sampled (select.include, select.exclude)."),
	COUNTER("proflet_samples_recovered_total", exporter.samples.recovered,
		"Samples of an earlier run that were found in the spool."),
	COUNTER("proflet_samples_exported_total", exporter.samples.exported,
		"Samples that the collector has accepted."),
	GAUGE("proflet_samples_spooled", exporter.samples.spooled, "Samples in the spool on disk."),
	LABELLED("proflet_stacks_finished_total", "result=\"whole\"", agent.completion.completed,
		 "Stacks that user space had to complete, because the kernel lacked a process, table or "
		 "rule, by result."),
	LABELLED("proflet_stacks_finished_total", "result=\"late\"", agent.completion.late, ""),
	LABELLED("proflet_stacks_finished_total", "result=\"no_room\"", agent.completion.no_room, ""),
	LABELLED("proflet_stacks_finished_total", "result=\"ring_pressure\"", agent.probe.ring_pressure, ""),
	COUNTER("proflet_stacks_rules_too_costly_total", agent.completion.finisher.rules_costly,
		"Stacks that end where following their call-frame information had taken too long."),
	LABELLED("proflet_stacks_outdated_total", "result=\"walked_again\"", agent.completion.walked_again,
		 "Stacks that the kernel unwound with outdated mappings, by what was done about it."),
	LABELLED("proflet_stacks_outdated_total", "result=\"cut\"", agent.completion.cut, ""),
	LABELLED("proflet_stacks_code_replaced_total", "result=\"walked_again\"",
		 agent.completion.code_walked_again,
		 "Stacks through code whose memory a virtual machine has given to other code, by what was "
		 "done "
		 "about it."),
	LABELLED("proflet_stacks_code_replaced_total", "result=\"cut\"", agent.completion.code_cut, ""),
	COUNTER("proflet_stacks_shortened_total", agent.report.shortened,
		"Stacks deeper than stack.depth that were walked to their end and sent without frames in the "
		"middle."),
	COUNTER("proflet_stack_frames_omitted_total", agent.report.omitted,
		"Frames that these stacks were sent without."),
	COUNTER("proflet_stacks_file_changed_total", agent.report.file_changed,
		"Stacks that were cut at the code of a file that was written while it may have been mapped."),
	COUNTER("proflet_windows_total", agent.report.windows, "Windows that were closed."),
	COUNTER("proflet_windows_late_total", agent.report.windows_late,
		"Windows that were sent before all their names were found."),
	COUNTER("proflet_symbols_file_changed_total", agent.report.names_changed,
		"Addresses that got no name, because their file had been written anew."),
	GAUGE("proflet_symbol_bytes", agent.report.names_bytes, "Memory used by names of functions."),
	COUNTER("proflet_language_samples_total", agent.runtimes.splice.samples,
		"Samples with frames of a language runtime that are not on the native stack."),
	COUNTER("proflet_language_samples_uncertain_total", agent.runtimes.splice.uncertain,
		"Samples in which the place of such frames among native ones is not certain."),
	LABELLED("proflet_language_samples_cut_total", "reason=\"read_fault\"",
		 agent.runtimes.splice.cut[RUNTIME_REASON_READ_FAULT],
		 "Samples in which the frames of a language runtime were not followed to the last one, by "
		 "reason."),
	LABELLED("proflet_language_samples_cut_total", "reason=\"inconsistent\"",
		 agent.runtimes.splice.cut[RUNTIME_REASON_INCONSISTENT], ""),
	LABELLED("proflet_language_samples_cut_total", "reason=\"depth_limit\"",
		 agent.runtimes.splice.cut[RUNTIME_REASON_DEPTH_LIMIT], ""),
	LABELLED("proflet_language_samples_missing_total", "reason=\"layout\"",
		 agent.runtimes.splice.missing[RUNTIME_REASON_LAYOUT],
		 "Samples in the loop of a language runtime without one of its frames, by reason."),
	LABELLED("proflet_language_samples_missing_total", "reason=\"no_thread\"",
		 agent.runtimes.splice.missing[RUNTIME_REASON_NO_THREAD], ""),
	LABELLED("proflet_language_samples_missing_total", "reason=\"not_known\"",
		 agent.runtimes.splice.missing[RUNTIME_REASON_NOT_KNOWN], ""),
	COUNTER("proflet_language_processes_refused_total", agent.runtimes.refused,
		"Processes whose language runtime has another layout than is known of its version."),
	COUNTER("proflet_language_lines_missed_total", agent.runtimes.lines_missed,
		"Functions of V8 whose first line was not found."),
	COUNTER("proflet_language_tasks_unnamed_total", agent.runtimes.bad_tasks,
		"Samples of tasks whose name could not be read (runtimes.python_tasks)."),
	COUNTER("proflet_language_reports_lost_total", agent.probe.reports_lost,
		"Reports about code objects that found their ring full; they are made again."),
	GAUGE("proflet_language_functions", agent.report.code.functions,
	      "Functions of language runtimes whose names are known."),
	GAUGE("proflet_language_names_bytes", agent.report.code.bytes,
	      "Memory used by names of functions of language runtimes."),
	LABELLED("proflet_language_reports_total", "result=\"ok\"", agent.report.code.added,
		 "Reports of the BPF program about code objects of language runtimes, by result."),
	LABELLED("proflet_language_reports_total", "result=\"bad\"", agent.report.code.bad, ""),
	LABELLED("proflet_language_reports_total", "result=\"lost\"", agent.probe.reports_lost, ""),
	COUNTER("proflet_language_functions_evicted_total", agent.report.code.evicted,
		"Functions of language runtimes that were forgotten to make room for others."),
	COUNTER("proflet_language_frames_unnamed_total", agent.report.unknown_code,
		"Frames of language runtimes that got no name, counted once in each window."),
	GAUGE("proflet_java_machines", agent.runtimes.vm_code.machines,
	      "Java virtual machines whose code is known, as far as samples have hit it."),
	GAUGE("proflet_java_code_pieces", agent.runtimes.vm_code.pieces,
	      "Compiled methods, stubs and bytecode of Java virtual machines that are known."),
	GAUGE("proflet_java_code_bytes", agent.runtimes.vm_code.bytes,
	      "Memory used by them and by names of methods."),
	COUNTER("proflet_java_methods_replaced_total", agent.runtimes.vm_code.replaced,
		"Methods of Java virtual machines whose memory another method has taken."),
	COUNTER("proflet_java_records_bad_total", agent.runtimes.vm_code.bad,
		"Answers about code of Java virtual machines that were not valid."),
	COUNTER("proflet_java_records_refused_total", agent.runtimes.vm_code.full,
		"Answers about code of Java virtual machines for which there was no room."),
	LABELLED("proflet_code_lists_refused_total", "reason=\"not_regular\"",
		 agent.report.jit.n_refused[JIT_NOT_REGULAR],
		 "Perf maps and jitdump files that were not read, because they may not be the process's own, "
		 "by "
		 "reason."),
	LABELLED("proflet_code_lists_refused_total", "reason=\"mounted\"",
		 agent.report.jit.n_refused[JIT_MOUNTED], ""),
	LABELLED("proflet_code_lists_refused_total", "reason=\"linked\"",
		 agent.report.jit.n_refused[JIT_LINKED], ""),
	LABELLED("proflet_code_lists_refused_total", "reason=\"foreign\"",
		 agent.report.jit.n_refused[JIT_FOREIGN], ""),
	LABELLED("proflet_code_lists_refused_total", "reason=\"old\"", agent.report.jit.n_refused[JIT_OLD],
		 ""),
	COUNTER("proflet_code_list_bytes_read_total", agent.report.jit.bytes_read,
		"Bytes of perf maps and jitdump files that were read."),
	LABELLED("proflet_code_lists_put_off_total", "reason=\"budget\"", agent.report.jit.n_deferred,
		 "Times that a perf map or jitdump file was not read on, or not to its end, by reason."),
	LABELLED("proflet_code_lists_put_off_total", "reason=\"rewritten\"", agent.report.jit.n_rewritten,
		 ""),
	LABELLED("proflet_code_lists_put_off_total", "reason=\"harmful\"", agent.report.jit.n_harmful, ""),
	LABELLED("proflet_code_lists_put_off_total", "reason=\"no_answer\"", agent.report.jit.n_no_answer,
		 ""),
	GAUGE("proflet_processes", agent.track.processes, "Known processes."),
	COUNTER("proflet_processes_refused_total", agent.track.processes_full,
		"Processes that were refused because the agent already tracks its maximum."),
	COUNTER("proflet_processes_unpublished_total", agent.track.publish.table_full,
		"Processes that did not fit into the BPF program's table."),
	GAUGE("proflet_threads", agent.track.names.threads, "Threads with a known name."),
	GAUGE("proflet_workloads", agent.track.names.workloads.entries,
	      "Known containers, pods and systemd units."),
	COUNTER("proflet_workloads_suspicious_total", agent.track.names.suspicious,
		"Times that a control group was named like a container or pod, but not made by root alone."),
	COUNTER("proflet_workloads_evicted_total", agent.track.names.workloads.n_evicted,
		"Containers, pods and systemd units that were forgotten to make room for others."),
	LABELLED("proflet_process_events_total", "event=\"exec\"", agent.track.events.execs,
		 "Process events that the kernel reported, by kind."),
	LABELLED("proflet_process_events_total", "event=\"fork\"", agent.track.events.forks, ""),
	LABELLED("proflet_process_events_total", "event=\"exit\"", agent.track.events.exits, ""),
	LABELLED("proflet_process_events_lost_total", "reason=\"overflow\"",
		 agent.track.events_lost[SIDEBAND_LOSS_OVERFLOW],
		 "Process events that were lost, by reason; /proc is scanned again after a loss."),
	LABELLED("proflet_process_events_lost_total", "reason=\"bad_record\"",
		 agent.track.events_lost[SIDEBAND_LOSS_BAD_RECORD], ""),
	LABELLED("proflet_process_events_lost_total", "reason=\"no_memory\"",
		 agent.track.events_lost[SIDEBAND_LOSS_NO_MEMORY], ""),
	LABELLED("proflet_process_gaps_total", "reason=\"events_lost\"", agent.track.gaps[GAP_EVENTS],
		 "Times that the agent's view of processes may have become incomplete, by reason; /proc is "
		 "scanned again."),
	LABELLED("proflet_process_gaps_total", "reason=\"cpu_online\"", agent.track.gaps[GAP_CPU_CAME], ""),
	LABELLED("proflet_process_gaps_total", "reason=\"no_memory\"", agent.track.gaps[GAP_NO_MEMORY], ""),
	LABELLED("proflet_process_gaps_total", "reason=\"not_opened\"", agent.track.gaps[GAP_NOT_OPENED], ""),
	COUNTER("proflet_process_rescans_total", agent.track.rescans, "Times that /proc was scanned again."),
	LABELLED("proflet_binaries_opened_total", "result=\"ok\"", agent.track.openings.opened,
		 "Attempts to open mapped files, by result."),
	LABELLED("proflet_binaries_opened_total", "result=\"failed\"", agent.track.openings.failed, ""),
	LABELLED("proflet_binaries_opened_total", "result=\"changed\"", agent.track.openings.changed, ""),
	LABELLED("proflet_binaries_opened_total", "result=\"gone\"", agent.track.openings.gone, ""),
	LABELLED("proflet_binaries_opened_total", "result=\"gone_but_known\"", agent.track.openings.known,
		 ""),
	LABELLED("proflet_binaries_opened_total", "result=\"stuck\"", agent.track.openings.stuck, ""),
	COUNTER("proflet_process_requests_late_total", agent.track.requests.late,
		"Requests for files or memory of processes that took longer than the main loop waits."),
	COUNTER("proflet_process_requests_unanswered_total", agent.track.requests.given_up,
		"Requests for files or memory of processes whose threads were blocked for more than 2 s."),
	COUNTER("proflet_process_requests_refused_total", agent.track.requests.refused,
		"Requests for files or memory that were not made, because too many were waiting."),
	COUNTER("proflet_tables_overdue_total", agent.track.tables.overdue,
		"Builds of unwind tables that were blocked for more than 10 s: a file system did not "
		"answer."),
	COUNTER("proflet_tables_costly_total", agent.track.tables.costly,
		"Builds of unwind tables that took more than 4 s of CPU time: samples did not wait for "
		"them."),
	LABELLED("proflet_files_quarantined_total", "reason=\"crashed\"",
		 agent.track.binaries.quarantined[QUARANTINE_CRASHED],
		 "Binaries that are not read again for their table, rules or names, by what happened to the "
		 "process that read them."),
	LABELLED("proflet_files_quarantined_total", "reason=\"out_of_time\"",
		 agent.track.binaries.quarantined[QUARANTINE_OUT_OF_TIME], ""),
	GAUGE("proflet_files_in_quarantine", agent.track.binaries.in_quarantine,
	      "Files that are remembered as such now."),
	COUNTER("proflet_parser_jobs_total", parser.jobs, "Jobs that were given to parser processes."),
	COUNTER("proflet_parser_jobs_again_total", parser.again,
		"Of these, jobs about files of the host's root, given to a process that had done one "
		"before."),
	LABELLED("proflet_parser_failures_total", "reason=\"crashed\"", parser.failed[PARSER_CRASHED],
		 "Jobs of parser processes that failed, by reason."),
	LABELLED("proflet_parser_failures_total", "reason=\"out_of_time\"", parser.failed[PARSER_OUT_OF_TIME],
		 ""),
	LABELLED("proflet_parser_failures_total", "reason=\"killed\"", parser.failed[PARSER_KILLED], ""),
	LABELLED("proflet_parser_failures_total", "reason=\"refused\"", parser.failed[PARSER_REFUSED], ""),
	LABELLED("proflet_parser_failures_total", "reason=\"not_started\"", parser.failed[PARSER_NOT_STARTED],
		 ""),
	LABELLED("proflet_parser_failures_total", "reason=\"no_answer\"", parser.failed[PARSER_NO_ANSWER],
		 ""),
	GAUGE("proflet_parser_large_files", parser.large,
	      "Files that take much memory, and are read by parser processes."),
	GAUGE("proflet_parser_large_files_waiting", parser.waiting,
	      "Files that wait until these have been read."),
	SECONDS_OF("proflet_parser_cpu_seconds_total", parser.cpu_ns, "CPU time of parser processes."),
	SECONDS_OF(
		"proflet_parser_wasted_cpu_seconds_total", parser.wasted_ns,
		"Of it, on jobs that failed by their file's fault, or whose answers were no use. It does not "
		"lower the sampling rate."),
	GAUGE("proflet_binaries", agent.track.binaries.known, "Known binaries."),
	GAUGE("proflet_binaries_unmapped", agent.track.binaries.unused,
	      "Known binaries that no process maps: they make room where it is needed."),
	COUNTER("proflet_binaries_changed_total", agent.track.binaries.changed,
		"Known binaries whose file was written anew: their code gets no more names and no table."),
	LABELLED("proflet_binaries_refused_total", "reason=\"maximum\"", agent.track.binaries.full,
		 "Binaries that were refused because the agent already knows its maximum, or those of their "
		 "workload have their share of it."),
	LABELLED("proflet_binaries_refused_total", "reason=\"share\"", agent.track.binaries.full_share, ""),
	GAUGE("proflet_tables", agent.track.tables.ready, "Unwind tables in use."),
	GAUGE("proflet_table_rows", agent.track.tables.rows, "Rows of the unwind tables in use."),
	GAUGE("proflet_table_bytes", agent.track.tables.table_bytes, "Memory used by unwind tables."),
	LABELLED("proflet_tables_built_total", "result=\"ok\"", agent.track.tables.built,
		 "Unwind tables that were built, by result."),
	LABELLED("proflet_tables_built_total", "result=\"failed\"", agent.track.tables.failed, ""),
	LABELLED("proflet_tables_built_total", "result=\"file_changed\"", agent.track.tables.stale, ""),
	SECONDS_OF("proflet_tables_build_seconds_total", agent.track.tables.build_ns,
		   "Time that workers spent on building unwind tables."),
	LABELLED("proflet_generated_code_total", "result=\"analysed\"", agent.track.tables.generated,
		 "Parts of code that processes generated, analysed for their unwind tables."),
	LABELLED("proflet_generated_code_total", "result=\"replaced\"", agent.track.tables.generated_replaced,
		 ""),
	LABELLED("proflet_generated_code_total", "result=\"refused\"", agent.track.tables.generated_refused,
		 ""),
	COUNTER("proflet_generated_code_processes_refused_total", agent.track.generated.full,
		"Times that the code of a process was not analysed because there are too many processes."),
	COUNTER("proflet_tables_evicted_total", agent.track.tables.evicted,
		"Unwind tables that were dropped to stay below memory.tables."),
	COUNTER("proflet_table_entries_skipped_total", agent.track.tables.skipped_fdes,
		"Entries (FDEs) skipped as invalid, and files whose code takes too long to analyse."),
	GAUGE("proflet_arena_bytes", agent.track.arena.segment_bytes,
	      "Memory shared with the BPF program, which holds unwind tables and mapping lists."),
	GAUGE("proflet_arena_used_bytes", agent.track.arena.used_bytes,
	      "Used part of the memory shared with the BPF program."),
	GAUGE("proflet_arena_max_bytes", agent.track.arena.max_bytes,
	      "Maximum of the memory shared with the BPF program (memory.tables)."),
	COUNTER("proflet_arena_full_total", agent.track.arena.n_full,
		"Times that an unwind table or mapping list did not fit into the memory shared with the BPF "
		"program."),
	LABELLED("proflet_kubelet_requests_total", "result=\"ok\"", agent.metadata.answered,
		 "Requests to the kubelet for its list of pods, by result."),
	LABELLED("proflet_kubelet_requests_total", "result=\"failed\"", agent.metadata.failed, ""),
	GAUGE("proflet_kubelet_pods", agent.metadata.table.pods, "Pods in the kubelet's last answer."),
	GAUGE("proflet_kubelet_containers", agent.metadata.table.containers,
	      "Containers in the kubelet's last answer."),
	GAUGE("proflet_kubelet_ids", agent.metadata.table.entries,
	      "Pods and containers that the agent knows; it forgets them some minutes after they ended."),
	COUNTER("proflet_kubelet_ids_refused_total", agent.metadata.table.refused,
		"Pods and containers in the kubelet's answers that the agent had no room for."),
	COUNTER("proflet_kubelet_left_out_total", agent.metadata.table.left_out,
		"Pods, containers and labels in the kubelet's answers that exceeded a maximum."),
	SECONDS_OF("proflet_bpf_run_seconds_total", agent.bpf_run_ns,
		   "Run time of the BPF program; counted while kernel.bpf_stats_enabled is 1."),
	COUNTER("proflet_bpf_runs_total", agent.bpf_runs,
		"Runs of the BPF program, also on idle CPUs; counted while kernel.bpf_stats_enabled is 1."),
	GAUGE("proflet_bpf_map_bytes", agent.map_bytes, "Kernel memory used by BPF maps."),
	LABELLED("proflet_export_requests_total", "result=\"accepted\"", exporter.requests.exported,
		 "Export requests that the collector accepted or rejected."),
	LABELLED("proflet_export_requests_total", "result=\"rejected\"",
		 exporter.requests.dropped[OTLP_DROP_REJECTED], ""),
	COUNTER("proflet_export_attempts_total", exporter.attempts, "Attempts to send an export request."),
	COUNTER("proflet_export_retries_total", exporter.retries,
		"Attempts to send an export request after an earlier attempt failed."),
	COUNTER("proflet_export_splits_total", exporter.splits,
		"Export requests that were too large for the collector and split in two."),
	COUNTER("proflet_export_raw_bytes_total", exporter.exported_raw_bytes,
		"Bytes of accepted export requests before compression."),
	COUNTER("proflet_export_wire_bytes_total", exporter.exported_wire_bytes,
		"Bytes of accepted export requests after compression."),
	GAUGE("proflet_queue_bytes", exporter.queued_bytes,
	      "Memory used by export requests that wait to be delivered."),
	GAUGE("proflet_queue_max_bytes", queue_max_bytes,
	      "Maximum memory for export requests that wait to be delivered (queue.memory)."),
	GAUGE("proflet_spool_bytes", exporter.spooled_bytes,
	      "Disk space used by export requests in the spool."),
	GAUGE("proflet_spool_max_bytes", spool_max_bytes,
	      "Maximum disk space for the spool (queue.spool_max); 0: no spool."),
	GAUGE("proflet_spool_foreign_entries", exporter.spool_foreign,
	      "Entries of the spool's folder at the start that are not the agent's and are ignored."),
	COUNTER("proflet_spool_failures_total", exporter.spool_failures, "Failed writes to the spool."),
	SECONDS_LABELLED("proflet_samples_cpu_seconds_total", "where=\"kernel\"", agent.probe.cpu_ns,
			 "CPU time spent on samples, by where; the part in the kernel is measured on every "
			 "16th sample."),
	SECONDS_LABELLED("proflet_samples_cpu_seconds_total", "where=\"main\"", agent.samples_cpu_ns, ""),
	SECONDS_LABELLED("proflet_samples_cpu_seconds_total", "where=\"export\"", exporter.cpu_ns, ""),
	SECONDS_OF("process_cpu_seconds_total", self.cpu_ns,
		   "CPU time of the agent, without the BPF program."),
	GAUGE("process_resident_memory_bytes", self.resident_bytes, "Resident memory of the agent."),
	GAUGE("proflet_memory_max_bytes", memory_max_bytes, "Maximum memory of the agent (memory.total)."),
	COUNTER("proflet_delivery_restarts_total", delivery_restarts,
		"Times that the process that delivers had ended and was started again."),
	COUNTER("proflet_listen_connections_total", http.accepted, "Connections to the address of listen."),
	LABELLED("proflet_listen_closed_total", "reason=\"evicted\"", http.evicted,
		 "Connections to the address of listen that were closed without a whole answer, by reason."),
	LABELLED("proflet_listen_closed_total", "reason=\"late\"", http.late, ""),
	COUNTER("proflet_listen_paused_total", http.paused,
		"Times that connections to the address of listen had to wait: there were too many."),
	GAUGE("proflet_pulls_running", pulls.running,
	      "Requests for a profile whose profile is being made, or taken by the client."),
	GAUGE("process_open_fds", self.open_files, "Open files of the agent."),
};

/* The page being written. */
struct page {
	struct buf *b;
	enum metrics_form form;
};

static bool ends_with(const char *name, size_t len, const char *suffix)
{
	size_t n = strlen(suffix);

	return len > n && memcmp(name + len - n, suffix, n) == 0;
}

/* The unit of a family: the last word of its name without suffix. NULL: a number of things. */
static const char *unit_of(const char *family, size_t len)
{
	static const char *const units[] = {"_bytes", "_seconds", "_hertz", "_ratio"};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (ends_with(family, len, units[i]))
			return units[i] + 1;
	return NULL;
}

static int head(const struct page *p, const char *name, const char *type, const char *help)
{
	size_t len = strlen(name);
	const char *unit;
	int r;

	if (p->form == METRICS_TEXT)
		return buf_printf(p->b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
	/* OpenMetrics names a family without the suffix of its samples */
	if (ends_with(name, len, "_total"))
		len -= strlen("_total");
	if (ends_with(name, len, "_info")) {
		len -= strlen("_info");
		type = "info";
	}
	unit = unit_of(name, len);
	r = buf_printf(p->b, "# TYPE %.*s %s\n", (int)len, name, type);
	if (r == 0 && unit)
		r = buf_printf(p->b, "# UNIT %.*s %s\n", (int)len, name, unit);
	return r < 0 ? r : buf_printf(p->b, "# HELP %.*s %s\n", (int)len, name, help);
}

static int line(const struct page *p, const char *name, const char *label, double value)
{
	return buf_printf(p->b, "%s%s%s%s %.15g\n", name, label ? "{" : "", label ? label : "",
			  label ? "}" : "", value);
}

static int table(const struct metrics_view *v, const struct page *p)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(metrics) && r == 0; i++) {
		const struct metric *m = &metrics[i];
		uint64_t value;

		memcpy(&value, (const char *)v + m->offset, sizeof value);
		if (i == 0 || strcmp(m->name, m[-1].name) != 0)
			r = head(p, m->name, m->type, m->help);
		if (r == 0)
			r = line(p, m->name, m->label,
				 m->unit == SECONDS ? (double)value / NS_PER_SEC : (double)value);
	}
	return r;
}

static int labelled(const struct page *p, const char *name, const char *key, const char *text, uint64_t value)
{
	char label[96];

	(void)snprintf(label, sizeof label, "%s=\"%s\"", key, text);
	for (char *c = label; *c; c++)
		if (*c == ' ' || *c == '-')
			*c = '_';
	return line(p, name, label, (double)value);
}

/* Every reason, including those without drops. */
static int drops(const struct metrics_view *v, const struct page *p)
{
	static const char name[] = "proflet_samples_dropped_total";
	struct agent_drop own[AGENT_DROPS_MAX];
	size_t n = agent_drops(&v->agent, own);
	int r = head(p, name, "counter", "Samples that were not delivered, by reason.");

	for (size_t i = 0; i < n && r == 0; i++)
		r = labelled(p, name, "reason", own[i].reason, own[i].n);
	for (int i = 0; i < OTLP_N_DROP_REASONS && r == 0; i++)
		r = labelled(p, name, "reason", otlp_drop_name((enum otlp_drop)i),
			     v->exporter.samples.dropped[i]);
	return r;
}

static int export_failures(const struct metrics_view *v, const struct page *p)
{
	static const char name[] = "proflet_export_failures_total";
	int r = head(p, name, "counter",
		     "Attempts to send an export request that have to be repeated, by reason.");

	for (int i = 0; i < OTLP_N_FAILURES && r == 0; i++)
		r = labelled(p, name, "reason", otlp_failure_name((enum otlp_failure)i),
			     v->exporter.failures[i]);
	return r;
}

static int pulls(const struct metrics_view *v, const struct page *p)
{
	static const char name[] = "proflet_pulls_total";
	static const char *const texts[PULL_RESULTS_N] = {
#define X(result, text) [PULL_RESULT_##result] = text,
		PULL_RESULTS(X)
#undef X
	};
	int r = head(p, name, "counter", "Requests for a profile at the address of listen, by result.");

	for (int i = 0; i < PULL_RESULTS_N && r == 0; i++)
		r = labelled(p, name, "result", texts[i], v->pulls.results[i]);
	return r;
}

static int endings(const struct metrics_view *v, const struct page *p)
{
	static const char name[] = "proflet_stacks_total";
	int r = head(p, name, "counter",
		     "Stacks by how the unwind ended; complete, kernel_thread and task_exiting are whole.");

	for (int i = 0; i < ENDINGS && r == 0; i++)
		r = labelled(p, name, "ending", unwind_ending_text((enum unwind_ending)i),
			     v->agent.report.by_ending[i]);
	return r;
}

/* Samples of one runtime by how the unwind ended: complete, and all that have occurred. */
static int native_samples(const struct page *p, const char *name, const char *help,
			  const struct runtimes_native_stats *stats)
{
	int r = head(p, name, "counter", help);

	for (int i = 0; i < ENDINGS && r == 0; i++)
		if (i == ENDING_ROOT || stats->by_ending[i])
			r = labelled(p, name, "ending", unwind_ending_text((enum unwind_ending)i),
				     stats->by_ending[i]);
	return r;
}

static int counter(const struct page *p, const char *name, const char *help, uint64_t value)
{
	int r = head(p, name, "counter", help);

	return r < 0 ? r : line(p, name, NULL, (double)value);
}

/* Languages whose frames are on the native stack. */
static int native_languages(const struct runtimes_stats *s, const struct page *p)
{
	const struct {
		const char *samples, *samples_help, *unnamed, *unnamed_help;
		const struct runtimes_native_stats *stats;
	} all[] = {
		{"proflet_java_samples_total", "Samples with methods of Java, by how the unwind ended.",
		 "proflet_java_samples_unnamed_total",
		 "Samples with compiled code of Java of which nothing was known yet.", &s->vm[VM_HOTSPOT]},
		{"proflet_node_samples_total",
		 "Samples with functions of V8 (Node.js), by how the unwind ended.",
		 "proflet_node_samples_unnamed_total",
		 "Samples with code of V8 (Node.js) in which no function was found.", &s->v8},
		{"proflet_erlang_samples_total",
		 "Samples of Erlang programs (BEAM), by how the unwind ended.",
		 "proflet_erlang_samples_unnamed_total",
		 "Samples with compiled code of Erlang of which nothing was known yet.", &s->vm[VM_BEAM]},
		{"proflet_dotnet_samples_total", "Samples of .NET programs, by how the unwind ended.",
		 "proflet_dotnet_samples_unnamed_total",
		 "Samples with compiled code of .NET of which nothing was known yet.", &s->vm[VM_DOTNET]},
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all) && r == 0; i++) {
		r = native_samples(p, all[i].samples, all[i].samples_help, all[i].stats);
		if (r == 0)
			r = counter(p, all[i].unnamed, all[i].unnamed_help, all[i].stats->unnamed);
	}
	return r;
}

static int languages(const struct metrics_view *v, const struct page *p)
{
	static const char name[] = "proflet_language_processes";
	int r = head(p, name, "gauge",
		     "Processes by language runtime in their files, its version, and whether its functions "
		     "are shown.");
	char label[128];

	for (size_t i = 0; i < v->languages.n && r == 0; i++) {
		const struct runtimes_version *x = &v->languages.v[i];

		(void)snprintf(label, sizeof label, "runtime=\"%s\",version=\"%s\",functions=\"%s\"",
			       x->runtime, x->version, x->shown ? "shown" : "not_shown");
		r = line(p, name, label, (double)x->processes);
	}
	if (r == 0 && v->languages.others)
		r = line(p, name, "runtime=\"others\",version=\"\",functions=\"not_counted\"",
			 (double)v->languages.others);
	return r == 0 ? native_languages(&v->agent.runtimes, p) : r;
}

static int gauge(const struct page *p, const char *name, const char *help, double value)
{
	int r = head(p, name, "gauge", help);

	return r < 0 ? r : line(p, name, NULL, value);
}

static int by_thread(const struct page *p, const char *name, const char *help, uint64_t main_ns,
		     uint64_t others_ns)
{
	int r = head(p, name, "counter", help);

	if (r == 0)
		r = line(p, name, "thread=\"main\"", (double)main_ns / NS_PER_SEC);
	return r < 0 ? r : line(p, name, "thread=\"other\"", (double)others_ns / NS_PER_SEC);
}

/* Left out where the kernel does not count it: a zero would say that the agent never waits. */
static int cpu_times(const struct metrics_view *v, const struct page *p)
{
	const struct cpu_wait_times *t = &v->cpu;
	int r;

	if (!t->known)
		return 0;
	r = by_thread(p, "proflet_cpu_run_seconds_total", "Time that threads of the agent ran on a CPU.",
		      t->main.run_ns, t->others.run_ns);
	if (r == 0)
		r = by_thread(p, "proflet_cpu_wait_seconds_total",
			      "Time that threads of the agent were ready to run, but had no CPU.",
			      t->main.wait_ns, t->others.wait_ns);
	if (r == 0)
		r = gauge(
			p, "proflet_cpu_starved",
			"1 while the agent waits for a CPU most of the time that it has work to do: its CPU "
			"request is too low.",
			t->starved);
	return r;
}

/* Metrics that are computed from several fields. */
static int derived(const struct metrics_view *v, const struct page *p)
{
	uint64_t first_ns = v->agent.report.first_sample_ns;
	int r = head(p, "proflet_build_info", "gauge", "Version of the agent; always 1.");

	if (r == 0)
		r = line(p, "proflet_build_info",
			 "version=\"" PROFLET_VERSION "\",commit=\"" PROFLET_COMMIT "\"", 1);
	if (r == 0)
		r = gauge(p, "proflet_samples_in_flight",
			  "Samples in the ring, in windows, and in export requests that wait.",
			  (double)(v->agent.in_flight + v->exporter.samples.queued));
	if (r == 0)
		r = gauge(p, "proflet_sampling_frequency_hertz", "Samples per second on each CPU.",
			  v->agent.frequency_hz);
	if (r == 0)
		r = gauge(p, "proflet_sampling_frequency_max_hertz",
			  "Configured sampling frequency (sampling.frequency), which cpu.max may lower.",
			  v->frequency_max_hz);
	if (r == 0)
		r = gauge(p, "proflet_cpu_max_ratio",
			  "Maximum CPU time of the agent as a ratio of one CPU (cpu.max).", v->cpu_max);
	if (r == 0)
		r = gauge(p, "proflet_sampling_stalled",
			  "1 while no samples arrive although the CPUs are busy.", v->stalled);
	if (r == 0)
		r = gauge(p, "proflet_ready", "1 once sampling has begun.", v->ready);
	if (r == 0)
		r = gauge(p, "proflet_first_sample_seconds",
			  "Time from the start of the agent to its first sample; 0: none yet.",
			  first_ns ? (double)(first_ns - v->agent.start_ns) / NS_PER_SEC : 0);
	if (r == 0 && v->agent.metadata.answered_ns)
		r = gauge(p, "proflet_kubelet_age_seconds",
			  "Time since the last answered request to the kubelet was sent.",
			  (double)(clock_mono_ns() - v->agent.metadata.answered_ns) / NS_PER_SEC);
	if (r == 0)
		r = gauge(p, "proflet_collector_away", "1 while the collector is unreachable.",
			  v->exporter.away);
	if (r == 0)
		r = gauge(p, "process_start_time_seconds", "Start time of the agent, as Unix time.",
			  (double)((int64_t)v->agent.start_ns + clock_real_offset_ns()) / NS_PER_SEC);
	return r;
}

enum metrics_form metrics_form_of(const char *accept)
{
	return strstr(accept, "application/openmetrics-text") ? METRICS_OPEN : METRICS_TEXT;
}

const char *metrics_content_type(enum metrics_form form)
{
	return form == METRICS_OPEN ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				    : "text/plain; version=0.0.4; charset=utf-8";
}

int metrics_format(const struct metrics_view *v, enum metrics_form form, struct buf *b)
{
	const struct page p = {b, form};
	int r = table(v, &p);

	if (r == 0)
		r = drops(v, &p);
	if (r == 0)
		r = export_failures(v, &p);
	if (r == 0)
		r = endings(v, &p);
	if (r == 0)
		r = languages(v, &p);
	if (r == 0)
		r = pulls(v, &p);
	if (r == 0)
		r = cpu_times(v, &p);
	if (r == 0)
		r = derived(v, &p);
	if (r == 0 && form == METRICS_OPEN)
		r = buf_puts(b, "# EOF\n");
	return r;
}
