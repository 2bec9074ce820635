// SPDX-License-Identifier: Apache-2.0
#include "agent/symbol/jit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/parser/parser.h"
#include "agent/proc/image.h"
#include "agent/proc/root.h"
#include "agent/proc/stat.h"
#include "agent/proc/status.h"
#include "agent/proc/table.h"
#include "agent/proc/tenant.h"
#include "agent/symbol/jitbudget.h"
#include "agent/symbol/jitopen.h"
#include "agent/symbol/jitread.h"

#define JOB_BYTES (8ull << 20)	    /* of files that one job reads at most; the next job continues */
#define JOB_BYTES_MIN (64ull << 10) /* less is not worth a process */
#define JOB_CALLS_MAX 16u	    /* of parser processes, in one job */
#define OPENERS 4u
#define OPENER_CALLS_MAX 4096u /* of one process: its CPU time is limited */

/* A list, as the last job has left it. */
struct jit_source {
	struct jit_file file; /* zeroed: none yet */
	struct jit_position at;
	bool more,
		harmful; /* harmful: whoever read it crashed, or took too long: this file is not read again */
};

/* All processes of a tenant: for as long as one of them has a record, or it has used its budget. */
struct jit_share {
	struct tenant_share share;
	struct jit_budget budget;
	size_t bytes; /* of tables */
};

/* A process that opens lists; a job at a time has it. */
struct opener {
	atomic_flag taken;
	struct parser_session session;
	unsigned n_calls;
};

struct jit_update {
	struct jit_table *table; /* owned; NULL: no change */
	uint64_t n_bad, n_cut;	 /* malformed entries; entries for which there was no room */
};

enum { SOURCE_DUMP, SOURCE_MAP, SOURCES }; /* in the order of lookups */

struct symbol_jit_record {
	struct map_node node;
	struct process *process; /* one reference */
	uint64_t exec_ns;	 /* when the process called execve for its present program */
	uint64_t noted_ns;
	struct proc_root *root; /* one reference */
	struct jit_owner owner;
	struct jit_share *share; /* one reference */
	struct jit_budget budget;
	struct jit_source sources[SOURCES]; /* the job owns them while it runs */
	struct jit_table *tables[SOURCES];  /* owned; a running job reads them; NULL: none */
	bool busy;			    /* a job is running */
	uint64_t read_ns;		    /* when the last job was made */
	unsigned slot;
};

struct symbol_jit {
	struct map records, shares;
	bool stopping; /* atomic: jobs end early */
	struct opener openers[OPENERS];
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
	struct parser_session session; /* of the process that reads */
	int dump_fd;		       /* owned */
	bool run, rewritten, harmful, no_answer;
	uint64_t allowed, used; /* bytes */
	uint64_t n_failed, n_refused[JIT_REFUSALS_N];
	struct jit_update updates[SOURCES];
};

/* --- a job: the lists of one process */

/* Each is used by one job at a time. NULL: all are taken. */
static struct opener *opener_take(struct symbol_jit *j)
{
	for (unsigned i = 0; i < OPENERS; i++)
		if (!atomic_flag_test_and_set(&j->openers[i].taken))
			return &j->openers[i];
	return NULL;
}

static void opener_give(struct opener *o)
{
	if (++o->n_calls % OPENER_CALLS_MAX == 0)
		parser_session_end(&o->session);
	atomic_flag_clear(&o->taken);
}

static int open_list(struct symbol_jit_job *job, bool dump, int to, struct jit_file *ret,
		     enum jit_refusal *ret_why)
{
	const struct symbol_jit_record *x = job->record;
	struct opener *o = opener_take(job->jit);
	struct parser_session own = {0}, *session = o ? &o->session : &own;
	int r = dump ? jit_open_dump(session, job->dump_fd, &x->owner, to, ret, ret_why)
		     : jit_open_perfmap(session, x->root->fd, &x->owner, to, ret, ret_why);

	parser_session_end(&own);
	if (o)
		opener_give(o);
	return r;
}

static bool same_file(const struct jit_file *a, const struct jit_file *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

static bool unchanged(const struct jit_source *s, const struct jit_file *now)
{
	return memcmp(&s->file, now, sizeof *now) == 0 && !s->more;
}

static void give_up(struct symbol_jit_job *job, struct jit_source *s, int error)
{
	job->n_failed++;
	job->no_answer |= error == -ETIMEDOUT;
	s->harmful |= error == -ENOTRECOVERABLE || error == -ETIME || error == -EBADMSG;
	job->harmful |= s->harmful;
	if (error == -ENOMEM)
		s->at = (struct jit_position){0}; /* the entries that were read may be lost */
}

/* Reads on in the file that has come through the socket. True: there is more to read. */
static bool read_list(struct symbol_jit_job *job, int source, int from, const struct jit_file *now)
{
	struct symbol_jit_record *x = job->record;
	struct jit_source *s = &x->sources[source];
	struct jit_update *u = &job->updates[source];
	struct jit_progress progress;
	struct jit_table *next;
	int r;

	if (!same_file(&s->file, now)) {
		job->rewritten |= s->file.ino != 0;
		*s = (struct jit_source){.more = true};
	}
	s->file = *now;
	if (s->harmful)
		return false;
	r = jit_read(&job->session, from, source == SOURCE_DUMP, job->allowed - job->used, &s->at,
		     u->table ?: x->tables[source], &next, &progress);
	s->more = r == 0 && progress.more;
	if (r < 0) {
		give_up(job, s, r);
		return false;
	}
	if (next) {
		jit_table_free(u->table);
		u->table = next;
	}
	job->used += progress.bytes < job->allowed - job->used ? progress.bytes : job->allowed - job->used;
	job->rewritten |= progress.rewritten;
	job->n_failed += progress.refused;
	u->n_bad += progress.n_bad;
	u->n_cut += progress.n_cut;
	return progress.more && job->used < job->allowed;
}

/* Opens a list and reads a part of it. True: there is more to read. */
static bool read_part(struct symbol_jit_job *job, int source)
{
	const struct jit_source *s = &job->record->sources[source];
	_cleanup_close_ int from = -1, to = -1;
	enum jit_refusal why = JIT_NOT_REGULAR;
	struct jit_file now;
	int sockets[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
		job->n_failed++;
		return false;
	}
	from = sockets[0];
	to = sockets[1];
	r = open_list(job, source == SOURCE_DUMP, to, &now, &why);
	job->n_refused[why] += r == -EPERM;
	job->no_answer |= r == -ETIMEDOUT;
	job->n_failed += r < 0 && r != -ENOENT;
	if (r < 0 || unchanged(s, &now))
		return false;
	return read_list(job, source, from, &now);
}

static bool stopping(const struct symbol_jit_job *job)
{
	return __atomic_load_n(&job->jit->stopping, __ATOMIC_RELAXED);
}

static void job_run(struct worker_job *work)
{
	struct symbol_jit_job *job = container_of(work, struct symbol_jit_job, work);
	unsigned n = 0;

	job->run = true;
	while (n++ < JOB_CALLS_MAX && !stopping(job) && read_part(job, SOURCE_MAP))
		;
	while (job->dump_fd >= 0 && !job->no_answer && n++ < JOB_CALLS_MAX && !stopping(job) &&
	       read_part(job, SOURCE_DUMP))
		;
	parser_session_end(&job->session);
}

static void job_done(struct worker_job *work, bool cancelled)
{
	struct symbol_jit_job *job = container_of(work, struct symbol_jit_job, work);

	(void)cancelled; /* job->run is false then */
	symbol_jit_complete(job->jit, job);
}

/* --- shares */

static struct jit_share *share_of(struct map_node *n)
{
	return container_of(container_of(n, struct tenant_share, node), struct jit_share, share);
}

static void share_free(struct symbol_jit *j, struct jit_share *s)
{
	tenant_share_remove(&j->shares, &s->share);
	free(s);
}

/* One reference. NULL: no memory, or too many tenants. */
static struct jit_share *share_get(struct symbol_jit *j, const struct process *p, uint64_t now_ns)
{
	uint64_t tenant = p->image ? p->image->context.tenant : 0;
	struct tenant_share *found = tenant_share_find(&j->shares, tenant);
	struct jit_share *s = found ? container_of(found, struct jit_share, share) : calloc(1, sizeof *s);

	if (!s)
		return NULL;
	if (!found) {
		if (tenant_share_add(&j->shares, &s->share, tenant) < 0) {
			free(s);
			return NULL;
		}
		jit_budget_init(&s->budget, JIT_SHARE_BYTES, JIT_SHARE_MINUTE, now_ns);
	}
	s->share.refs++;
	return s;
}

/* Those that nobody uses are forgotten when they would begin with the same budget. */
static void shares_sweep(struct symbol_jit *j, uint64_t now_ns)
{
	struct map_node *n;

	map_for_each (&j->shares, n, it) {
		struct jit_share *s = share_of(n);

		(void)jit_budget_take(&s->budget, 0, now_ns);
		if (!s->share.refs && s->budget.bytes == s->budget.max_bytes && now_ns >= s->budget.until_ns)
			share_free(j, s);
	}
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
	map_init(&j->shares, SYMBOL_JIT_PROCESSES_MAX);
	j->max_bytes = max_bytes;
	*ret = TAKE_PTR(j);
	return 0;
}

void symbol_jit_stop(struct symbol_jit *j)
{
	__atomic_store_n(&j->stopping, true, __ATOMIC_RELAXED);
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
		x->share->bytes -= jit_table_bytes(x->tables[i]);
		jit_table_free(TAKE_PTR(x->tables[i]));
	}
}

/* Discards all that belongs to the previous program of the process: files, tables, root directory. */
static void record_reset(struct symbol_jit *j, struct symbol_jit_record *x)
{
	tables_drop(j, x);
	memset(x->sources, 0, sizeof x->sources);
	proc_root_unref(TAKE_PTR(x->root));
}

static void record_free(struct symbol_jit *j, struct symbol_jit_record *x)
{
	record_reset(j, x);
	x->share->share.refs--;
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
	map_for_each (&j->shares, n, it)
		share_free(j, share_of(n));
	map_fini(&j->shares);
	for (unsigned i = 0; i < OPENERS; i++)
		parser_session_end(&j->openers[i].session);
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
	shares_sweep(j, clock_mono_ns());
}

/* The record noted longest ago that no job is using, or NULL. `share`: of this one, and with a table. */
static struct symbol_jit_record *oldest(const struct symbol_jit *j, const struct jit_share *share)
{
	struct symbol_jit_record *found = NULL;
	struct map_node *n;

	map_for_each (&j->records, n, it) {
		struct symbol_jit_record *x = container_of(n, struct symbol_jit_record, node);

		if (x->busy ||
		    (share && (x->share != share || (!x->tables[SOURCE_DUMP] && !x->tables[SOURCE_MAP]))))
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
	struct symbol_jit_record *x = j->records.len < SYMBOL_JIT_PROCESSES_MAX ? NULL : oldest(j, NULL);
	int r;

	if (x && now_ns > SYMBOL_JIT_IDLE_NS && x->noted_ns < now_ns - SYMBOL_JIT_IDLE_NS)
		record_remove(j, x);
	x = calloc(1, sizeof *x);
	if (!x)
		return -ENOMEM;
	r = map_insert(&j->records, &x->node, hash_u64((uintptr_t)p));
	if (r < 0) {
		j->stats.n_full += r == -ENOSPC;
		free(x);
		return r;
	}
	x->share = share_get(j, p, now_ns);
	if (!x->share) {
		map_remove(&j->records, &x->node);
		free(x);
		return -ENOMEM;
	}
	jit_budget_init(&x->budget, JIT_PROCESS_BYTES, JIT_PROCESS_MINUTE, now_ns);
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

/* Takes from both budgets, or from none of them. */
static uint64_t allow(struct symbol_jit *j, struct symbol_jit_record *x, uint64_t now_ns)
{
	uint64_t own = jit_budget_take(&x->budget, JOB_BYTES, now_ns);
	uint64_t all = jit_budget_take(&x->share->budget, own, now_ns);

	jit_budget_return(&x->budget, own - all);
	if (all < JOB_BYTES_MIN) {
		jit_budget_return(&x->budget, all);
		jit_budget_return(&x->share->budget, all);
		j->stats.n_deferred++;
		return 0;
	}
	return all;
}

int symbol_jit_job_new(struct symbol_jit_job **ret, struct symbol_jit *j, const struct process *p,
		       int dump_fd, uint64_t now_ns)
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
	job->allowed = allow(j, x, now_ns);
	if (!job->allowed) {
		free(job);
		return -EAGAIN;
	}
	if (dump_fd >= 0)
		job->dump_fd = fcntl(dump_fd, F_DUPFD_CLOEXEC, 0); /* on failure only the perf map is read */
	x->busy = true;
	x->read_ns = now_ns;
	*ret = job;
	return 0;
}

/* The tenant with the most has to give. NULL: nothing can be freed. */
static struct symbol_jit_record *to_evict(const struct symbol_jit *j)
{
	const struct jit_share *most = NULL;
	struct map_node *n;

	map_for_each (&j->shares, n, it) {
		const struct jit_share *s = share_of(n);

		if (s->bytes && (!most || s->bytes > most->bytes) && oldest(j, s))
			most = s;
	}
	return most ? oldest(j, most) : NULL;
}

static void keep_budget(struct symbol_jit *j)
{
	struct symbol_jit_record *x;

	while (j->stats.bytes > j->max_bytes && (x = to_evict(j))) {
		tables_drop(j, x);
		memset(x->sources, 0, sizeof x->sources);
		j->stats.n_evicted++;
	}
}

/* What a tenant did to the agent decides for how long its lists are left alone. */
static void settle(struct symbol_jit *j, const struct symbol_jit_job *job)
{
	struct symbol_jit_record *x = job->record;
	uint64_t now = x->read_ns, left = job->allowed - job->used;

	jit_budget_return(&x->budget, left);
	jit_budget_return(&x->share->budget, left);
	j->stats.bytes_read += job->used;
	j->stats.n_rewritten += job->rewritten;
	j->stats.n_harmful += job->harmful;
	j->stats.n_no_answer += job->no_answer;
	if (job->rewritten)
		jit_budget_wait(&x->budget, JIT_REWRITTEN_WAIT_NS, JIT_REWRITTEN_WAIT_MAX_NS, now);
	if (job->harmful || job->no_answer) {
		jit_budget_wait(&x->budget, JIT_HARMFUL_WAIT_NS, JIT_HARMFUL_WAIT_MAX_NS, now);
		jit_budget_wait(&x->share->budget, JIT_HARMFUL_WAIT_NS, JIT_HARMFUL_WAIT_MAX_NS, now);
	}
}

void symbol_jit_complete(struct symbol_jit *j, struct symbol_jit_job *job)
{
	struct symbol_jit_record *x = job->record;

	for (int i = 0; i < SOURCES; i++) {
		const struct jit_update *l = &job->updates[i];

		j->stats.n_bad += l->n_bad;
		j->stats.n_cut += l->n_cut;
		if (!l->table)
			continue;
		j->stats.bytes += jit_table_bytes(l->table) - jit_table_bytes(x->tables[i]);
		x->share->bytes += jit_table_bytes(l->table) - jit_table_bytes(x->tables[i]);
		jit_table_free(x->tables[i]);
		x->tables[i] = l->table;
	}
	j->stats.n_reads += job->run;
	j->stats.n_failed += job->n_failed;
	for (int i = 0; i < JIT_REFUSALS_N; i++)
		j->stats.n_refused[i] += job->n_refused[i];
	if (job->dump_fd >= 0)
		close(job->dump_fd);
	settle(j, job);
	free(job);
	x->busy = false;
	keep_budget(j);
}
