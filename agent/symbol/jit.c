// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/proc/root.h"
#include "agent/proc/stat.h"
#include "agent/proc/table.h"
#include "agent/symbol/jitfile.h"

enum { SOURCE_DUMP, SOURCE_MAP, SOURCES }; /* in the order in which they are asked */

struct symbol_jit_record {
	struct map_node node;
	struct process *process; /* one reference */
	uint64_t exec_ns;	 /* of the image that it is of */
	uint64_t noted_ns;
	struct proc_root *root; /* one reference */
	struct jit_owner owner;
	struct jit_source sources[SOURCES]; /* a job's, while there is one */
	struct jit_table *tables[SOURCES];  /* owned, read by a job; NULL: none */
	bool busy;			    /* a job is under way */
	unsigned slot;
};

struct symbol_jit {
	struct map records;
	struct symbol_jit_record *slots[SYMBOL_JIT_PROCESSES_MAX]; /* the same, by number; NULL: free */
	int proc_fd;
	size_t max_bytes;
	struct symbol_jit_stats stats;
};

struct symbol_jit_job {
	struct worker_job work;
	struct symbol_jit *jit;
	struct symbol_jit_record *record;
	int dump_fd; /* owned */
	bool run;
	uint64_t n_failed, n_refused;
	struct jit_look looks[SOURCES];
};

struct worker_job *symbol_jit_job_work(struct symbol_jit_job *job)
{
	return &job->work;
}

int symbol_jit_new(struct symbol_jit **ret, size_t max_bytes)
{
	_cleanup_free_ struct symbol_jit *j = calloc(1, sizeof *j);

	if (!j)
		return -ENOMEM;
	j->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (j->proc_fd < 0)
		return -errno;
	map_init(&j->records, SYMBOL_JIT_PROCESSES_MAX);
	j->max_bytes = max_bytes;
	*ret = TAKE_PTR(j);
	return 0;
}

/* --- records */

static bool record_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct symbol_jit_record, node)->process == key;
}

static struct symbol_jit_record *record_find(const struct symbol_jit *j, const struct process *p)
{
	struct map_node *n = map_find(&j->records, hash_u64((uintptr_t)p), record_is, p);

	return n ? container_of(n, struct symbol_jit_record, node) : NULL;
}

static void tables_drop(struct symbol_jit *j, struct symbol_jit_record *x)
{
	for (int i = 0; i < SOURCES; i++) {
		j->stats.bytes -= jit_table_bytes(x->tables[i]);
		jit_table_free(TAKE_PTR(x->tables[i]));
	}
}

/* What was read of the image before: files, tables, root. */
static void record_reset(struct symbol_jit *j, struct symbol_jit_record *x)
{
	tables_drop(j, x);
	for (int i = 0; i < SOURCES; i++) {
		jit_source_fini(&x->sources[i]);
		jit_source_init(&x->sources[i], i == SOURCE_DUMP);
	}
	proc_root_unref(TAKE_PTR(x->root));
}

static void record_free(struct symbol_jit *j, struct symbol_jit_record *x)
{
	record_reset(j, x);
	process_unref(x->process);
	free(x);
}

static void record_remove(struct symbol_jit *j, struct symbol_jit_record *x)
{
	map_remove(&j->records, &x->node);
	j->slots[x->slot] = NULL;
	record_free(j, x);
}

void symbol_jit_free(struct symbol_jit *j)
{
	struct map_node *n;

	if (!j)
		return;
	map_for_each (&j->records, n, it)
		record_free(j, container_of(n, struct symbol_jit_record, node));
	map_fini(&j->records);
	close(j->proc_fd);
	free(j);
}

void symbol_jit_sweep(struct symbol_jit *j, uint64_t before_ns)
{
	struct map_node *n;

	map_for_each (&j->records, n, it) {
		struct symbol_jit_record *x = container_of(n, struct symbol_jit_record, node);

		if (x->process->end_ns && x->noted_ns < before_ns && !x->busy)
			record_remove(j, x);
	}
}

/* The record that was noted before all others and is not with a worker. NULL: there is none. */
static struct symbol_jit_record *oldest(const struct symbol_jit *j, bool with_table)
{
	struct symbol_jit_record *found = NULL;
	struct map_node *n;

	map_for_each (&j->records, n, it) {
		struct symbol_jit_record *x = container_of(n, struct symbol_jit_record, node);

		if (x->busy || (with_table && !x->tables[SOURCE_DUMP] && !x->tables[SOURCE_MAP]))
			continue;
		if (!found || x->noted_ns < found->noted_ns)
			found = x;
	}
	return found;
}

/* Its image may have begun with execve. Where the time is not known, it was before us: ask the kernel. */
static uint64_t started_ns(const struct symbol_jit *j, const struct process *p)
{
	struct proc_stat stat;

	if (p->exec_ns || p->start_ns)
		return p->exec_ns ?: p->start_ns;
	if (proc_stat_read(j->proc_fd, p->pid, &stat) < 0)
		return 0;
	return proc_start_mono_ns(stat.start_time_ticks, proc_boot_offset_ns());
}

/* Reads who the process is, while it lives. */
static int identify(const struct symbol_jit *j, struct symbol_jit_record *x)
{
	const struct process *p = x->process;
	int64_t started = (int64_t)started_ns(j, p) + clock_real_offset_ns();
	int r = proc_status_read(j->proc_fd, p->pid, &x->owner.status);

	x->owner.started_unix_ns = started > 0 ? (uint64_t)started : 0;
	x->exec_ns = p->exec_ns;
	return r < 0 ? r : proc_root_open(&x->root, j->proc_fd, p->pid);
}

static int record_new(struct symbol_jit *j, struct process *p, struct symbol_jit_record **ret,
		      uint64_t now_ns)
{
	struct symbol_jit_record *x = j->records.len < SYMBOL_JIT_PROCESSES_MAX ? NULL : oldest(j, false);
	int r;

	if (x && now_ns > SYMBOL_JIT_IDLE_NS && x->noted_ns < now_ns - SYMBOL_JIT_IDLE_NS)
		record_remove(j, x);
	x = calloc(1, sizeof *x);
	if (!x)
		return -ENOMEM;
	for (int i = 0; i < SOURCES; i++)
		jit_source_init(&x->sources[i], i == SOURCE_DUMP);
	r = map_insert(&j->records, &x->node, hash_u64((uintptr_t)p));
	if (r < 0) {
		j->stats.n_full += r == -ENOSPC;
		free(x);
		return r;
	}
	x->process = process_ref(p);
	while (j->slots[x->slot]) /* there is a free one: there are as many as records */
		x->slot++;
	j->slots[x->slot] = x;
	*ret = x;
	return 0;
}

int symbol_jit_note(struct symbol_jit *j, struct process *p, uint64_t now_ns)
{
	struct symbol_jit_record *x = record_find(j, p);
	int r;

	if (x && (x->exec_ns == p->exec_ns || x->busy)) {
		x->noted_ns = now_ns;
		return 0;
	}
	if (p->end_ns)
		return -ESRCH;
	if (x) {
		record_reset(j, x);
	} else {
		r = record_new(j, p, &x, now_ns);
		if (r < 0)
			return r;
	}
	x->noted_ns = now_ns;
	r = identify(j, x);
	if (r < 0) {
		record_remove(j, x);
		return r;
	}
	return 1;
}

int symbol_jit_slot(const struct symbol_jit *j, const struct process *p)
{
	const struct symbol_jit_record *x = record_find(j, p);

	return x && x->exec_ns == p->exec_ns ? (int)x->slot : -ENOENT;
}

const struct process *symbol_jit_process(const struct symbol_jit *j, unsigned slot)
{
	return j->slots[slot]->process;
}

bool symbol_jit_find(const struct symbol_jit *j, unsigned slot, uint64_t address, struct jit_symbol *ret)
{
	const struct symbol_jit_record *x = j->slots[slot];

	for (int i = 0; x && i < SOURCES; i++)
		if (jit_table_find(x->tables[i], address, ret))
			return true;
	return false;
}

void symbol_jit_get_stats(const struct symbol_jit *j, struct symbol_jit_stats *ret)
{
	*ret = j->stats;
	ret->n_processes = j->records.len;
}

/* --- jobs */

static void look(struct symbol_jit_job *job, int source, int fd)
{
	struct symbol_jit_record *x = job->record;
	int r = jit_source_look(&x->sources[source], fd, x->tables[source], &job->looks[source]);

	job->n_failed += r < 0 && r != -ENOENT;
}

static void job_run(struct worker_job *work)
{
	struct symbol_jit_job *job = container_of(work, struct symbol_jit_job, work);
	int fd = jit_perfmap_open(job->record->root->fd, &job->record->owner);

	job->run = true;
	job->n_refused = fd == -EACCES || fd == -ESTALE;
	job->n_failed = fd < 0 && fd != -ENOENT;
	look(job, SOURCE_MAP, fd);
	look(job, SOURCE_DUMP, job->dump_fd < 0 ? -1 : fs_reopen(job->dump_fd)); /* it only names the file */
}

static void job_done(struct worker_job *work, bool cancelled)
{
	struct symbol_jit_job *job = container_of(work, struct symbol_jit_job, work);

	(void)cancelled; /* job->run says it */
	symbol_jit_complete(job->jit, job);
}

bool symbol_jit_idle(const struct symbol_jit *j, const struct process *p)
{
	const struct symbol_jit_record *x = record_find(j, p);

	return x && !x->busy;
}

int symbol_jit_job_new(struct symbol_jit_job **ret, struct symbol_jit *j, const struct process *p,
		       int dump_fd)
{
	struct symbol_jit_record *x = record_find(j, p);
	struct symbol_jit_job *job;

	if (!x)
		return -ENOENT;
	if (x->busy)
		return -EBUSY;
	job = calloc(1, sizeof *job);
	if (!job)
		return -ENOMEM;
	*job = (struct symbol_jit_job){
		.work = {.run = job_run, .done = job_done}, .jit = j, .record = x, .dump_fd = -1};
	if (dump_fd >= 0)
		job->dump_fd = fcntl(dump_fd, F_DUPFD_CLOEXEC, 0); /* without one the map will have to do */
	x->busy = true;
	*ret = job;
	return 0;
}

static void keep_budget(struct symbol_jit *j)
{
	struct symbol_jit_record *x;

	while (j->stats.bytes > j->max_bytes && (x = oldest(j, true))) {
		tables_drop(j, x);
		for (int i = 0; i < SOURCES; i++)
			jit_source_rewind(&x->sources[i]);
		j->stats.n_evicted++;
	}
}

void symbol_jit_complete(struct symbol_jit *j, struct symbol_jit_job *job)
{
	struct symbol_jit_record *x = job->record;

	for (int i = 0; i < SOURCES; i++) {
		const struct jit_look *l = &job->looks[i];

		j->stats.n_bad += l->n_bad;
		j->stats.n_cut += l->n_cut + l->over;
		if (!l->table)
			continue;
		j->stats.bytes += jit_table_bytes(l->table) - jit_table_bytes(x->tables[i]);
		jit_table_free(x->tables[i]);
		x->tables[i] = l->table;
	}
	j->stats.n_looks += job->run;
	j->stats.n_failed += job->n_failed;
	j->stats.n_refused += job->n_refused;
	if (job->dump_fd >= 0)
		close(job->dump_fd);
	free(job);
	x->busy = false;
	keep_budget(j);
}
