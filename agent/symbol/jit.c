// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/proc/root.h"
#include "agent/proc/stat.h"
#include "agent/proc/status.h"
#include "agent/proc/table.h"
#include "agent/symbol/jitdump.h"
#include "agent/symbol/jitopen.h"
#include "agent/symbol/perfmap.h"

#define WINDOW_BYTES (64u << 10)
#define JIT_FILE_MAX (1ull << 30)  /* bytes of a file that are read at most */
#define JIT_READ_MAX (64ull << 20) /* bytes that one job reads at most; the next job continues */
#define JIT_TAIL_BYTES 64u

struct jit_source {
	bool dump; /* jitdump; else a perf map */
	int fd;	   /* owned; -1: none yet */
	dev_t dev;
	ino_t ino;
	uint64_t offset;	      /* where to continue; may be beyond `seen`, as code is written last */
	uint64_t seen;		      /* length of the file at the last read */
	uint8_t tail[JIT_TAIL_BYTES]; /* the bytes before `offset`: if they change, the file was rewritten */
	unsigned tail_bytes;
	struct perfmap map;
	struct jitdump jitdump;
};

struct jit_update {
	struct jit_table *table; /* owned; NULL: no change */
	uint64_t n_bad, n_cut;	 /* malformed entries; entries for which there was no room */
	bool over;		 /* the file is longer than JIT_FILE_MAX */
};

_Static_assert(WINDOW_BYTES >= PERFMAP_LINE_MAX && WINDOW_BYTES >= JITDUMP_BYTES_NEEDED, "window");

enum { SOURCE_DUMP, SOURCE_MAP, SOURCES }; /* in the order of lookups */

struct symbol_jit_record {
	struct map_node node;
	struct process *process; /* one reference */
	uint64_t exec_ns;	 /* when the process called execve for its present program */
	uint64_t noted_ns;
	struct proc_root *root; /* one reference */
	struct jit_owner owner;
	struct jit_source sources[SOURCES]; /* the job owns them while it runs */
	struct jit_table *tables[SOURCES];  /* owned; a running job reads them; NULL: none */
	bool busy;			    /* a job is running */
	uint64_t read_ns;		    /* when the last job was made */
	unsigned slot;
};

struct symbol_jit {
	struct map records;
	struct symbol_jit_record
		*slots[SYMBOL_JIT_PROCESSES_MAX]; /* the same records, by number; NULL: free */
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
	uint64_t n_failed, n_refused[JIT_REFUSALS_N];
	struct jit_update updates[SOURCES];
};

/* --- the file in which a runtime lists its code */

static void source_init(struct jit_source *s, bool dump)
{
	*s = (struct jit_source){.dump = dump, .fd = -1};
}

static void source_fini(struct jit_source *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* The next read starts at the beginning of the file. */
static void source_rewind(struct jit_source *s)
{
	s->offset = s->seen = s->tail_bytes = 0;
	s->map = (struct perfmap){0};
	s->jitdump = (struct jitdump){0};
}

/* Switches to the given file, unless it is the one already open. Takes ownership of the descriptor. */
static int take_file(struct jit_source *s, int given)
{
	_cleanup_close_ int fd = given;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENODEV;
	if (s->fd >= 0 && st.st_dev == s->dev && st.st_ino == s->ino)
		return 0;
	source_fini(s);
	source_rewind(s);
	s->fd = TAKE_FD(fd);
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

/* End of the bytes whose last part `tail` holds. */
static uint64_t tail_end(const struct jit_source *s)
{
	return s->offset < s->seen ? s->offset : s->seen;
}

/* False when the file was rewritten since the last read. */
static bool tail_same(const struct jit_source *s)
{
	uint8_t now[JIT_TAIL_BYTES];
	size_t n = s->tail_bytes;

	return pread(s->fd, now, n, (off_t)(tail_end(s) - n)) == (ssize_t)n && memcmp(now, s->tail, n) == 0;
}

static void tail_keep(struct jit_source *s)
{
	uint64_t end = tail_end(s);
	size_t want = end < JIT_TAIL_BYTES ? end : JIT_TAIL_BYTES;
	ssize_t n = pread(s->fd, s->tail, want, (off_t)(end - want));

	s->tail_bytes = n == (ssize_t)want ? (unsigned)want : 0;
}

/* The state of one call of source_read. */
struct reading {
	struct jit_source *s;
	struct jit_builder b;
	const struct jit_table *old; /* borrowed; the table to start from; NULL: none */
	struct jit_update *update;
	uint8_t *window; /* owned */
	bool started;	 /* read from the beginning: makes a table even if there are no entries */
};

static void reading_fini(struct reading *x)
{
	jit_builder_fini(&x->b);
	free(x->window);
}

/* Makes a table of the entries parsed so far. */
static int settle(struct reading *x)
{
	struct jit_table *table;
	int r;

	if (!x->b.n && !x->started)
		return 0;
	r = jit_table_new(&table, x->update->table ?: x->old, &x->b, &x->update->n_cut);
	if (r < 0)
		return r;
	jit_table_free(x->update->table);
	x->update->table = table;
	x->started = false;
	return 0;
}

static int parse(struct reading *x, size_t len, uint64_t *ret_used)
{
	size_t used;
	int r;

	if (x->s->dump)
		return jitdump_parse(&x->s->jitdump, &x->b, x->window, len, ret_used);
	r = perfmap_parse(&x->s->map, &x->b, (const char *)x->window, len, &used);
	*ret_used = used;
	return r;
}

static int read_on(struct reading *x)
{
	uint64_t used, n_read = 0;
	int r = 0;

	while (n_read < JIT_READ_MAX && x->s->offset < JIT_FILE_MAX && !x->s->jitdump.ended) {
		ssize_t n = pread(x->s->fd, x->window, WINDOW_BYTES, (off_t)x->s->offset);

		if (n <= 0)
			return n < 0 && errno != EINTR ? -errno : r;
		r = parse(x, (size_t)n, &used);
		x->s->offset += used;
		n_read += (uint64_t)n;
		if (r == -ENOSPC) {
			r = settle(x);
			if (r == 0)
				continue;
		}
		if (r < 0 || !used)
			return r;
	}
	x->update->over = x->s->offset >= JIT_FILE_MAX;
	return r;
}

/*
 * Reads the new part of the file. `fd` (owned by the call) is the file that the process uses now; -1:
 * continue with the one that is open. *ret receives the result, merged with `old` (borrowed; NULL: nothing is
 * known yet). 0 or -errno; *ret is valid in both cases.
 */
static int source_read(struct jit_source *s, int fd, const struct jit_table *old, struct jit_update *ret)
{
	_cleanup_(reading_fini) struct reading x = {.s = s, .old = old, .update = ret};
	uint64_t n_bad;
	struct stat st;
	int r = fd >= 0 ? take_file(s, fd) : 0;

	*ret = (struct jit_update){0};
	if (r < 0 || s->fd < 0)
		return r < 0 ? r : -ENOENT;
	if (fstat(s->fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size < s->seen || !tail_same(s))
		source_rewind(s);
	if (!s->offset) {
		x.started = old != NULL;
		x.old = NULL;
	}
	s->seen = (uint64_t)st.st_size;
	if (s->seen <= s->offset && !x.started)
		return 0;
	jit_builder_init(&x.b);
	x.window = malloc(WINDOW_BYTES);
	if (!x.window)
		return -ENOMEM;
	n_bad = s->map.n_bad + s->jitdump.n_bad;
	r = read_on(&x);
	if (r == 0 || r == -EBADMSG)
		r = settle(&x) ?: r;
	ret->n_bad = s->map.n_bad + s->jitdump.n_bad - n_bad;
	tail_keep(s);
	if (r == -ENOMEM)
		source_rewind(s); /* the entries that were read may be lost */
	return r;
}

/* --- the cache */

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

/* Discards all that belongs to the previous program of the process: files, tables, root directory. */
static void record_reset(struct symbol_jit *j, struct symbol_jit_record *x)
{
	tables_drop(j, x);
	for (int i = 0; i < SOURCES; i++) {
		source_fini(&x->sources[i]);
		source_init(&x->sources[i], i == SOURCE_DUMP);
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

/* The record noted longest ago that no job is using, or NULL. */
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

/*
 * Start of the present program: the time of execve, if one was seen; else the start of the process, from
 * /proc.
 */
static uint64_t started_ns(const struct symbol_jit *j, const struct process *p)
{
	struct proc_stat stat;

	if (p->exec_ns || p->start_ns)
		return p->exec_ns ?: p->start_ns;
	if (proc_stat_read(j->proc_fd, p->pid, &stat) < 0)
		return 0;
	return proc_start_mono_ns(stat.start_time_ticks, proc_boot_offset_ns());
}

/* Reads root directory, user and start time of the process while it lives. */
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
		source_init(&x->sources[i], i == SOURCE_DUMP);
	r = map_insert(&j->records, &x->node, hash_u64((uintptr_t)p));
	if (r < 0) {
		j->stats.n_full += r == -ENOSPC;
		free(x);
		return r;
	}
	x->process = process_ref(p);
	while (j->slots[x->slot]) /* terminates: there are as many slots as records */
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

/* Reads one list; `fd` as of jit_open_perfmap. */
static void update(struct symbol_jit_job *job, int source, int fd, enum jit_refusal why)
{
	struct symbol_jit_record *x = job->record;
	int r;

	if (fd == -EPERM)
		job->n_refused[why]++;
	job->n_failed += fd < 0 && fd != -ENOENT;
	r = source_read(&x->sources[source], fd, x->tables[source], &job->updates[source]);
	job->n_failed += r < 0 && r != -ENOENT;
}

static void job_run(struct worker_job *work)
{
	struct symbol_jit_job *job = container_of(work, struct symbol_jit_job, work);
	const struct jit_owner *owner = &job->record->owner;
	enum jit_refusal why = 0;
	int fd = jit_open_perfmap(job->record->root->fd, owner, &why);

	job->run = true;
	update(job, SOURCE_MAP, fd, why);
	fd = job->dump_fd < 0 ? -ENOENT : jit_open_dump(job->dump_fd, owner, &why);
	update(job, SOURCE_DUMP, fd, why);
}

static void job_done(struct worker_job *work, bool cancelled)
{
	struct symbol_jit_job *job = container_of(work, struct symbol_jit_job, work);

	(void)cancelled; /* job->run is false then */
	symbol_jit_complete(job->jit, job);
}

bool symbol_jit_idle(const struct symbol_jit *j, const struct process *p)
{
	const struct symbol_jit_record *x = record_find(j, p);

	return x && !x->busy;
}

uint64_t symbol_jit_read_ns(const struct symbol_jit *j, const struct process *p)
{
	const struct symbol_jit_record *x = record_find(j, p);

	return x ? x->read_ns : 0;
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
		job->dump_fd = fcntl(dump_fd, F_DUPFD_CLOEXEC, 0); /* on failure only the perf map is read */
	x->busy = true;
	x->read_ns = clock_mono_ns();
	*ret = job;
	return 0;
}

static void keep_budget(struct symbol_jit *j)
{
	struct symbol_jit_record *x;

	while (j->stats.bytes > j->max_bytes && (x = oldest(j, true))) {
		tables_drop(j, x);
		for (int i = 0; i < SOURCES; i++)
			source_rewind(&x->sources[i]);
		j->stats.n_evicted++;
	}
}

void symbol_jit_complete(struct symbol_jit *j, struct symbol_jit_job *job)
{
	struct symbol_jit_record *x = job->record;

	for (int i = 0; i < SOURCES; i++) {
		const struct jit_update *l = &job->updates[i];

		j->stats.n_bad += l->n_bad;
		j->stats.n_cut += l->n_cut + l->over;
		if (!l->table)
			continue;
		j->stats.bytes += jit_table_bytes(l->table) - jit_table_bytes(x->tables[i]);
		jit_table_free(x->tables[i]);
		x->tables[i] = l->table;
	}
	j->stats.n_reads += job->run;
	j->stats.n_failed += job->n_failed;
	for (int i = 0; i < JIT_REFUSALS_N; i++)
		j->stats.n_refused[i] += job->n_refused[i];
	if (job->dump_fd >= 0)
		close(job->dump_fd);
	free(job);
	x->busy = false;
	keep_budget(j);
}
