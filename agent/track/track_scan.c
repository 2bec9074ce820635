// SPDX-License-Identifier: Apache-2.0
/* Processes as /proc shows them: at the start, when a sample names one that is not known, and after lost
 * events. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/probe/sideband.h"
#include "agent/proc/history.h"
#include "agent/proc/maps.h"
#include "agent/proc/scan.h"
#include "agent/proc/stat.h"
#include "agent/track/track_private.h"

#define RESCAN_EVERY_NS (3 * NS_PER_SEC)
#define RESCAN_MAX_NS (48 * NS_PER_SEC)
#define RESCAN_SHARE 200u /* no more than 1/200 of the time goes into it */
#define MISS_WAIT_NS (20 * NS_PER_MS)
#define MISS_WAIT_MAX_NS (5 * NS_PER_SEC)
#define REREAD_NS (10 * NS_PER_SEC)    /* a mapping may have been replaced by another without a miss */
#define START_TICK_NS (10 * NS_PER_MS) /* /proc rounds a start time down to that */

/* Of one file there may be thousands of lines, one behind the other: `before`, which has file `m->file`. */
static bool same_file(const struct proc_maps_line *line, const struct proc_maps_line *before)
{
	return before && line->inode && line->inode == before->inode &&
	       line->dev_major == before->dev_major && line->dev_minor == before->dev_minor &&
	       line->deleted == before->deleted;
}

/* A mapping of that place, length and offset was known: its file is not opened again. */
static bool known_line(const struct proc_maps *maps, const struct proc_mapping *m, uint32_t *ret_file)
{
	const struct proc_mapping *known = maps ? proc_maps_find(maps, m->start) : NULL;

	if (!known || known->start != m->start || known->end != m->end || known->offset != m->offset)
		return false;
	*ret_file = known->file;
	return true;
}

struct adding {
	struct track *track;
	struct process *process;
	const struct proc_maps *known; /* NULL: none */
	const struct track_lines *lines;
	uint32_t file;	    /* of the line before */
	bool maybe_of_file; /* some code without a table may be a copy of a file's */
};

static int add_line(struct adding *a, size_t i)
{
	const struct proc_maps_line *line = track_line(a->lines, i),
				    *before = i ? track_line(a->lines, i - 1) : NULL;
	struct proc_mapping m = {.start = line->start, .end = line->end, .offset = line->offset};
	struct track *t = a->track;
	uint32_t pid = a->process->pid;

	if (!known_line(a->known, &m, &a->file) && !same_file(line, before) &&
	    !track_seen_find(t, pid, line, &a->file)) {
		a->file = line->path ? track_file_of_line(t, pid, line, line->path) : PROC_FILE_NONE;
		track_seen_add(t, pid, line, a->file);
	}
	m.file = a->file;
	a->maybe_of_file |=
		(line->inode || a->lines->beside_file) && track_remap_possible(t, m.file, line->path);
	return proc_maps_insert(a->process->maps, m);
}

/* The mappings of the lines, with files as in `known` (NULL: none is) where they are the same, as p->maps.
 * The former ones are the caller's; -ENOMEM: nothing has changed. */
static int lines_to_maps(struct track *t, struct process *p, const struct proc_maps *known,
			 const struct track_lines *l, bool *ret_maybe_of_file)
{
	struct adding a = {t, p, known, l, PROC_FILE_NONE, false};
	struct proc_maps *read;
	int r = proc_maps_new(&read);

	if (r < 0)
		return r;
	p->maps = read;
	for (size_t i = 0; i < l->n && r != -ENOMEM; i++)
		r = add_line(&a, i); /* at the maximum: counted there */
	*ret_maybe_of_file = a.maybe_of_file;
	return 0;
}

/* What events have told meanwhile is newer than the lines. */
static int add_lines(struct track *t, struct process *p, const struct track_lines *l)
{
	struct proc_maps *before = p->maps;
	bool maybe_of_file = false;
	int r = lines_to_maps(t, p, NULL, l, &maybe_of_file);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < before->n && r != -ENOMEM; i++)
		r = proc_maps_insert(p->maps, before->entries[i]);
	proc_maps_unref(before);
	if (maybe_of_file)
		(void)track_remap_read(t, p);
	track_mark_dirty(t, p->pid);
	return 0;
}

static uint64_t start_of(const struct proc_stat *stat)
{
	return proc_start_mono_ns(stat->start_time_ticks, proc_boot_offset_ns());
}

void track_read_image(struct track *t, struct process *p)
{
	if (!p->image->program->exe)
		(void)proc_exe_read(t->proc_fd, p->pid, &p->image->program->exe);
	track_select(t, p, p->image->selected);
	(void)track_lines_read(t, p, false, add_lines);
}

/* --- without events about mappings */

static bool same_mappings(const struct proc_maps *a, const struct proc_maps *b)
{
	return a->n == b->n && (!a->n || memcmp(a->entries, b->entries, a->n * sizeof *a->entries) == 0);
}

static int replace_lines(struct track *t, struct process *p, const struct track_lines *l)
{
	struct proc_maps *before = p->maps, *read;
	bool maybe_of_file = false;
	int r = l->n ? lines_to_maps(t, p, before, l, &maybe_of_file) : -ESRCH;

	if (r < 0)
		return r;
	read = p->maps;
	p->maps = before;
	if (same_mappings(before, read)) {
		proc_maps_unref(read);
		return 0;
	}
	p->miss_wait_ns = 0;
	track_remember(t, p, clock_mono_ns());
	p->maps = read;
	proc_maps_unref(before);
	if (maybe_of_file)
		(void)track_remap_read(t, p);
	track_mark_dirty(t, p->pid);
	return 0;
}

/* Reads the mappings of a process again: soon where a sample lies in none, now and then in any case. */
void track_miss(struct track *t, struct process *p, const struct sample_view *v)
{
	bool missed = v->ending == ENDING_NO_MAPPING || v->ending == ENDING_NO_PROCESS;
	uint64_t now;

	if (sideband_has_mappings(t->options.sideband) || p->end_ns || p->kernel_thread)
		return;
	now = clock_mono_ns();
	if (now < (missed ? p->miss_after_ns : p->reread_after_ns))
		return;
	/* what lies in no mapping again and again is no news */
	p->miss_wait_ns = !p->miss_wait_ns		       ? MISS_WAIT_NS
			  : p->miss_wait_ns < MISS_WAIT_MAX_NS ? p->miss_wait_ns * 2
							       : MISS_WAIT_MAX_NS;
	p->miss_after_ns = now + p->miss_wait_ns;
	p->reread_after_ns = now + REREAD_NS;
	t->stats.rereads++;
	if (track_lines_read(t, p, false, replace_lines) == 0)
		track_publish(t);
}

/* No earlier than what is known of its pid's former holder. */
static void started(struct process *p, const struct proc_stat *stat)
{
	uint64_t start_ns = start_of(stat);

	if (!p->scanned && start_ns > p->start_ns)
		p->start_ns = p->image->start_ns = p->image->since_ns = start_ns;
}

/* False: it is gone, or has no mappings. */
static bool begin_process(struct track *t, struct process *p)
{
	struct proc_stat stat;

	if (!p->scanned) /* its pid may have stood for the list of another process */
		proc_history_begin(p, publisher_generation(t->publisher), 0);
	track_select(t, p, false);
	if (proc_stat_read(t->proc_fd, p->pid, &stat) < 0)
		return false;
	p->kernel_thread = stat.kernel_thread;
	started(p, &stat);
	memcpy(p->image->comm, stat.comm, PROC_TASK_COMM_LEN - 1);
	p->n_threads = stat.num_threads ? stat.num_threads - 1 : 0;
	p->scanned = true;
	p->parent_pid = stat.ppid;
	if (!p->kernel_thread && !p->image->program->exe) /* NULL: named by comm */
		(void)proc_exe_read(t->proc_fd, p->pid, &p->image->program->exe);
	return !p->kernel_thread;
}

/* Its mappings are known, or asked for. */
static void end_process(struct track *t, struct process *p)
{
	struct process *parent;

	if (!p->scanned)
		return;
	if (!p->kernel_thread)
		track_read_workload(t, p);
	parent = proc_table_get(t->table, p->parent_pid);
	track_select(t, p, parent && parent->image->selected);
	track_mark_dirty(t, p->pid);
}

void track_read_process(struct track *t, struct process *p)
{
	if (begin_process(t, p))
		(void)track_lines_read(t, p, false, add_lines);
	end_process(t, p);
}

/* --- all of them: the mappings of the next ones are read while those of one are looked at */

#define AHEAD 32u

struct scan {
	struct track *track;
	struct {
		struct process *process;
		struct lines_ask *lines; /* NULL: none */
	} ahead[AHEAD];
	unsigned first, n;
};

static void take_first(struct scan *s)
{
	struct process *p = s->ahead[s->first].process;
	struct lines_ask *lines = s->ahead[s->first].lines;

	s->first = (s->first + 1) % AHEAD;
	s->n--;
	if (lines)
		(void)track_lines_take(s->track, lines);
	end_process(s->track, p);
	process_unref(p);
}

static int scan_process(uint32_t pid, void *data)
{
	struct scan *s = data;
	struct track *t = s->track;
	struct lines_ask *lines;
	struct process *p;

	if (proc_table_get(t->table, pid) || proc_table_add(t->table, pid, 0, &p) < 0)
		return 0; /* at the maximum: counted by the table */
	p->scan_serial = t->scan_serial;
	lines = begin_process(t, p) ? track_lines_ahead(t, p, add_lines) : NULL;
	if (s->n == AHEAD)
		take_first(s);
	s->ahead[(s->first + s->n) % AHEAD].process = process_ref(p);
	s->ahead[(s->first + s->n++) % AHEAD].lines = lines;
	return 0;
}

static int scan(struct track *t, proc_scan_fn each)
{
	struct scan s = {.track = t};
	int r;

	track_seen_begin(t);
	r = proc_scan(t->proc_fd, each, &s);
	while (s.n)
		take_first(&s);
	track_seen_end(t);
	return r;
}

int track_scan(struct track *t)
{
	int r = scan(t, scan_process);

	track_publish(t);
	unwind_tables_pump(t->tables);
	return r;
}

/* Reads a process again of which events were lost. */
static int rescan_process(uint32_t pid, void *data)
{
	struct scan *s = data;
	struct track *t = s->track;
	struct process *p = proc_table_get(t->table, pid);
	struct proc_stat stat;
	struct proc_image *image;
	struct proc_maps *empty;

	if (p && proc_stat_read(t->proc_fd, pid, &stat) == 0 &&
	    start_of(&stat) > p->start_ns + START_TICK_NS) {
		track_process_over(t, p, start_of(&stat));
		p = NULL;
	}
	if (!p)
		return scan_process(pid, s);
	p->scan_serial = t->scan_serial;
	if (p->kernel_thread || proc_image_exec(p, clock_mono_ns(), &image) < 0 || proc_maps_new(&empty) < 0)
		return 0;
	proc_maps_unref(p->maps);
	p->maps = empty;
	track_read_process(t, p);
	return 0;
}

static void end_unseen(struct process *p, void *data)
{
	struct track *t = data;

	if (p->scan_serial == t->scan_serial || p->start_ns > t->rescanned_ns)
		return;
	track_process_over(t, p, clock_mono_ns());
}

/* One process may have a hundred thousand mappings. */
static uint64_t least_wait(const struct track *t)
{
	return t->rescan_cost_ns < RESCAN_MAX_NS / RESCAN_SHARE ? t->rescan_cost_ns * RESCAN_SHARE
								: RESCAN_MAX_NS;
}

/* Where the kernel lost events, /proc is asked again, for everybody: nothing says whom they were about. */
void track_rescan(struct track *t)
{
	uint64_t now = clock_mono_ns(), since = now - t->rescanned_ns;
	uint64_t wait = t->rescan_wait_ns ?: RESCAN_EVERY_NS;

	if (!t->rescan_wanted || since < wait || since < least_wait(t))
		return;
	/* lost again so soon: who makes more events than can be read would have /proc read all the time */
	t->rescan_wait_ns = since >= 2 * wait ? RESCAN_EVERY_NS : wait < RESCAN_MAX_NS ? wait * 2 : wait;
	t->rescan_wanted = false;
	t->rescanned_ns = now;
	t->scan_serial++;
	t->stats.rescans++;
	t->rescanning = true;
	t->rescan_cost_ns = 0;
	if (scan(t, rescan_process) == 0)
		proc_table_each(t->table, end_unseen, t);
	t->rescanning = false;
	t->rescan_cost_ns += clock_mono_ns() - now;
}

void track_events_missed(struct track *t)
{
	t->rescan_wanted = true;
}
