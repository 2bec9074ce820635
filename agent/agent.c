// SPDX-License-Identifier: Apache-2.0
/*
 * Order of start: the side-band is opened before /proc is read, or processes that start in between would be
 * missed; the program is loaded meanwhile; sampling begins last, when the mappings of every running process
 * are published. One timer drains both rings, the side-band first, so that a sample finds its process.
 */
#include "agent/agent.h"

#include <errno.h>
#include <poll.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/base/worker.h"
#include "agent/config/config.h"
#include "agent/describe.h"
#include "agent/follow.h"
#include "agent/load.h"
#include "agent/metadata.h"
#include "agent/parser/parser.h"
#include "agent/base/priority.h"
#include "agent/base/urgency.h"
#include "agent/probe/probe.h"
#include "agent/probe/sideband.h"
#include "agent/base/resources.h"
#include "agent/elf/runtime/facts.h"
#include "agent/report/pulls.h"
#include "agent/pace.h"
#include "agent/runtimes.h"
#include "agent/sample/decode.h"
#include "agent/symbol/jit.h"
#include "agent/unwind/completion.h"
#include "cgroup/meta.h"
#include "cgroup/observer.h"

/* The ring of process events must not overflow in the longest pause: it has room for five thousand events. */
#define EVENTS_PAUSE_NS (1 * NS_PER_MS)
#define EVENTS_PAUSE_MAX_NS (8 * NS_PER_MS)
#define FIRST_WINDOW_NS (5 * NS_PER_MS)
#define LOADING_STEP_NS (5 * NS_PER_MS)
#define RUNTIMES_NS (400 * NS_PER_MS) /* that sampling waits for language runtimes to be known, at least */
#define RUNTIMES_BY_NS (2500 * NS_PER_MS) /* longer where the start was slow, but no longer after it began */
#define URGENT_START_NS (5 * NS_PER_SEC)  /* tables for what runs are built meanwhile */
#define FLUSH_SAMPLES_NS (5 * NS_PER_SEC) /* for what the last samples lack */
#define FLUSH_STEP_NS (100 * NS_PER_MS)
#define RESELECT_NS (1 * NS_PER_SEC)
#define SWEEP_NS (15 * NS_PER_SEC)
#define PROCESSES_MAX 65536u
#define JOBS_MAX 4096u
#define WORKER_THREADS 2u
#define LIST_THREADS 2u
#define LISTS_MAX 1024u
#define CODE_NAMES_SHARE 32u	       /* of memory.total, for names of functions of language runtimes */
#define PULL_SHARE 64u		       /* of memory.total, for a profile that is requested */
#define PULL_STEP_NS (250 * NS_PER_MS) /* before a window is tried to be ended again */
#define PULL_PAUSE_NS (1 * NS_PER_SEC) /* between windows that end for pulls */

_Static_assert(RESOURCES_FILES_MAX <= FRAME_FILE_MAX, "each binary has a tag");

struct agent {
	struct agent_options options;
	struct loop *loop;
	struct worker *worker, *opener;
	struct worker *lists; /* for files that tenants write at will: no table waits for them */
	struct probe *probe;
	struct sideband *sideband;
	struct track_host host;
	struct track *track;
	struct completion *completion;
	struct report *report;
	struct runtimes *runtimes; /* NULL: no frames of language runtimes are wanted */
	struct metadata *metadata; /* NULL: no pod names are wanted */
	struct pace pace;
	struct loop_source *events, *events_pause, *window, *pulls;
	uint64_t pulls_window_ns; /* when a window ended for pulls; 0: never */
	uint64_t pause_ns;
	uint64_t heard_ns;     /* all process events before this time have been handled */
	uint64_t drain_cpu_ns; /* CPU time of the main loop for samples that were drained */
	uint64_t received, not_selected, taken_ever, refused[SAMPLE_DROPS_N];
	uint32_t frequency_hz;
	struct follow *follow;
	struct cgroup_place place; /* of our own control group */
	uint64_t start_ns, attached_ns;
	bool sampling;
};

static char *why(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *why(const char *format, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	return n < 0 ? NULL : text;
}

static void get_busy(struct agent *a)
{
	if (!a->pace.brisk)
		pace_busy(&a->pace);
}

/* Drains the process events into the process table. False: no event brought a change. */
static bool take_events(struct agent *a)
{
	uint64_t before = clock_mono_ns();
	bool news = track_drain(a->track);

	a->heard_ns = before;
	if (news)
		get_busy(a);
	return news;
}

static bool is_wanted(const struct agent *a, const struct sampled_task *task, const struct sample_view *v)
{
	return task->image->selected &&
	       (!a->options.wants || a->options.wants(task, v, a->options.wants_data));
}

/*
 * Decodes a record, finds the process it belongs to, and completes its stack, which then goes to on_final.
 * Every process event up to the sample's time must have been handled, because the process depends on them.
 */
static void on_record(const void *record, size_t len, void *data)
{
	struct agent *a = data;
	struct sampled_task task;
	struct sample_view view;

	a->received++;
	urgency_check(URGENCY_EVENTS);
	if (sample_decode(record, len, &view) < 0) {
		a->refused[SAMPLE_DROP_BAD_RECORD]++;
		return;
	}
	if (view.time_ns >= a->heard_ns)
		(void)take_events(a);
	if (view.saved || view.runtime)
		get_busy(a);
	if (!track_attribute(a->track, &view, &task))
		a->refused[SAMPLE_DROP_NO_PROCESS_SLOT]++;
	else if (!is_wanted(a, &task, &view))
		a->not_selected++;
	else
		completion_take(a->completion, &task, &view, record, len);
}

/* Takes a sample whose stack is final: at once, or after the sample has waited for a table. */
static void on_final(const struct sampled_task *task, const struct sample_view *view, void *data)
{
	struct agent *a = data;
	struct sample_view spliced;

	if (!a->runtimes) {
		report_add(a->report, task, view);
		return;
	}
	runtimes_splice(a->runtimes, task, view, &spliced);
	report_add(a->report, task, &spliced);
}

static void on_generated(struct process *p, uint64_t address, enum generated_wish wish, void *data)
{
	struct agent *a = data;

	track_generated(a->track, p, address, wish);
}

/* Looks a function up that a process has generated. */
static int on_function(struct process *p, uint64_t since_ns, struct generated_request *request, void *data)
{
	struct agent *a = data;
	struct symbol_jit_code code;
	int r = a->runtimes ? runtimes_find_vm(a->runtimes, p, request) : -ENOENT;
	const bool v8 = r == 0 &&
			request->vm.kind == VM_V8; /* has code that it does not know itself: WebAssembly's */

	if (r != -ENOENT && !v8)
		return r;
	r = report_code_at(a->report, p, request->address, since_ns, &code);
	if (v8 && r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	request->start = code.start;
	request->end = code.end;
	request->frame_pointer = code.frame_pointer;
	return 0;
}

/* Whether a virtual machine of the process is known. */
static bool on_machine(struct process *p, struct generated_request *request, void *data)
{
	struct agent *a = data;

	return a->runtimes && runtimes_find_vm(a->runtimes, p, request) == 0;
}

static bool is_reading(const struct process *p, void *data)
{
	const struct agent *a = data;

	return track_reading(a->track, p);
}

static bool is_named(const struct sampled_task *task, const struct sample_view *v, void *data)
{
	struct agent *a = data;

	return !a->runtimes || runtimes_named(a->runtimes, task, v);
}

/*
 * Sends the closed window if it is due. Process events are drained first, because they show which names were
 * read only after their process had ended and so belong to another one.
 */
static void send_window(struct agent *a)
{
	if (!report_sendable(a->report))
		return;
	(void)take_events(a);
	report_send(a->report);
}

static void drain(struct agent *a)
{
	uint64_t before = clock_mono_ns(), cpu;
	int r;

	(void)take_events(a);
	cpu = clock_thread_cpu_ns();
	r = probe_ring_drain(a->probe, on_record, a);
	if (r < 0)
		log_warn("samples could not be read: %s", strerror(-r));
	else
		track_drained(a->track, before);
	pace_drained(&a->pace);
	if (a->runtimes)
		runtimes_drain(a->runtimes);
	completion_retry(a->completion, track_epoch(a->track));
	a->drain_cpu_ns += clock_thread_cpu_ns() - cpu;
	send_window(a);
}

/* Whether something is on its way whose progress is looked at by timer. */
static bool is_working(const struct agent *a)
{
	return track_working(a->track) || completion_waiting(a->completion) || report_closing(a->report);
}

static void wake_early(void *data)
{
	const struct agent *a = data;

	probe_ring_wake_early(a->probe);
}

static int on_drain(uint64_t expirations, void *data)
{
	struct agent *a = data;

	(void)expirations;
	drain(a);
	track_check(a->track);
	parser_trim(false);
	if (track_code_changes(a->track))
		pace_hurry(&a->pace);
	else if (is_working(a))
		pace_busy(&a->pace);
	else
		pace_calm(&a->pace);
	return 0;
}

static int on_ring(int fd, uint32_t events, void *data)
{
	(void)fd;
	(void)events;
	drain(data);
	return 0;
}

/*
 * Drains the process events, then pauses for a millisecond, so that several events cause one wakeup. A
 * program that maps and unmaps code all the time brings nothing new; while it does, the pause is longer.
 */
static int drain_events(struct agent *a)
{
	bool news = take_events(a);

	a->pause_ns = news || !a->pause_ns		  ? EVENTS_PAUSE_NS
		      : a->pause_ns < EVENTS_PAUSE_MAX_NS ? a->pause_ns * 2
							  : a->pause_ns;
	completion_retry(a->completion, track_epoch(a->track));
	return loop_set_timer(a->events_pause, a->pause_ns, 0);
}

static int on_events(int fd, uint32_t events, void *data)
{
	struct agent *a = data;
	int r = loop_set_events(a->events, 0);

	(void)fd;
	(void)events;
	return r < 0 ? r : drain_events(a);
}

static int on_events_pause(uint64_t expirations, void *data)
{
	struct agent *a = data;

	(void)expirations;
	if (sideband_pending(a->sideband))
		return drain_events(a);
	a->pause_ns = 0;
	return loop_set_events(a->events, EPOLLIN); /* reports what came during the pause, too */
}

static int on_worker(int fd, uint32_t events, void *data)
{
	struct agent *a = data;

	(void)fd;
	(void)events;
	worker_collect(a->worker);
	worker_collect(a->opener);
	worker_collect(a->lists);
	track_progress(a->track);
	completion_retry(a->completion, track_epoch(a->track));
	report_progress(a->report);
	send_window(a);
	return 0;
}

/* Returns whether it has changed. All samples of a window have the same one, so the window ends there. */
static bool set_frequency(struct agent *a)
{
	uint32_t hz = a->options.frequency ? a->options.frequency(a->frequency_hz, a->options.frequency_data)
					   : a->frequency_hz;
	int r = hz == a->frequency_hz ? 0 : probe_set_frequency(a->probe, hz);
	const bool changed = r == 0 && hz != a->frequency_hz;

	if (r == 0)
		a->frequency_hz = hz;
	else
		log_warn("sampling at %u Hz is refused, %u Hz go on: %s", hz, a->frequency_hz, strerror(-r));
	return changed;
}

/*
 * A window is over. The first window ends early, with the first samples, so that a user who starts an agent
 * soon sees that it works. Like all of them, it is sent when its names are there.
 */
static int on_window(uint64_t expirations, void *data)
{
	struct agent *a = data;
	struct report_stats s;

	(void)expirations;
	drain(a);
	report_stats(a->report, &s);
	if (!s.first_sample_ns && a->options.window_ns > FIRST_WINDOW_NS)
		return loop_set_timer(a->window, FIRST_WINDOW_NS, a->options.window_ns);
	if (set_frequency(a))
		report_close_window(a->report);
	else if (!report_end_window(a->report))
		return 0;
	report_set_frequency(a->report, a->frequency_hz);
	send_window(a);
	return 0;
}

/*
 * The same for a recording. Nobody waits for its windows, so names may take their time until memory is short.
 */
static int on_recording_window(uint64_t expirations, void *data)
{
	struct agent *a = data;

	(void)expirations;
	drain(a);
	if (!report_closing(a->report)) {
		report_close_window(a->report);
		send_window(a);
	}
	return 0;
}

/* Sets the time at which the window has to end for a pull. */
static int set_pulls_timer(struct agent *a, uint64_t now_ns)
{
	uint64_t at_ns = pulls_next_ns(report_pulls(a->report));

	if (!at_ns)
		return 0;
	if (a->pulls_window_ns && at_ns < a->pulls_window_ns + PULL_PAUSE_NS)
		at_ns = a->pulls_window_ns + PULL_PAUSE_NS;
	return loop_set_timer(a->pulls, at_ns > now_ns ? at_ns - now_ns : PULL_STEP_NS, 0);
}

/* A pull is over: its last samples are in the open window, which ends now, unless another one still waits. */
static int on_pulls(uint64_t expirations, void *data)
{
	struct agent *a = data;
	const uint64_t now_ns = clock_mono_ns(), next_ns = pulls_next_ns(report_pulls(a->report));

	(void)expirations;
	if (next_ns && next_ns <= now_ns) {
		drain(a);
		if (report_end_window(a->report)) {
			a->pulls_window_ns = now_ns;
			send_window(a);
		}
	}
	return set_pulls_timer(a, now_ns);
}

/* No event reports that a process moved to another control group, so we check. */
static int on_reselect(uint64_t expirations, void *data)
{
	struct agent *a = data;

	(void)expirations;
	track_reselect(a->track);
	return 0;
}

static enum select_answer select_process(const struct process *p, void *data)
{
	const struct agent *a = data;

	return a->options.select(p, a->metadata ? metadata_pods(a->metadata) : NULL, a->options.select_data);
}

static void forget_file(uint32_t index, void *data)
{
	struct agent *a = data;

	completion_forget(a->completion, index);
	report_forget_file(a->report, index);
	if (a->runtimes)
		runtimes_forget_file(a->runtimes, index);
}

static int on_sweep(uint64_t expirations, void *data)
{
	struct agent *a = data;

	(void)expirations;
	track_sweep(a->track, clock_mono_ns());
	if (a->runtimes)
		runtimes_check(a->runtimes);
	(void)malloc_trim(0);
	return 0;
}

static void on_workload(const struct cgroup_meta *m, void *data)
{
	struct agent *a = data;

	metadata_seen(a->metadata, &m->identity);
}

/*
 * Without this path, processes in our own pod have a container id but no pod, and the agent itself
 * has neither.
 */
static void find_place(struct agent *a)
{
	struct cgroup_place_errors errors;

	cgroup_place_find(&a->place, &errors);
	if (errors.base < 0)
		log_warn("our cgroup namespace was not found in PID 1's: %s; containers beside us have no "
			 "pod UID",
			 strerror(-errors.base));
	if (errors.tree < 0)
		log_warn("the control groups were not found from their root: %s; a group that is named like "
			 "a container is taken for one, whoever made it",
			 strerror(-errors.tree));
}

/* After each wakeup of the main loop. */
static void on_wakeup(void *data)
{
	(void)data;
	urgency_check(URGENCY_EVENTS);
}

static int on_urgent_start_over(uint64_t expirations, void *data)
{
	(void)expirations;
	(void)data;
	urgency_started();
	return 0;
}

static int open_threads(struct agent *a)
{
	int r = loop_new(&a->loop);

	if (r == 0)
		r = worker_new(&a->worker, WORKER_THREADS, JOBS_MAX, "table-worker");
	if (r == 0)
		worker_reserve(a->worker, 1);
	if (r == 0)
		r = worker_new(&a->opener, REQUEST_THREADS, REQUEST_QUEUE_MAX, "opener");
	if (r == 0)
		r = worker_new(&a->lists, LIST_THREADS, LISTS_MAX, "list-reader");
	return r;
}

/*
 * Threads load the BPF program meanwhile. Where the program is the source of process events, they must
 * finish first.
 */
static int open_events(struct agent *a, char **ret_why)
{
	int r = load_begin(&a->probe, a->options.config, ret_why);

	if (r == 0 && probe_is_tick(a->probe))
		r = load_end(a->probe, ret_why);
	if (r < 0)
		return r;
	r = probe_is_tick(a->probe) ? sideband_new_of_tasks(&a->sideband, a->probe)
				    : sideband_new(&a->sideband);
	if (r < 0)
		*ret_why = why("process events could not be opened: %s", strerror(-r));
	return r;
}

static unsigned wanted_runtimes(const struct config *c)
{
	return (c->runtimes.python ? 1u << RUNTIME_FILE_CPYTHON : 0) |
	       (c->runtimes.python && c->runtimes.python_tasks ? RUNTIME_WANT_TASKS : 0) |
	       (c->runtimes.php ? 1u << RUNTIME_FILE_PHP : 0) |
	       (c->runtimes.ruby ? 1u << RUNTIME_FILE_RUBY : 0) |
	       (c->runtimes.perl ? 1u << RUNTIME_FILE_PERL : 0) |
	       (c->runtimes.lua ? 1u << RUNTIME_FILE_LUA | 1u << RUNTIME_FILE_LUAJIT : 0) |
	       (c->runtimes.java ? 1u << RUNTIME_FILE_HOTSPOT : 0) |
	       (c->runtimes.node ? 1u << RUNTIME_FILE_V8 : 0) |
	       (c->runtimes.beam ? 1u << RUNTIME_FILE_BEAM : 0) |
	       (c->runtimes.dotnet ? 1u << RUNTIME_FILE_DOTNET : 0);
}

/* Creates the flow of processes: from events and /proc to the tables and lists that the BPF program reads. */
static int open_processes(struct agent *a)
{
	const struct config *c = a->options.config;
	struct track_options o = {
		.table_bytes = (size_t)load_segments(c) * SEGMENT_BYTES,
		.max_processes = PROCESSES_MAX,
		.max_files = resources_files_max(),
		.cgroup_from = &a->place.from,
		.debug_files = c->symbols.debug_files,
		.runtimes = wanted_runtimes(c),
		.function = on_function,
		.machine = on_machine,
		.function_data = a,
		.workload = a->metadata ? on_workload : NULL,
		.workload_data = a,
		.select = a->options.select ? select_process : NULL,
		.select_data = a,
		.forget = forget_file,
		.forget_data = a,
	};
	int r = track_host_open(&a->host, a->probe, a->sideband, a->worker, a->opener);

	o.host = a->host;
	return r < 0 ? r : track_new(&a->track, &o);
}

/* Creates the flow of samples: from records to complete stacks, windows and requests. */
static int open_samples(struct agent *a)
{
	const struct config *c = a->options.config;
	const struct completion_options completion = {
		.arena = track_arena(a->track),
		.tables = track_tables(a->track),
		.publisher = track_publisher(a->track),
		.worker = a->worker,
		.user_frames = c->stack.depth,
		.max_bytes = c->memory.total_bytes / 8,
		.generated = on_generated,
		.reading = is_reading,
		.named = is_named,
		.final = on_final,
		.data = a,
	};
	const struct report_options report = {
		.config = c,
		.tables = track_tables(a->track),
		.binaries = unwind_tables_binaries(track_tables(a->track)),
		.worker = a->worker,
		.lists = a->lists,
		.code_names = a->runtimes ? runtimes_names(a->runtimes) : NULL,
		.pods = a->metadata ? metadata_pods(a->metadata) : NULL,
		.window_bytes = c->memory.total_bytes / 8,
		.max_request_bytes = a->options.recording ? c->memory.total_bytes / 8 : 0,
		.one_request = a->options.recording,
		.spill = a->options.spill,
		.source_lines = a->options.source_lines,
		.by_cpu = a->options.by_cpu,
		.emit = a->options.emit,
		.emit_data = a->options.emit_data,
		.stack = a->options.stack,
		.stack_data = a->options.stack_data,
		.max_pulls = a->options.max_pulls,
	};
	int r = completion_new(&a->completion, &completion);

	return r < 0 ? r : report_new(&a->report, &report);
}

static int open_runtimes(struct agent *a)
{
	const struct config *c = a->options.config;
	const struct runtimes_options o = {
		.probe = a->probe,
		.track = a->track,
		.loop_frames = c->runtimes.loop_frames,
		.kinds = wanted_runtimes(c),
		.max_bytes = c->memory.total_bytes / CODE_NAMES_SHARE,
	};

	return wanted_runtimes(c) ? runtimes_new(&a->runtimes, &o) : 0;
}

static int open_modules(struct agent *a, char **ret_why)
{
	int r = open_threads(a);

	if (r == 0)
		r = open_events(a, ret_why);
	if (r == 0 && a->options.config->kubernetes.metadata && a->options.delivery)
		r = metadata_new(&a->metadata, a->loop, a->options.config, a->options.delivery);
	if (r == 0)
		r = open_processes(a);
	if (r == 0)
		r = open_runtimes(a);
	return r < 0 ? r : open_samples(a);
}

static int add_sources(struct agent *a)
{
	const struct follow_options follow = {a->loop, a->sideband, a->probe, a->track, a->report};
	uint64_t window = a->options.window_ns;
	int r = loop_add_fd(a->loop, worker_fd(a->worker), EPOLLIN, on_worker, a, NULL);

	if (r == 0)
		r = loop_add_fd(a->loop, worker_fd(a->opener), EPOLLIN, on_worker, a, NULL);
	if (r == 0)
		r = loop_add_fd(a->loop, worker_fd(a->lists), EPOLLIN, on_worker, a, NULL);
	if (r == 0)
		r = loop_add_timer(a->loop, EVENTS_PAUSE_NS, 0, on_events_pause, a, &a->events_pause);
	if (r == 0)
		r = loop_add_fd(a->loop, sideband_fd(a->sideband), 0, on_events, a, &a->events);
	if (r == 0)
		r = loop_add_fd(a->loop, probe_ring_fd(a->probe), EPOLLIN, on_ring, a, NULL);
	if (r == 0)
		r = pace_start(&a->pace, a->loop, on_drain, wake_early, a);
	if (r == 0)
		r = follow_new(&a->follow, &follow);
	if (r == 0 && window)
		r = loop_add_timer(a->loop, window, window,
				   a->options.recording ? on_recording_window : on_window, a, &a->window);
	if (r == 0 && a->options.max_pulls)
		r = loop_add_timer(a->loop, 0, 0, on_pulls, a, &a->pulls);
	if (r == 0)
		r = loop_add_timer(a->loop, SWEEP_NS, SWEEP_NS, on_sweep, a, NULL);
	if (r == 0 && a->options.select_moves)
		r = loop_add_timer(a->loop, RESELECT_NS, RESELECT_NS, on_reselect, a, NULL);
	return r;
}

static int check_files(char **ret_why)
{
	if (resources_files_limit() >= resources_files_needed())
		return 0;
	*ret_why =
		why("the limit of open files is %u, and at least %u are needed: raise the hard limit (ulimit "
		    "-Hn, LimitNOFILE= of a systemd unit, or the container runtime's)",
		    resources_files_limit(), resources_files_needed());
	return -EMFILE;
}

/* Meanwhile files are opened and tables begun: where CPUs are busy, that takes as long as loading. */
static int finish_loading(struct agent *a, char **ret_why)
{
	while (probe_is_loading(a->probe) && track_working(a->track)) {
		track_begin_runtimes(a->track);
		track_settle(a->track, LOADING_STEP_NS);
	}
	return load_end(a->probe, ret_why);
}

int agent_new(struct agent **ret, const struct agent_options *options, char **ret_why)
{
	struct agent *a = calloc(1, sizeof *a);
	int r;

	*ret_why = NULL;
	if (!a)
		return -ENOMEM;
	a->options = *options;
	a->frequency_hz = options->config->sampling.frequency;
	a->start_ns = clock_mono_ns();
	resources_raise_files();
	resources_bound_heap();
	priority_raise();
	urgency_check(URGENCY_EVENTS);
	find_place(a);
	r = check_files(ret_why);
	if (r == 0)
		r = open_modules(a, ret_why);
	if (r == 0)
		r = track_scan(a->track);
	if (r == 0 && !probe_is_tick(a->probe))
		r = finish_loading(a, ret_why);
	if (r == 0)
		r = add_sources(a);
	if (r < 0) {
		if (!*ret_why)
			*ret_why = why("start failed: %s", strerror(-r));
		agent_free(a);
		return r;
	}
	*ret = a;
	return 0;
}

void agent_free(struct agent *a)
{
	unsigned n_stuck;

	if (!a)
		return;
	follow_free(a->follow);
	if (a->probe)
		probe_detach(a->probe);
	report_stop_reading(a->report);
	parser_cancel(); /* threads that wait for a parser process would be late */
	/* Jobs of these threads point into track and report. */
	n_stuck = worker_free(a->lists) + worker_free(a->worker) + worker_free(a->opener);
	if (n_stuck)
		log_warn("%u threads are left behind: they are late, or file systems that they read from do "
			 "not answer",
			 n_stuck);
	report_free(a->report);
	runtimes_free(a->runtimes);
	completion_free(a->completion);
	track_free(a->track);
	track_host_close(&a->host);
	sideband_free(a->sideband);
	probe_free(a->probe);
	metadata_free(a->metadata);
	loop_free(a->loop);
	cgroup_place_fini(&a->place);
	free(a);
}

struct loop *agent_loop(struct agent *a)
{
	return a->loop;
}

/* Where the start was slow so far, what is left is slow, too: it may take as long again. */
static uint64_t runtimes_timeout(const struct agent *a)
{
	const uint64_t before = clock_mono_ns() - a->start_ns;
	uint64_t left = before < RUNTIMES_BY_NS ? RUNTIMES_BY_NS - before : 0;

	if (left > before)
		left = before;
	return left > RUNTIMES_NS ? left : RUNTIMES_NS;
}

/* The threads that load the program had what the kernel grants urgent threads; now it can have others. */
static void await_runtimes(struct agent *a)
{
	worker_hurry(a->worker);
	track_await_runtimes(a->track, runtimes_timeout(a));
}

int agent_start(struct agent *a, char **ret_why)
{
	int r;

	*ret_why = NULL;
	loop_set_after(a->loop, on_wakeup, NULL);
	r = loop_add_timer(a->loop, URGENT_START_NS, 0, on_urgent_start_over, NULL, NULL);
	if (r < 0)
		return r;
	priority_short_slices(); /* after the workers were created, which must not inherit it */
	if (a->options.settle_ns)
		track_settle(a->track, a->options.settle_ns);
	else
		await_runtimes(a);
	r = probe_attach(a->probe);
	if (r < 0) {
		*ret_why = why("the sampling event could not be opened: %s%s", strerror(-r),
			       r == -EINVAL ? "; sampling.frequency may be above "
					      "kernel.perf_event_max_sample_rate"
					    : "");
		return r;
	}
	a->attached_ns = clock_mono_ns();
	a->sampling = true;
	follow_sampling(a->follow, true);
	if (a->window && a->options.window_ns > FIRST_WINDOW_NS && !a->options.recording)
		return loop_set_timer(a->window, FIRST_WINDOW_NS, a->options.window_ns);
	return 0;
}

int agent_run(struct agent *a)
{
	return loop_run(a->loop);
}

/* Waits for the names of the closed window, and sends it; names that do not come in time are left out. */
static void finish_window(struct agent *a, uint64_t deadline_ns)
{
	uint64_t now;

	while (report_closing(a->report) && (now = clock_mono_ns()) < deadline_ns) {
		worker_drain(a->worker,
			     deadline_ns - now < FLUSH_STEP_NS ? deadline_ns - now : FLUSH_STEP_NS);
		worker_drain(a->lists, deadline_ns - now < FLUSH_STEP_NS ? deadline_ns - now : FLUSH_STEP_NS);
		track_check(a->track); /* binaries on a file system that does not answer get no names */
		track_progress(a->track);
		report_progress(a->report);
		send_window(a);
	}
	(void)take_events(a);
	report_send(a->report);
}

static bool expects_names(const struct agent *a)
{
	return a->runtimes && runtimes_expects(a->runtimes);
}

/* Waits for what the last samples lack, then takes them as they are. */
static void finish_samples(struct agent *a, uint64_t deadline_ns)
{
	while ((completion_expects(a->completion) || expects_names(a)) && clock_mono_ns() < deadline_ns) {
		worker_drain(a->opener, FLUSH_STEP_NS);
		worker_drain(a->worker, FLUSH_STEP_NS);
		track_check(a->track);
		track_progress(a->track);
		completion_retry(a->completion, track_epoch(a->track));
		(void)poll(NULL, 0, 1); /* it may be something that no thread is at work on */
	}
	completion_finish(a->completion);
}

static void flush(struct agent *a, uint64_t timeout_ns)
{
	uint64_t now = clock_mono_ns(), deadline_ns = now + timeout_ns;

	urgency_ending();
	worker_hurry(a->opener);
	worker_hurry(a->worker);
	finish_samples(a, now + (timeout_ns / 2 < FLUSH_SAMPLES_NS ? timeout_ns / 2 : FLUSH_SAMPLES_NS));
	finish_window(a, deadline_ns);
	report_close_window(a->report);
	send_window(a);
	finish_window(a, deadline_ns);
	report_finish(a->report);
}

void agent_stop(struct agent *a)
{
	if (!a->sampling)
		return;
	a->sampling = false;
	follow_sampling(a->follow, false);
	probe_detach(a->probe);
	drain(a);
	flush(a, a->options.flush_ns);
}

void agent_describe_runtimes(const struct agent *a, struct buf *ret)
{
	if (a->runtimes)
		runtimes_describe(a->runtimes, ret);
}

void agent_count_runtimes(const struct agent *a, struct runtimes_processes *ret)
{
	memset(ret, 0, sizeof *ret);
	if (a->runtimes)
		runtimes_count(a->runtimes, ret);
}

bool agent_describe_process(const struct agent *a, uint32_t pid, struct buf *ret)
{
	const struct process *p = track_process(a->track, pid);

	if (p)
		process_describe(p, track_tables(a->track), a->runtimes, ret);
	return p != NULL;
}

int agent_pull(struct agent *a, const struct pull_options *options, uint64_t duration_ns)
{
	struct pull_options o = *options;
	int r;

	if (!a->sampling)
		return -EAGAIN;
	o.from_ns = clock_mono_ns();
	o.until_ns = o.from_ns + duration_ns;
	o.max_bytes = a->options.config->memory.total_bytes / PULL_SHARE;
	r = pulls_begin(report_pulls(a->report), &o);
	return r < 0 ? r : set_pulls_timer(a, o.from_ns);
}

void agent_pull_cancel(struct agent *a, uint64_t number)
{
	pulls_cancel(report_pulls(a->report), number);
}

size_t agent_cut_stacks(const struct agent *a, struct cut_stack *ret, size_t max)
{
	return report_cut_stacks(a->report, ret, max);
}

void agent_stats(struct agent *a, struct agent_stats *ret)
{
	*ret = (struct agent_stats){.start_ns = a->start_ns, .attached_ns = a->attached_ns};
	/* the maps are ours, so only lack of memory can fail; *ret has zeros then */
	(void)probe_sums(a->probe, &ret->probe);
	completion_stats(a->completion, &ret->completion);
	report_stats(a->report, &ret->report);
	if (a->runtimes)
		runtimes_stats(a->runtimes, &ret->runtimes);
	track_stats(a->track, &ret->track);
	metadata_stats(a->metadata, &ret->metadata);
	ret->received = a->received;
	ret->received_not_selected = a->not_selected;
	ret->not_selected = ret->probe.counters[COUNTER_NOT_SELECTED] + ret->received_not_selected;
	ret->taken = ret->probe.counters[COUNTER_TAKEN] - ret->not_selected;
	a->taken_ever = ret->taken > a->taken_ever ? ret->taken : a->taken_ever;
	ret->taken_ever = a->taken_ever;
	for (int i = 0; i < PROBE_COUNTERS_N; i++)
		ret->dropped += i == COUNTER_TAKEN || i == COUNTER_NOT_SELECTED ? 0 : ret->probe.counters[i];
	ret->in_flight = ret->taken - ret->dropped - (ret->received - ret->received_not_selected) +
			 ret->completion.waiting + ret->report.waiting;
	for (int i = 0; i < SAMPLE_DROPS_N; i++) {
		ret->refused[i] = a->refused[i];
		ret->dropped += a->refused[i];
	}
	for (int i = 0; i < REPORT_DROPS_N; i++)
		ret->dropped += ret->report.dropped[i];
	ret->map_bytes = probe_map_bytes(a->probe);
	(void)probe_run_time(a->probe, &ret->bpf_run_ns, &ret->bpf_runs);
	ret->samples_cpu_ns = a->drain_cpu_ns + ret->report.windows_cpu_ns;
	ret->frequency_hz = a->frequency_hz;
	ret->event = probe_event_name(a->probe);
}
