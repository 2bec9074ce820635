// SPDX-License-Identifier: Apache-2.0
/*
 * Creates the modules and connects them. They call each other in one direction only:
 *
 *	process_events, rescans → process_reader → remaps → openings → publication
 *
 * with process_names and requests below all of them. The events of one drain are applied first; then each
 * process that they have changed is published, once.
 */
#include "agent/track/track.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/elf/code/memory_rows.h"
#include "agent/proc/history.h"
#include "agent/proc/table.h"
#include "agent/track/publication.h"
#include "agent/track/rescans.h"

#define UNUSED_OPEN_NS (30 * NS_PER_SEC) /* descriptors of binaries that nothing refers to */
#define ENDED_KEEP_NS (2 * NS_PER_SEC)
#define SETTLE_STEP_NS (20 * NS_PER_MS)
#define QUARANTINE_LOG_NS (60 * NS_PER_SEC) /* between two lines about files that could not be read */
#define TABLE_BLOCKED_NS (10 * NS_PER_SEC)  /* as long as a sample waits for its table */

struct track {
	struct track_options options;
	struct gaps gaps;
	struct proc_files files; /* mappings hold their binaries */
	struct proc_table *processes;
	struct arena *arena;
	struct binary_registry *binaries;
	struct unwind_tables *tables;
	struct publisher *publisher;
	struct requests *requests;
	struct process_names *names;
	struct publication *publication;
	struct generated_code *generated;
	struct openings *openings;
	struct remaps *remaps;
	struct process_reader *reader;
	struct rescans *rescans;
	struct process_events *events;
	uint64_t drained_ns;			    /* samples before this time have been seen */
	uint64_t overdue_reported, costly_reported; /* builds of which the log says that they take too long */
	bool files_reported;			    /* that binaries were refused */
	uint64_t quarantined_reported, quarantined_ns; /* the same of files that are not read again; when */
};

static void tables_changed(void *data)
{
	struct track *t = data;

	publication_mark_all(t->publication);
}

static void file_hold(uint32_t file, void *data)
{
	const struct track *t = data;

	(void)binary_registry_hold(t->binaries, file);
}

static void file_release(uint32_t file, void *data)
{
	const struct track *t = data;

	binary_registry_release(t->binaries, file);
}

/* Nothing refers to the binary any more, and its index is needed. */
static void on_forget(uint32_t index, void *data)
{
	struct track *t = data;

	unwind_tables_forget(t->tables, index);
	if (t->options.forget)
		t->options.forget(index, t->options.forget_data);
}

/* What other rooms implement, and this one owns. */
static int stores_new(struct track *t)
{
	const struct track_options *o = &t->options;
	int r = binary_registry_new(&t->binaries, o->max_files, o->host.clock.mono_ns);

	if (r < 0)
		return r;
	binary_registry_on_forget(t->binaries, on_forget, t);
	t->files = (struct proc_files){file_hold, file_release, t};
	r = proc_table_new(&t->processes, o->max_processes, &t->files);
	if (r == 0)
		r = arena_new(&t->arena, o->table_bytes, o->host.segment, o->host.segment_data);
	if (r == 0)
		r = unwind_tables_new(&t->tables, t->binaries, t->arena, o->host.tables, tables_changed, t);
	if (r == 0)
		r = publisher_new(&t->publisher, t->arena, t->tables);
	if (r == 0 && o->runtimes)
		publisher_want_runtimes(t->publisher, o->runtimes);
	if (r == 0)
		r = requests_new(&t->requests, &o->host);
	return r;
}

static int names_new(struct track *t)
{
	const struct process_names_options names = {
		.host = &t->options.host,
		.requests = t->requests,
		.gaps = &t->gaps,
		.cgroup_from = t->options.cgroup_from,
		.workload = t->options.workload,
		.workload_data = t->options.workload_data,
	};

	return process_names_new(&t->names, &names);
}

/* Where code can be analysed, that of no file is. */
static int generated_new_of(struct track *t)
{
	const struct generated_code_options o = {
		.binaries = t->binaries,
		.tables = t->tables,
		.publication = t->publication,
		.mono_ns = t->options.host.clock.mono_ns,
		.function = t->options.function,
		.machine = t->options.machine,
		.data = t->options.function_data,
	};

	if (memory_rows_machine())
		unwind_tables_follow_generated(t->tables);
	return generated_code_new(&t->generated, &o);
}

/* From a mapping to what the BPF program reads. */
static int mappings_new(struct track *t)
{
	const struct publication_options publication = {
		.host = &t->options.host,
		.processes = t->processes,
		.arena = t->arena,
		.tables = t->tables,
		.publisher = t->publisher,
		.gaps = &t->gaps,
		.select = t->options.select,
		.select_data = t->options.select_data,
	};
	struct openings_options openings = {
		.requests = t->requests,
		.processes = t->processes,
		.binaries = t->binaries,
		.tables = t->tables,
		.gaps = &t->gaps,
		.debug_files = t->options.debug_files,
	};
	struct remaps_options remaps = {
		.host = &t->options.host,
		.requests = t->requests,
		.processes = t->processes,
		.binaries = t->binaries,
		.gaps = &t->gaps,
	};
	int r = publication_new(&t->publication, &publication);

	openings.publication = remaps.publication = t->publication;
	if (r == 0)
		r = openings_new(&t->openings, &openings);
	remaps.openings = t->openings;
	if (r == 0)
		r = generated_new_of(t);
	return r < 0 ? r : remaps_new(&t->remaps, &remaps);
}

/* From the host to the process table. */
static int sources_new(struct track *t)
{
	const struct process_reader_options reader = {
		.host = &t->options.host,
		.requests = t->requests,
		.processes = t->processes,
		.openings = t->openings,
		.remaps = t->remaps,
		.names = t->names,
		.publication = t->publication,
		.gaps = &t->gaps,
	};
	struct rescans_options rescans = {
		.host = &t->options.host,
		.requests = t->requests,
		.processes = t->processes,
		.publication = t->publication,
		.gaps = &t->gaps,
	};
	struct process_events_options events = {
		.host = &t->options.host,
		.processes = t->processes,
		.names = t->names,
		.openings = t->openings,
		.remaps = t->remaps,
		.publication = t->publication,
		.gaps = &t->gaps,
	};
	int r = process_reader_new(&t->reader, &reader);

	rescans.reader = events.reader = t->reader;
	if (r == 0)
		r = rescans_new(&t->rescans, &rescans);
	return r < 0 ? r : process_events_new(&t->events, &events);
}

int track_new(struct track **ret, const struct track_options *options)
{
	struct track *t = calloc(1, sizeof *t);
	int r;

	if (!t)
		return -ENOMEM;
	t->options = *options;
	r = stores_new(t);
	if (r == 0)
		r = names_new(t);
	if (r == 0)
		r = mappings_new(t);
	if (r == 0)
		r = sources_new(t);
	if (r < 0) {
		track_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void track_free(struct track *t)
{
	if (!t)
		return;
	requests_free(t->requests); /* those that are parked refer to what the others own */
	process_events_free(t->events);
	rescans_free(t->rescans);
	process_reader_free(t->reader);
	remaps_free(t->remaps);
	openings_free(t->openings);
	generated_code_free(t->generated);
	proc_table_free(t->processes);
	publication_free(t->publication);
	process_names_free(t->names);
	publisher_free(t->publisher);
	unwind_tables_free(t->tables);
	binary_registry_free(t->binaries);
	arena_free(t->arena);
	free(t);
}

/* --- the main loop's turns */

void track_progress(struct track *t)
{
	generated_code_run(t->generated);
	publication_run(t->publication);
	unwind_tables_pump(t->tables);
}

int track_scan(struct track *t)
{
	int r = rescans_first(t->rescans);

	track_progress(t);
	return r;
}

bool track_drain(struct track *t)
{
	int news = process_events_drain(t->events);

	if (news < 0)
		log_warn("process events could not be read: %s; trying again", strerror(-news));
	rescans_run(t->rescans);
	remaps_retry(t->remaps);
	track_progress(t);
	return news > 0;
}

void track_events_missed(struct track *t)
{
	gap_note(&t->gaps, GAP_CPU_CAME);
}

static const char *path_of(const struct track *t, uint32_t index)
{
	const struct binary *b = binary_registry_get(t->binaries, index);

	return b ? b->module.path : "a file";
}

/* Builds that samples do not wait for any longer. */
static void warn_of_builds(struct track *t, const struct unwind_tables_stats *s)
{
	if (s->overdue != t->overdue_reported)
		log_warn(
			"%s: reading it for its unwind table has been blocked for 10 s: its file system does "
			"not answer; its table is built when it does",
			path_of(t, s->overdue_file));
	if (s->costly != t->costly_reported)
		log_warn(
			"%s: its unwind table has taken %u s of CPU time and is not finished; samples do not "
			"wait for it any longer",
			path_of(t, s->costly_file), (unsigned)(WORKER_CPU_MAX_NS / NS_PER_SEC));
	t->overdue_reported = s->overdue;
	t->costly_reported = s->costly;
}

/* A tenant may have any number of them. */
static void warn_of_quarantine(struct track *t)
{
	static const char *const reasons[QUARANTINE_REASONS] = {
		[QUARANTINE_CRASHED] = "crashed, or its answer could not be used",
		[QUARANTINE_OUT_OF_TIME] = "took too much CPU time",
	};
	const uint64_t now = t->options.host.clock.mono_ns();
	struct binary_stats s;
	uint64_t n = 0;

	binary_registry_stats(t->binaries, &s);
	for (unsigned i = 0; i < QUARANTINE_REASONS; i++)
		n += s.quarantined[i];
	n -= t->quarantined_reported;
	if (!n || (t->quarantined_ns && now - t->quarantined_ns < QUARANTINE_LOG_NS))
		return;
	log_warn("%s: the process that read it for %s %s: it is not read for that again (%lu such files "
		 "since the last such line)",
		 path_of(t, s.quarantined_file), binary_use_text(s.quarantined_use),
		 reasons[s.quarantined_reason], (unsigned long)n);
	t->quarantined_reported += n;
	t->quarantined_ns = now;
}

/* Once: it may go on for as long as the process lives. */
static void warn_of_files(struct track *t)
{
	struct openings_stats openings;
	struct binary_stats s;

	binary_registry_stats(t->binaries, &s);
	if (t->files_reported || (!s.full && !s.full_share))
		return;
	openings_stats(t->openings, &openings);
	log_warn("process %u%s many binaries mapped: of %u that can be known at a time, %lu are; more of "
		 "them are "
		 "refused, and stacks in these are incomplete; counted from now on",
		 openings.refused_pid, s.full_share ? " and its workload have too" : " and others have too",
		 binary_registry_max(t->binaries), (unsigned long)(s.known - s.unused));
	t->files_reported = true;
}

bool track_working(const struct track *t)
{
	return unwind_tables_pending(t->tables) || requests_pending(t->requests);
}

void track_check(struct track *t)
{
	const struct job_pool *workers = &t->options.host.workers;
	struct unwind_tables_stats s;

	requests_check(t->requests);
	workers->check(workers->data, TABLE_BLOCKED_NS);
	unwind_tables_stats(t->tables, &s);
	warn_of_builds(t, &s);
	warn_of_quarantine(t);
	warn_of_files(t);
}

/* Until nothing more is expected, or the time is over. */
static void settle(struct track *t, uint64_t timeout_ns, bool (*expects)(const struct track *t))
{
	const struct host_clock *clock = &t->options.host.clock;
	const struct job_pool *workers = &t->options.host.workers;
	uint64_t deadline = clock->mono_ns() + timeout_ns, now;

	while (expects(t) && (now = clock->mono_ns()) < deadline) {
		uint64_t step = deadline - now < SETTLE_STEP_NS ? deadline - now : SETTLE_STEP_NS;

		if (requests_pending(t->requests))
			requests_drain(t->requests, step);
		else
			workers->drain(workers->data, step);
		track_check(t);
		track_progress(t);
	}
}

void track_begin_runtimes(struct track *t)
{
	if (!t->options.runtimes)
		return;
	unwind_tables_prefer_runtimes(t->tables);
	unwind_tables_pump(t->tables);
}

/* A file that is still being opened may be a runtime's. */
static bool expects_runtimes(const struct track *t)
{
	return t->options.runtimes &&
	       (unwind_tables_expects_runtimes(t->tables) || requests_pending(t->requests));
}

void track_await_runtimes(struct track *t, uint64_t timeout_ns)
{
	const struct host_clock *clock = &t->options.host.clock;
	const uint64_t deadline = clock->mono_ns() + timeout_ns;

	while (expects_runtimes(t) && clock->mono_ns() < deadline) {
		track_begin_runtimes(t); /* of files that have been opened since, too */
		settle(t, SETTLE_STEP_NS, expects_runtimes);
	}
	publication_run(t->publication); /* what was found last */
}

void track_settle(struct track *t, uint64_t timeout_ns)
{
	settle(t, timeout_ns, track_working);
}

bool track_attribute(struct track *t, const struct sample_view *v, struct sampled_task *ret)
{
	ret->process = process_reader_find(t->reader, v->pid, v->time_ns);
	if (!ret->process)
		return false;
	if (process_reader_sampled(t->reader, ret->process, v))
		publication_run(t->publication);
	process_names_of_sample(t->names, v, ret);
	return true;
}

static void reselect(struct process *p, void *data)
{
	struct track *t = data;
	bool before = p->image->selected;

	if (p->end_ns || p->kernel_thread)
		return;
	(void)process_names_reread_workload(t->names, p);
	publication_select(t->publication, p, before);
	if (p->image->selected != before)
		publication_mark(t->publication, p->pid);
}

void track_reselect(struct track *t)
{
	proc_table_each(t->processes, reselect, t);
	publication_run(t->publication);
}

/* --- forgetting */

void track_drained(struct track *t, uint64_t time_ns)
{
	t->drained_ns = time_ns > ENDED_KEEP_NS ? time_ns - ENDED_KEEP_NS : 0;
	process_names_drained(t->names, t->drained_ns);
	proc_table_reap(t->processes, t->drained_ns);
}

struct sweep {
	struct track *track;
	uint64_t now_ns;
};

static void sweep_process(struct process *p, void *data)
{
	struct sweep *s = data;
	struct track *t = s->track;

	publication_tend(t->publication, p, s->now_ns);
	process_names_forget(t->names, p);
	if (process_names_ended(t->names, p))
		publication_end(t->publication, p, s->now_ns);
}

static bool has_final_table(uint32_t index, void *data)
{
	const struct track *t = data;
	const struct binary_table *table = unwind_tables_get(t->tables, index);

	return table && (table->state == TABLE_READY || table->state == TABLE_NONE);
}

void track_sweep(struct track *t, uint64_t now_ns)
{
	struct sweep sweep = {t, now_ns};

	proc_table_each(t->processes, sweep_process, &sweep);
	process_names_forget_threads(t->names);
	generated_code_sweep(t->generated);
	process_events_sweep(t->events, now_ns);
	if (now_ns > UNUSED_OPEN_NS)
		binary_registry_close_unused(t->binaries, now_ns - UNUSED_OPEN_NS, has_final_table, t);
	publication_forget(t->publication);
	publication_grace(t->publication);
}

/* --- for the samples */

void track_generated(struct track *t, struct process *p, uint64_t address, enum generated_wish wish)
{
	generated_code_hit(t->generated, p, address, wish);
}

uint32_t track_generated_binary(struct track *t, uint32_t pid)
{
	struct process *p = proc_table_get(t->processes, pid);

	if (!p || !p->maps || p->end_ns)
		return 0;
	if (!p->maps->code)
		generated_code_begin(t->generated, p);
	return p->maps->code;
}

bool track_reading(const struct track *t, const struct process *p)
{
	return requests_about(t->requests, p->pid) || generated_code_waits(t->generated, p);
}

bool track_code_changes(const struct track *t)
{
	return generated_code_changes(t->generated);
}

uint64_t track_epoch(const struct track *t)
{
	return publication_epoch(t->publication);
}

const struct publisher *track_publisher(const struct track *t)
{
	return t->publisher;
}

const struct process *track_process(const struct track *t, uint32_t pid)
{
	return proc_table_get(t->processes, pid);
}

void track_each(const struct track *t, void (*fn)(struct process *p, void *data), void *data)
{
	proc_table_each(t->processes, fn, data);
}

uint64_t track_tenant(const struct track *t, uint32_t pid)
{
	const struct process *p = proc_table_get(t->processes, pid);

	return p ? p->image->context.tenant : 0;
}

/*
 * Of a layout that is not right, each object is another one than was thought. A single one can be read while
 * the process changes it: greenlets, for instance, copy the stack on which such pointers lie.
 */
#define BAD_OBJECTS_MIN 4u

bool track_judge_runtime(struct track *t, uint32_t pid, bool good)
{
	struct process *p = proc_table_get(t->processes, pid);
	struct proc_program *program;

	if (!p)
		return true;
	program = p->image->program;
	*(good ? &program->runtime_good : &program->runtime_bad) += 1;
	if (program->runtime_bad < BAD_OBJECTS_MIN || program->runtime_bad < program->runtime_good)
		return true;
	program->runtime_refused = true;
	publisher_stop_walk(t->publisher, pid);
	return false;
}

void track_thread_slot(struct track *t, uint32_t pid, uint32_t generation, int32_t thread_slot)
{
	publisher_set_thread_slot(t->publisher, pid, generation, thread_slot);
}

struct unwind_tables *track_tables(const struct track *t)
{
	return t->tables;
}

struct arena *track_arena(const struct track *t)
{
	return t->arena;
}

void track_stats(const struct track *t, struct track_stats *ret)
{
	const struct event_source *events = &t->options.host.events;

	*ret = (struct track_stats){
		.processes = proc_table_len(t->processes),
		.processes_full = proc_table_full(t->processes),
		.rescans = rescans_count(t->rescans),
	};
	memcpy(ret->gaps, t->gaps.n, sizeof ret->gaps);
	arena_stats(t->arena, &ret->arena);
	binary_registry_stats(t->binaries, &ret->binaries);
	unwind_tables_stats(t->tables, &ret->tables);
	publisher_stats(t->publisher, &ret->publish);
	process_names_stats(t->names, &ret->names);
	process_events_stats(t->events, &ret->events);
	process_reader_stats(t->reader, &ret->reader);
	openings_stats(t->openings, &ret->openings);
	remaps_stats(t->remaps, &ret->remaps);
	requests_stats(t->requests, &ret->requests);
	generated_code_stats(t->generated, &ret->generated);
	events->lost(events->data, ret->events_lost);
}

uint64_t track_events_lost(const struct track_stats *s)
{
	uint64_t n = 0;

	for (int i = 0; i < SIDEBAND_LOSSES_N; i++)
		n += s->events_lost[i];
	return n;
}
