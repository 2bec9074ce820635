// SPDX-License-Identifier: Apache-2.0
#include "agent/track/process_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/urgency.h"
#include "agent/proc/image.h"
#include "agent/proc/table.h"
#include "agent/track/event_files.h"
#include "agent/track/floods.h"
#include "agent/track/openings.h"
#include "agent/track/process_names.h"
#include "agent/track/process_reader.h"
#include "agent/track/publication.h"
#include "agent/track/remaps.h"

#define EVENT_FILES_KEEP_NS (5 * NS_PER_SEC) /* a file that is mapped often is mapped again by then */

struct process_events {
	struct process_events_options options;
	struct event_files files;
	struct floods floods;
	bool news; /* an event of this drain has changed something */
	struct process_events_stats stats;
};

static void on_resolved(uint32_t ticket, uint32_t to, void *data)
{
	struct process_events *e = data;

	event_files_resolved(&e->files, ticket, to);
}

int process_events_new(struct process_events **ret, const struct process_events_options *options)
{
	struct process_events *e = calloc(1, sizeof *e);

	if (!e)
		return -ENOMEM;
	e->options = *options;
	e->floods = (struct floods){.clock = options->host->clock,
				    .processes = options->processes,
				    .reader = options->reader,
				    .publication = options->publication};
	openings_on_resolved(options->openings, on_resolved, e);
	*ret = e;
	return 0;
}

void process_events_free(struct process_events *e)
{
	if (!e)
		return;
	openings_on_resolved(e->options.openings, NULL, NULL);
	event_files_fini(&e->files);
	free(e);
}

static void no_memory(struct process_events *e)
{
	gap_note(e->options.gaps, GAP_NO_MEMORY);
}

/* NULL: no memory (a gap), or at the maximum of processes (counted by the table). */
static struct process *process_add(struct process_events *e, uint32_t pid, uint64_t start_ns)
{
	struct process *p = NULL;

	if (proc_table_add(e->options.processes, pid, start_ns, &p) == -ENOMEM)
		no_memory(e);
	return p;
}

static void on_fork(struct process_events *e, const struct sideband_event *v)
{
	const struct process_events_options *o = &e->options;
	struct process *parent = proc_table_get(o->processes, v->ppid), *p;

	if (v->pid == v->ppid) {
		if (parent)
			process_names_thread_begin(o->names, parent, v);
		return;
	}
	e->stats.forks++;
	p = proc_table_get(o->processes, v->pid);
	if (p) /* its exit was lost */
		publication_end(o->publication, p, v->time_ns);
	p = process_add(e, v->pid, v->time_ns);
	if (!p)
		return;
	if (!parent) {
		process_reader_read(o->reader, p);
		return;
	}
	parent->n_forks++;
	p->parent_pid = parent->pid;
	p->scanned = true;
	process_names_forked(o->names, p, parent, v);
	publication_forked(o->publication, p, parent, v->time_ns);
	if (parent->flooded)
		floods_inherit(&e->floods, p);
}

/* The mappings of the new program follow, as events. */
static void on_exec(struct process_events *e, struct process *p, const struct sideband_event *v)
{
	const struct process_events_options *o = &e->options;

	e->stats.execs++;
	process_names_exec(o->names, p, v);
	p->flooded = false; /* that was the program before */
	p->n_mapped = 0;
	publication_exec(o->publication, p, v->time_ns);
	process_names_read_workload(o->names, p);
	publication_select(o->publication, p, p->image->selected);
	if (!o->host->events.has_mappings(o->host->events.data))
		process_reader_read_image(o->reader, p);
}

static void on_comm(struct process_events *e, const struct sideband_event *v)
{
	struct process *p = proc_table_get(e->options.processes, v->pid);

	if (p && v->exec)
		on_exec(e, p, v);
	else if (p)
		process_names_renamed(e->options.names, p, v);
}

/* The same was mapped there again, or its protection has changed. */
static void known_again(struct process_events *e, const struct process *p, const struct proc_mapping *m)
{
	const struct event_source *events = &e->options.host->events;
	const struct proc_mapping *all = proc_maps_find(p->maps, m->start);

	if (m->file == PROC_FILE_NONE)
		events->ignore(events->data, p->pid, all->start, all->end);
}

/*
 * The first mapping of a new program is that of its executable, also where the file could not be opened any
 * more.
 */
static void note_executable(struct process_events *e, struct process *p, const char *name)
{
	_cleanup_free_ char *path = NULL;

	if (p->maps->n || p->image->program->exe || name[0] != '/' || name[1] == '/')
		return;
	path = proc_exe_path(name, strlen(name));
	if (path && proc_exe_names_program(path))
		p->image->program->exe = TAKE_PTR(path);
	publication_select(e->options.publication, p, p->image->selected);
}

static void mapping_insert(struct process_events *e, struct process *p, const struct proc_mapping *m)
{
	int r = proc_maps_insert(p->maps, *m);

	if (r == -ENOMEM)
		no_memory(e);
	if (r == -ENOSPC) { /* samples there end "no mapping" */
		e->stats.mappings_full++;
		process_reader_full(p);
	}
	publication_mark(e->options.publication, p->pid);
}

static void on_mmap(struct process_events *e, const struct sideband_event *v)
{
	const struct process_events_options *o = &e->options;
	struct process *p = proc_table_get(o->processes, v->pid);
	struct proc_mapping m = {v->mmap.start, v->mmap.start + v->mmap.len, v->mmap.offset, PROC_FILE_NONE};
	bool pending;

	if (!v->mmap.executable)
		return;
	if (!p) { /* its fork was lost; this mapping is among those that are read */
		e->news = true;
		p = process_add(e, v->pid, 0);
		if (p)
			process_reader_read(o->reader, p);
		return;
	}
	if (floods_take(&e->floods, p, v->time_ns))
		return;
	m.file = event_files_find(&e->files, o->openings, p, v);
	if (process_reported(p, m.start, m.end) == -ENOMEM)
		no_memory(e);
	pending = remaps_pending(o->remaps, p, &m);
	if (proc_maps_has(p->maps, &m) && !pending) {
		known_again(e, p, &m);
		return;
	}
	e->news = true;
	if (pending || proc_maps_replaces(p->maps, &m))
		publication_replacing(o->publication, p, v->time_ns);
	if (proc_maps_own(p) < 0) {
		no_memory(e);
		return;
	}
	note_executable(e, p, v->name);
	remaps_note(o->remaps, p, &m);
	mapping_insert(e, p, &m);
}

static void on_task_exit(struct process_events *e, const struct sideband_event *v)
{
	struct process *p = proc_table_get(e->options.processes, v->pid);

	if (!process_names_task_end(e->options.names, p, v))
		return;
	e->stats.exits++;
	publication_end(e->options.publication, p, v->time_ns);
}

static void on_event(const struct sideband_event *v, void *data)
{
	struct process_events *e = data;

	e->stats.events++;
	urgency_check(URGENCY_EVENTS);
	e->news |= v->kind != SIDEBAND_MMAP;
	switch (v->kind) {
	case SIDEBAND_FORK:
		on_fork(e, v);
		break;
	case SIDEBAND_COMM:
		on_comm(e, v);
		break;
	case SIDEBAND_MMAP:
		on_mmap(e, v);
		break;
	case SIDEBAND_EXIT:
		on_task_exit(e, v);
		break;
	case SIDEBAND_LOST:
		gap_note(e->options.gaps, GAP_EVENTS);
		log_warn("%lu process events or more are missing (%s); /proc will be read again",
			 (unsigned long)v->n_lost, sideband_loss_text(v->loss));
		break;
	case SIDEBAND_OTHER:
		break;
	}
}

int process_events_drain(struct process_events *e)
{
	const struct event_source *events = &e->options.host->events;
	int r;

	e->news = false;
	r = events->drain(events->data, on_event, e);
	floods_read(&e->floods);
	return r < 0 ? r : e->news;
}

void process_events_sweep(struct process_events *e, uint64_t now_ns)
{
	if (now_ns > EVENT_FILES_KEEP_NS)
		event_files_forget(&e->files, now_ns - EVENT_FILES_KEEP_NS);
}

void process_events_stats(const struct process_events *e, struct process_events_stats *ret)
{
	*ret = e->stats;
	ret->mappings_left = e->floods.n_left;
}
