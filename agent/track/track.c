// SPDX-License-Identifier: Apache-2.0
/*
 * One process's walk: side-band event → process table → binaries (opened now, the process may be gone in a
 * millisecond) → table workers → publication. Events of one drain are applied first, then every process that
 * they changed is published once.
 */
#include "agent/track/track.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/worker.h"
#include "agent/probe/probe.h"
#include "agent/probe/sideband.h"
#include "agent/proc/history.h"
#include "agent/proc/maps.h"
#include "agent/proc/scan.h"
#include "agent/proc/stat.h"
#include "agent/track/track_private.h"
#include "cgroup/meta.h"

#define WORKLOADS_MAX 4096u
#define THREADS_MAX 65536u
#define FILE_IDLE_NS (60 * NS_PER_SEC)
#define ENDED_KEEP_NS (2 * NS_PER_SEC)
#define SETTLE_STEP_NS (20 * NS_PER_MS)

static int segment_new(void *data, uint32_t index, void **ret)
{
	return probe_segment_new(data, index, ret);
}

static void tables_changed(void *data)
{
	struct track *t = data;

	t->all_dirty = true;
}

static int open_parts(struct track *t)
{
	const struct track_options *o = &t->options;
	int r;

	t->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->proc_fd < 0)
		return -errno;
	r = proc_table_new(&t->table, o->max_processes);
	if (r == 0)
		r = arena_new(&t->arena, o->table_bytes, segment_new, o->probe);
	if (r == 0)
		r = binary_registry_new(&t->binaries, o->max_files);
	if (r == 0)
		r = unwind_tables_new(&t->tables, t->binaries, t->arena, o->worker, tables_changed, t);
	if (r == 0)
		r = publisher_new(&t->publisher, t->arena, t->tables);
	if (r == 0)
		r = cgroup_meta_cache_new(&t->workloads, WORKLOADS_MAX);
	if (r == 0)
		r = proc_threads_new(&t->threads, THREADS_MAX);
	return r;
}

int track_new(struct track **ret, const struct track_options *options)
{
	struct track *t = calloc(1, sizeof *t);
	int r;

	if (!t)
		return -ENOMEM;
	t->options = *options;
	t->proc_fd = -1;
	t->vdso = PROC_FILE_NONE;
	t->patience_ns = ASK_START_NS;
	t->patience_at_ns = clock_mono_ns();
	track_grace_init(t);
	map_init(&t->delays, SIZE_MAX); /* no more than processes */
	r = open_parts(t);
	if (r == 0)
		r = track_vdso_add(t);
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
	proc_table_free(t->table);
	publisher_free(t->publisher);
	unwind_tables_free(t->tables);
	binary_registry_free(t->binaries);
	arena_free(t->arena);
	cgroup_meta_cache_free(t->workloads);
	proc_threads_free(t->threads);
	free(t->dirty);
	track_delays_fini(t);
	if (t->proc_fd >= 0)
		close(t->proc_fd);
	free(t);
}

/* Remembers to publish the process at the end of this drain. */
void track_mark_dirty(struct track *t, uint32_t pid)
{
	if (t->n_dirty && t->dirty[t->n_dirty - 1] == pid)
		return;
	if (t->n_dirty == t->cap_dirty) {
		size_t cap = t->cap_dirty ? t->cap_dirty * 2 : 256;
		uint32_t *more = realloc(t->dirty, cap * sizeof *more);

		if (!more) {
			t->all_dirty = true;
			return;
		}
		t->dirty = more;
		t->cap_dirty = cap;
	}
	t->dirty[t->n_dirty++] = pid;
}

/* Sets whether the process is sampled; its list carries the flag. `inherited`: what its parent is, or it was.
 */
void track_select(struct track *t, struct process *p, bool inherited)
{
	enum select_answer answer =
		t->options.select ? t->options.select(p, t->options.select_data) : SELECT_YES;
	bool selected = answer == SELECT_AS_PARENT ? inherited : answer == SELECT_YES;

	p->image->selected = selected;
}

/* For a time before anything that is known of the pid: a process that is gone without a trace. */
static struct process *exited_process(struct track *t, uint32_t pid, uint64_t time_ns)
{
	struct process *p;

	if (proc_table_add_ended(t->table, pid, time_ns, &p) < 0)
		return NULL;
	strcpy(p->image->comm, "[exited]");
	track_select(t, p, false);
	return p;
}

struct process *track_process(struct track *t, uint32_t pid, uint64_t time_ns)
{
	struct process *p = proc_table_at(t->table, pid, time_ns);

	if (p)
		return p;
	if (!proc_table_get(t->table, pid)) {
		if (proc_table_add(t->table, pid, 0, &p) < 0)
			return NULL;
		track_read_process(t, p);
		if (!p->scanned) {
			strcpy(p->image->comm, "[exited]");
			track_process_over(t, p, time_ns);
		}
	}
	return proc_table_at(t->table, pid, time_ns) ?: exited_process(t, pid, time_ns);
}

void track_process_over(struct track *t, struct process *p, uint64_t time_ns)
{
	publisher_remove(t->publisher, p);
	proc_table_end(t->table, p, time_ns);
}

/* --- from the side-band */

static void on_fork(struct track *t, const struct sideband_event *e)
{
	struct process *parent = proc_table_get(t->table, e->ppid), *p;

	if (e->pid == e->ppid) {
		if (parent)
			track_thread_begin(t, parent, e);
		return;
	}
	t->stats.forks++;
	p = proc_table_get(t->table, e->pid);
	if (p) /* its exit was lost */
		track_process_over(t, p, e->time_ns);
	if (proc_table_add(t->table, e->pid, e->time_ns, &p) < 0)
		return;
	if (!parent) {
		track_read_process(t, p);
		return;
	}
	p->parent_pid = parent->pid;
	proc_image_inherit(p, parent);
	track_thread_name(t, parent, e->ptid, e->time_ns, p->image->comm); /* which forked */
	p->scanned = true;
	p->keep_stack = true; /* until its execve, which is heard of after it was */
	p->keep_stack_until_ns = e->time_ns + FORK_STACK_NS;
	if (parent->keep_stack && parent->keep_stack_until_ns > p->keep_stack_until_ns)
		p->keep_stack_until_ns = parent->keep_stack_until_ns;
	proc_maps_unref(p->maps);
	p->maps = proc_maps_ref(parent->maps);
	proc_history_begin(p, publisher_generation(t->publisher),
			   publisher_list_generation(t->publisher, p->maps));
	track_mark_dirty(t, p->pid);
}

/* The old image is gone, the mappings of the new one follow. */
static void on_exec(struct track *t, struct process *p, const struct sideband_event *e)
{
	struct proc_maps *empty;
	struct proc_image *image;

	t->stats.execs++;
	track_threads_over(t, p, e->time_ns);
	proc_images_forget(p, t->drained_ns);
	if (proc_image_exec(p, e->time_ns, &image) == 0)
		track_comm_set(image, e->name);
	/* who calls execve again so soon, may once more */
	p->keep_stack = p->exec_ns && e->time_ns - p->exec_ns < FORK_STACK_NS;
	p->keep_stack_until_ns = e->time_ns + FORK_STACK_NS;
	p->exec_ns = e->time_ns;
	track_remember(t, p, e->time_ns);
	publisher_remove(t->publisher, p); /* its list goes with it */
	if (proc_maps_new(&empty) == 0) {
		proc_maps_unref(p->maps);
		p->maps = empty;
	}
	track_read_workload(t, p);
	track_select(t, p, p->image->selected);
	track_mark_dirty(t, p->pid);
	if (!sideband_has_mappings(t->options.sideband))
		track_read_image(t, p);
}

static void on_comm(struct track *t, const struct sideband_event *e)
{
	struct process *p = proc_table_get(t->table, e->pid);

	if (!p)
		return;
	if (e->exec)
		on_exec(t, p, e);
	else
		track_renamed(t, p, e);
}

/* Mapped there again, or its rights have changed. */
static void known_again(struct track *t, const struct process *p, const struct proc_mapping *m)
{
	const struct proc_mapping *all = proc_maps_find(p->maps, m->start);

	if (m->file == PROC_FILE_NONE)
		sideband_ignore(t->options.sideband, p->pid, all->start, all->end);
}

static void on_mmap(struct track *t, const struct sideband_event *e)
{
	struct process *p = proc_table_get(t->table, e->pid);
	struct proc_mapping m = {e->mmap.start, e->mmap.start + e->mmap.len, e->mmap.offset, PROC_FILE_NONE};

	if (!e->mmap.executable)
		return;
	if (!p) {
		t->news = true;
		if (proc_table_add(t->table, e->pid, 0, &p) == 0)
			track_read_process(t, p); /* its start was lost; this mapping is in what was read */
		return;
	}
	m.file = track_file_of_event(t, e);
	if (proc_maps_has(p->maps, &m) && !track_remap_pending(t, p, &m)) {
		known_again(t, p, &m);
		return;
	}
	t->news = true;
	if (proc_maps_replaces(p->maps, &m) || track_remap_pending(t, p, &m)) {
		track_remember(t, p, e->time_ns);
		p->keep_stack_until_ns = e->time_ns + KEEP_STACK_NS;
		p->keep_stack = true;
	}
	if (proc_maps_own(p) < 0)
		return;
	/* the first mapping of a new image is the executable's, also where the file could not be opened any
	 * more */
	if (!p->maps->n && !p->image->program->exe && e->name[0] == '/' && e->name[1] != '/') {
		p->image->program->exe = proc_exe_path(e->name, strlen(e->name));
		track_select(t, p, p->image->selected);
	}
	track_remap_note(t, p, &m);
	(void)proc_maps_insert(p->maps, m); /* at the maximum: samples there end "no mapping" */
	track_mark_dirty(t, p->pid);
}

static void on_task_exit(struct track *t, const struct sideband_event *e)
{
	struct process *p = proc_table_get(t->table, e->pid);

	if (e->tid != e->pid)
		track_thread_end(t, e->tid, e->time_ns);
	if (!p || !track_last_thread(p, e))
		return;
	t->stats.exits++;
	track_process_over(t, p, e->time_ns);
}

static void on_event(const struct sideband_event *e, void *data)
{
	struct track *t = data;

	t->stats.events++;
	t->news |= e->kind != SIDEBAND_MMAP;
	switch (e->kind) {
	case SIDEBAND_FORK:
		on_fork(t, e);
		break;
	case SIDEBAND_COMM:
		on_comm(t, e);
		break;
	case SIDEBAND_MMAP:
		on_mmap(t, e);
		break;
	case SIDEBAND_EXIT:
		on_task_exit(t, e);
		break;
	case SIDEBAND_LOST:
		t->rescan_wanted = true;
		log_warn("%lu process events or more are missing (%s); /proc will be read again",
			 (unsigned long)e->n_lost, sideband_loss_text(e->loss));
		break;
	case SIDEBAND_OTHER:
		break;
	}
}

bool track_drain(struct track *t)
{
	int r;

	t->news = false;
	r = sideband_drain(t->options.sideband, on_event, t);
	if (r < 0)
		log_warn("process events could not be read: %s; trying again", strerror(-r));
	track_rescan(t);
	track_remap_retry(t);
	track_publish(t);
	unwind_tables_pump(t->tables);
	return t->news;
}

/* --- forgetting */

void track_drained(struct track *t, uint64_t time_ns)
{
	t->drained_ns = time_ns > ENDED_KEEP_NS ? time_ns - ENDED_KEEP_NS : 0;
	proc_table_reap(t->table, t->drained_ns);
}

struct sweep {
	struct track *t;
	uint64_t now_ns;
	uint8_t *used;
};

static void mark_used(const struct proc_maps *m, void *data)
{
	struct sweep *s = data;

	for (uint32_t i = 0; i < m->n; i++)
		if (!(m->entries[i].file & PROC_FILE_OPENING))
			s->used[m->entries[i].file] = 1;
}

static void sweep_process(struct process *p, void *data)
{
	struct sweep *s = data;

	track_history_tend(s->t, p, s->now_ns);
	proc_images_forget(p, s->t->drained_ns);
	track_main_over_check(s->t, p, s->now_ns);
	mark_used(p->maps, s);
	proc_history_each(p, mark_used, s);
}

void track_sweep(struct track *t, uint64_t now_ns, void (*fn)(uint32_t index, void *data), void *data)
{
	_cleanup_free_ uint8_t *used = calloc(t->options.max_files + 1, 1);
	struct sweep sweep = {t, now_ns, used};

	if (!used)
		return;
	proc_table_each(t->table, sweep_process, &sweep);
	publisher_mark_files(t->publisher, used);
	used[t->vdso] = 1;
	proc_threads_forget(t->threads, t->drained_ns);
	unwind_tables_sweep(t->tables, used, now_ns > FILE_IDLE_NS ? now_ns - FILE_IDLE_NS : 0, fn, data);
	track_delays_tend(t, now_ns);
	track_grace(t);
}

/* --- for the samples */

uint64_t track_epoch(const struct track *t)
{
	return t->epoch;
}

const struct publisher *track_publisher(const struct track *t)
{
	return t->publisher;
}

struct unwind_tables *track_tables(const struct track *t)
{
	return t->tables;
}

struct arena *track_arena(const struct track *t)
{
	return t->arena;
}

void track_settle(struct track *t, uint64_t timeout_ns)
{
	uint64_t deadline = clock_mono_ns() + timeout_ns, now;

	while ((unwind_tables_pending(t->tables) || t->ask.pending) && (now = clock_mono_ns()) < deadline) {
		uint64_t step = deadline - now < SETTLE_STEP_NS ? deadline - now : SETTLE_STEP_NS;

		worker_drain(t->ask.pending ? t->options.opener : t->options.worker, step);
		track_check(t);
		track_progress(t);
	}
}

void track_stats(const struct track *t, struct track_stats *ret)
{
	*ret = t->stats;
	ret->ask = t->ask;
	arena_stats(t->arena, &ret->arena);
	binary_registry_stats(t->binaries, &ret->binaries);
	unwind_tables_stats(t->tables, &ret->tables);
	publisher_stats(t->publisher, &ret->publish);
	cgroup_meta_cache_stats(t->workloads, &ret->workloads);
	ret->processes = proc_table_len(t->table);
	ret->processes_full = proc_table_full(t->table);
	ret->threads = proc_threads_len(t->threads);
	ret->threads_full = proc_threads_full(t->threads);
	sideband_lost(t->options.sideband, ret->events_lost);
}

uint64_t track_events_lost(const struct track_stats *s)
{
	uint64_t n = 0;

	for (int i = 0; i < SIDEBAND_LOSSES_N; i++)
		n += s->events_lost[i];
	return n;
}
