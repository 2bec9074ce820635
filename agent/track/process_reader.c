// SPDX-License-Identifier: Apache-2.0
#include "agent/track/process_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/proc/image.h"
#include "agent/proc/table.h"
#include "agent/track/map_lines.h"
#include "agent/track/openings.h"
#include "agent/track/process_names.h"
#include "agent/track/publication.h"
#include "agent/track/remaps.h"
#include "agent/track/seen_files.h"

#define MISS_WAIT_NS \
	(20 * NS_PER_MS) /* after a sample outside of all mappings; doubled while nothing changes */
#define MISS_WAIT_MAX_NS (5 * NS_PER_SEC)
#define REREAD_NS (10 * NS_PER_SEC) /* a mapping may have replaced another without any sample outside */

struct process_reader {
	struct process_reader_options options;
	struct host_clock clock;
	struct proc_view proc;
	struct seen_files seen;
	struct process_reader_stats stats;
};

int process_reader_new(struct process_reader **ret, const struct process_reader_options *options)
{
	struct process_reader *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->options = *options;
	r->clock = options->host->clock;
	r->proc = options->host->proc;
	*ret = r;
	return 0;
}

void process_reader_free(struct process_reader *r)
{
	free(r);
}

static void no_memory(struct process_reader *r)
{
	gap_note(r->options.gaps, GAP_NO_MEMORY);
}

/* --- lines of maps → mappings */

static bool same_file(const struct proc_maps_line *a, const struct proc_maps_line *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
	       a->deleted == b->deleted;
}

/* A mapping of the same place, length and offset is known: its file is not opened again. */
static bool known_line(const struct proc_maps *maps, const struct proc_mapping *m, uint32_t *ret_file)
{
	const struct proc_mapping *known = maps ? proc_maps_find(maps, m->start) : NULL;

	if (!known || known->start != m->start || known->end != m->end || known->offset != m->offset)
		return false;
	*ret_file = known->file;
	return true;
}

#define RECENT_FILES 8u

/* A file of earlier lines, or its ticket. There may be thousands of lines of a file, with others between. */
struct recent_file {
	const struct proc_maps_line *line; /* NULL: none */
	uint32_t file;
};

struct adding {
	struct process_reader *reader;
	struct process *process;
	const struct proc_maps *known; /* NULL: none */
	const struct map_lines *lines;
	struct recent_file recent[RECENT_FILES];
	unsigned n_recent; /* in all; the newest is in the slot before n_recent % RECENT_FILES */
	bool maybe_copies; /* some code without a table may be a copy of a file's */
};

static bool recent_find(const struct adding *a, const struct proc_maps_line *line, uint32_t *ret_file)
{
	for (unsigned i = 0; line->inode && i < RECENT_FILES && a->recent[i].line; i++)
		if (same_file(line, a->recent[i].line)) {
			*ret_file = a->recent[i].file;
			return true;
		}
	return false;
}

/* The file of a line: one that is known, or is opened now. */
static uint32_t file_of(struct adding *a, const struct proc_maps_line *line, const struct proc_mapping *m)
{
	struct process_reader *r = a->reader;
	uint32_t file, pid = a->process->pid;

	if ((known_line(a->known, m, &file) && openings_current(r->options.openings, file)) ||
	    recent_find(a, line, &file))
		return file;
	if (!line->path)
		return PROC_FILE_NONE;
	if (!seen_files_find(&r->seen, pid, line, &file) || !openings_current(r->options.openings, file)) {
		file = openings_of_line(r->options.openings, pid, line, line->path);
		seen_files_add(&r->seen, pid, line, file, a->process->maps->files);
	}
	a->recent[a->n_recent++ % RECENT_FILES] = (struct recent_file){line, file};
	return file;
}

static int add_line(struct adding *a, size_t i)
{
	const struct proc_maps_line *line = map_line(a->lines, i);
	struct proc_mapping m = {.start = line->start, .end = line->end, .offset = line->offset};
	struct process_reader *r = a->reader;

	m.file = file_of(a, line, &m);
	a->maybe_copies |= (line->inode || a->lines->beside_file) &&
			   remaps_possible(r->options.remaps, m.file, line->path);
	return proc_maps_insert(a->process->maps, m);
}

/*
 * Sets p->maps to the mappings of the lines, with the files of `known` (NULL: none) where the mappings are
 * the same. The caller gets the former p->maps. -ENOMEM: nothing has changed.
 */
static int lines_to_maps(struct process_reader *r, struct process *p, const struct proc_maps *known,
			 const struct map_lines *l, bool *ret_maybe_copies)
{
	struct adding a = {.reader = r, .process = p, .known = known, .lines = l};
	struct proc_maps *read;
	int e = proc_maps_new(&read, p->maps->files);

	if (e < 0)
		return e;
	p->maps = read;
	for (size_t i = 0; i < l->n && e == 0; i++)
		e = add_line(&a, i);
	if (e == -ENOMEM || l->incomplete)
		no_memory(r);
	if (e == -ENOSPC) {
		r->stats.cut++;
		process_reader_full(p);
	}
	*ret_maybe_copies = a.maybe_copies;
	return 0;
}

void process_reader_full(struct process *p)
{
	if (!p->mappings_logged)
		log_warn("process %u has more than %u mappings of code: the others are left out, and its own "
			 "stacks may be incomplete",
			 p->pid, PROC_MAPS_MAX);
	p->mappings_logged = true;
}

static bool same_mappings(const struct proc_maps *a, const struct proc_maps *b)
{
	struct proc_maps_cursor in_a = {.maps = a}, in_b = {.maps = b};
	const struct proc_mapping *m, *other;

	if (a->n != b->n)
		return false;
	while ((m = proc_maps_next(&in_a)) && (other = proc_maps_next(&in_b)))
		if (m->start != other->start || m->end != other->end || m->offset != other->offset ||
		    m->file != other->file)
			return false;
	return true;
}

/* False: the process is ending, or there was no memory. Mappings that are known stay. */
static bool can_replace(struct process_reader *r, const struct map_lines *l)
{
	if (l->incomplete)
		no_memory(r);
	return l->n && !l->incomplete;
}

/* The part of a mapping that lies within `range`, which overlaps it. */
static struct proc_mapping part_of(struct proc_mapping m, const struct proc_mapping *range)
{
	if (m.start < range->start) {
		m.offset += range->start - m.start;
		m.start = range->start;
	}
	if (m.end > range->end)
		m.end = range->end;
	return m;
}

/* Where events have reported mappings since the lines were requested, copies those from `before`. */
static int insert_reported(struct process *p, const struct proc_maps *before)
{
	struct proc_maps_cursor ranges = {.maps = p->reported}, c;
	const struct proc_mapping *range, *m;
	int e = 0;

	while (p->reported && e == 0 && (range = proc_maps_next(&ranges))) {
		c = proc_maps_from(before, range->start);
		while (e == 0 && (m = proc_maps_next(&c)) && m->start < range->end)
			e = proc_maps_insert(p->maps, part_of(*m, range));
	}
	return e;
}

/*
 * Takes the lines of a process in place of the mappings that were known. Those that events have reported
 * meanwhile are newer.
 */
static int add_lines(struct process *p, const struct map_lines *l, void *data)
{
	struct process_reader *r = data;
	struct proc_maps *before = p->maps;
	bool maybe_copies = false;

	if (before->n && !can_replace(r, l))
		return 0;
	if (lines_to_maps(r, p, NULL, l, &maybe_copies) < 0) {
		no_memory(r);
		return 0;
	}
	if (insert_reported(p, before) == -ENOMEM)
		no_memory(r);
	if (same_mappings(before, p->maps)) {
		proc_maps_unref(p->maps);
		p->maps = before;
	} else {
		proc_maps_unref(before);
	}
	if (maybe_copies)
		(void)remaps_read(r->options.remaps, p);
	publication_mark(r->options.publication, p->pid);
	return 0;
}

/* The process's mappings stay unknown until a rescan. -ETIMEDOUT: there were too many requests. */
static bool is_lost(int error)
{
	return error == -ENOMEM || error == -ETIMEDOUT;
}

static void read_lines(struct process_reader *r, struct process *p)
{
	if (is_lost(map_lines_read(r->options.requests, p, false, add_lines, r)))
		no_memory(r);
}

/* --- a process */

uint64_t process_reader_start_ns(const struct process_reader *r, const struct proc_stat *stat)
{
	return proc_start_mono_ns(stat->start_time_ticks, r->clock.boot_offset_ns());
}

/* Not before the end of the process that had the pid before. */
static void set_start(struct process_reader *r, struct process *p, const struct proc_stat *stat)
{
	uint64_t start_ns = process_reader_start_ns(r, stat);

	if (!p->scanned && start_ns > p->start_ns)
		p->start_ns = p->image->start_ns = p->image->since_ns = start_ns;
}

/* False: it is gone, or has no mappings. */
static bool read_attributes(struct process_reader *r, struct process *p)
{
	struct proc_stat stat;

	if (!p->scanned) /* its pid may have stood for the list of another process */
		publication_begin(r->options.publication, p);
	publication_select(r->options.publication, p, false);
	if (r->proc.ops->stat(r->proc.data, p->pid, &stat) < 0)
		return false;
	p->kernel_thread = stat.kernel_thread;
	set_start(r, p, &stat);
	memcpy(p->image->comm, stat.comm, PROC_TASK_COMM_LEN - 1);
	p->n_threads = stat.num_threads ? stat.num_threads - 1 : 0;
	p->scanned = true;
	p->parent_pid = stat.ppid;
	if (!p->kernel_thread && !p->image->program->exe) /* without it, the process is named by comm */
		(void)r->proc.ops->exe(r->proc.data, p->pid, &p->image->program->exe);
	return !p->kernel_thread;
}

struct map_lines_request *process_reader_begin(struct process_reader *r, struct process *p)
{
	struct map_lines_request *lines;
	int e = 0;

	if (!read_attributes(r, p))
		return NULL;
	lines = map_lines_begin(r->options.requests, p, add_lines, r, &e);
	if (is_lost(e))
		no_memory(r);
	return lines;
}

/* Its mappings are known or requested. Reads what the selection depends on; the process is published. */
static void finish(struct process_reader *r, struct process *p)
{
	const struct process *parent;

	if (!p->scanned)
		return;
	if (!p->kernel_thread)
		process_names_read_workload(r->options.names, p);
	parent = proc_table_get(r->options.processes, p->parent_pid);
	publication_select(r->options.publication, p, parent && parent->image->selected);
	publication_mark(r->options.publication, p->pid);
}

void process_reader_end(struct process_reader *r, struct process *p, struct map_lines_request *lines)
{
	if (lines)
		(void)map_lines_wait(r->options.requests, lines);
	finish(r, p);
}

void process_reader_read(struct process_reader *r, struct process *p)
{
	if (read_attributes(r, p))
		read_lines(r, p);
	finish(r, p);
}

void process_reader_scan_begin(struct process_reader *r)
{
	seen_files_begin(&r->seen, &r->proc);
	process_names_rescan(r->options.names);
}

void process_reader_scan_end(struct process_reader *r)
{
	seen_files_end(&r->seen);
}

/* For a time before anything that is known of the pid: a process that is gone without a trace. */
static struct process *exited_process(struct process_reader *r, uint32_t pid, uint64_t time_ns)
{
	struct process *p;

	if (proc_table_add_ended(r->options.processes, pid, time_ns, &p) < 0)
		return NULL;
	strcpy(p->image->comm, "[exited]");
	publication_select(r->options.publication, p, false);
	return p;
}

struct process *process_reader_find(struct process_reader *r, uint32_t pid, uint64_t time_ns)
{
	struct proc_table *processes = r->options.processes;
	struct process *p = proc_table_at(processes, pid, time_ns);

	if (p)
		return p;
	if (!proc_table_get(processes, pid)) {
		if (proc_table_add(processes, pid, 0, &p) < 0)
			return NULL;
		process_reader_read(r, p);
		if (!p->scanned) {
			strcpy(p->image->comm, "[exited]");
			publication_end(r->options.publication, p, time_ns);
		}
	}
	return proc_table_at(processes, pid, time_ns) ?: exited_process(r, pid, time_ns);
}

void process_reader_reread(struct process_reader *r, struct process *p, uint64_t *cost_ns)
{
	uint64_t *former = requests_charge(r->options.requests, cost_ns);

	r->stats.rereads++;
	read_lines(r, p);
	(void)requests_charge(r->options.requests, former);
}

/* --- where no events report mappings */

void process_reader_read_image(struct process_reader *r, struct process *p)
{
	if (!p->image->program->exe)
		(void)r->proc.ops->exe(r->proc.data, p->pid, &p->image->program->exe);
	publication_select(r->options.publication, p, p->image->selected);
	read_lines(r, p);
}

static int replace_lines(struct process *p, const struct map_lines *l, void *data)
{
	struct process_reader *r = data;
	struct proc_maps *before = p->maps, *read;
	bool maybe_copies = false;

	if (!can_replace(r, l))
		return 0;
	if (lines_to_maps(r, p, before, l, &maybe_copies) < 0) {
		no_memory(r);
		return 0;
	}
	read = p->maps;
	p->maps = before;
	if (same_mappings(before, read)) {
		proc_maps_unref(read);
		return 0;
	}
	p->miss_wait_ns = 0;
	publication_remember(r->options.publication, p, r->clock.mono_ns());
	p->maps = read;
	proc_maps_unref(before);
	if (maybe_copies)
		(void)remaps_read(r->options.remaps, p);
	publication_mark(r->options.publication, p->pid);
	return 1;
}

bool process_reader_sampled(struct process_reader *r, struct process *p, const struct sample_view *v)
{
	const struct event_source *events = &r->options.host->events;
	bool missed = v->ending == ENDING_NO_MAPPING || v->ending == ENDING_NO_PROCESS;
	uint64_t now;
	int changed;

	if (events->has_mappings(events->data) || p->end_ns || p->kernel_thread)
		return false;
	now = r->clock.mono_ns();
	if (now < (missed ? p->miss_after_ns : p->reread_after_ns))
		return false;
	/* samples that lie outside of all mappings again and again say nothing new */
	p->miss_wait_ns = !p->miss_wait_ns		       ? MISS_WAIT_NS
			  : p->miss_wait_ns < MISS_WAIT_MAX_NS ? p->miss_wait_ns * 2
							       : MISS_WAIT_MAX_NS;
	p->miss_after_ns = now + p->miss_wait_ns;
	p->reread_after_ns = now + REREAD_NS;
	r->stats.rereads++;
	changed = map_lines_read(r->options.requests, p, false, replace_lines, r);
	if (changed == -ENOMEM)
		no_memory(r);
	return changed > 0;
}

void process_reader_stats(const struct process_reader *r, struct process_reader_stats *ret)
{
	*ret = r->stats;
}
