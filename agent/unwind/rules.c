// SPDX-License-Identifier: Apache-2.0
/*
 * Entries are sorted by file and requested address. A rule holds for a range of addresses, and ranges of one
 * file do not overlap, so the rule of any address is that of the nearest entry below or above, if it covers
 * the address.
 *
 * Each entry is on one of three lists: `walk` (the walk at hand uses it), `held` (a walk that will be
 * repeated needs it; the hold that ends first comes first), `idle` (may be evicted; unused for longest comes
 * first).
 *
 * A job takes requests for one file, because finding rules is one pass over the file's call-frame section.
 * Files with requests wait in an order that is fair among tenants.
 */
#include "agent/unwind/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/base/worker.h"
#include "agent/binary/registry.h"
#include "agent/elf/file/version.h"
#include "agent/proc/fair_queue.h"
#include "agent/unwind/rule_job.h"
#include "agent/unwind/stuck_devices.h"
#include "bpf/abi.h"

#define REQUESTS_MAX 32u /* of one job */
#define JOBS_MAX 4u
#define JOBS_OF_A_TENANT 2u
#define FILES_MAX 8192u /* with requests; more than there can be entries */

_Static_assert(REQUESTS_MAX <= RULE_JOB_MAX, "a job of ours is one of theirs");

enum entry_state {
	WANTED,	   /* not yet with a worker */
	REQUESTED, /* with a worker */
	FOUND,
	NONE,
};

struct link {
	struct link *prev, *next;
};

struct entry {
	struct link link;
	uint32_t file;
	enum entry_state state;
	bool unanswered;	 /* NONE, because its file system does not answer: it is requested again */
	uint64_t va;		 /* as requested */
	uint64_t serial;	 /* of the request; an answer to an earlier one is ignored */
	uint64_t held_until_ns;	 /* 0: never held */
	struct frame_rule *rule; /* owned; NULL unless FOUND */
};

/* An entry without an answer counts as if it had a rule, so that its answer finds room. */
#define RULE_ENTRY_BYTES (sizeof(struct entry) + sizeof(struct frame_rule))
_Static_assert(RULES_BYTES / RULE_ENTRY_BYTES >= 2 * USER_FRAMES_MAX,
	       "one stack takes half of the cache at most");

/* A file with requests: it waits, until a job takes some of them. The job keeps it until it ends. */
struct rules_file {
	struct map_node node; /* while it waits */
	struct fair_wait wait;
	uint32_t file;
};

struct rules {
	struct rules_options options;
	struct entry **entries; /* owned; by file and address */
	size_t n, cap;
	struct link walk, held, idle;
	uint64_t now_ns;
	uint64_t serial;
	bool refused;	  /* the walk at hand found no room */
	struct map files; /* those that wait, by index */
	struct fair_queue waiting;
	unsigned n_jobs;
	struct stuck_devices stuck;
	struct rules_stats stats;
};

struct rules_job {
	struct worker_job job;
	struct rules *rules;
	struct rules_file *share; /* owned; NULL: it is stuck, and no longer counts as one of its tenant's */
	uint32_t file;
	int fd;
	struct elf_version version; /* of the content whose rules are wanted */
	bool any_version;	    /* it is not an ELF file */
	bool of_system;		    /* the file is one of the system's own */
	int error;
	dev_t dev;
	bool stuck;
	bool tried; /* though another job is stuck on the file system */
	size_t n;
	uint64_t serials[REQUESTS_MAX];
	struct frame_query query[REQUESTS_MAX];
};

static void link_init(struct link *head)
{
	head->prev = head->next = head;
}

static void link_remove(struct link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	link_init(l);
}

/* Moves the entry to the end of the list. */
static void entry_move(struct entry *e, struct link *list)
{
	link_remove(&e->link);
	e->link.prev = list->prev;
	e->link.next = list;
	list->prev->next = &e->link;
	list->prev = &e->link;
}

static struct entry *list_first(const struct link *list)
{
	return list->next == list ? NULL : container_of(list->next, struct entry, link);
}

int rules_new(struct rules **ret, const struct rules_options *options)
{
	struct rules *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->options = *options;
	if (!r->options.max_bytes)
		r->options.max_bytes = RULES_BYTES;
	link_init(&r->walk);
	link_init(&r->held);
	link_init(&r->idle);
	map_init(&r->files, FILES_MAX);
	fair_queue_init(&r->waiting, JOBS_OF_A_TENANT);
	fair_queue_on_held(&r->waiting, binary_registry_held_until_ns, options->binaries);
	*ret = r;
	return 0;
}

static bool file_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct rules_file, node)->file == *(const uint32_t *)key;
}

static struct rules_file *file_find(const struct rules *r, uint32_t file)
{
	struct map_node *node = map_find(&r->files, hash_u64(file), file_is, &file);

	return node ? container_of(node, struct rules_file, node) : NULL;
}

/* The file has requests. False: no memory. */
static bool file_wait(struct rules *r, uint32_t file)
{
	const struct binary *b = binary_registry_get(r->options.binaries, file);
	_cleanup_free_ struct rules_file *f = NULL;

	if (file_find(r, file))
		return true;
	f = calloc(1, sizeof *f);
	if (!f)
		return false;
	f->file = file;
	if (map_insert(&r->files, &f->node, hash_u64(file)) < 0)
		return false;
	fair_queue_add(&r->waiting, &f->wait, b ? b->tenant : 0, true);
	TAKE_PTR(f);
	return true;
}

/* It does not wait any longer, and is the caller's. */
static struct rules_file *file_take(struct rules *r, struct rules_file *f)
{
	map_remove(&r->files, &f->node);
	fair_queue_remove(&r->waiting, &f->wait);
	return f;
}

/* Does not take it out of r->entries. */
static void entry_free(struct rules *r, struct entry *e)
{
	r->stats.bytes -= e->state == NONE ? sizeof *e : RULE_ENTRY_BYTES;
	link_remove(&e->link);
	free(e->rule);
	free(e);
}

void rules_free(struct rules *r)
{
	struct map_node *n;

	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		entry_free(r, r->entries[i]);
	map_for_each (&r->files, n, it)
		free(file_take(r, container_of(n, struct rules_file, node)));
	fair_queue_fini(&r->waiting);
	map_fini(&r->files);
	stuck_devices_fini(&r->stuck);
	free(r->entries);
	free(r);
}

/* Index of the first entry that is not before the address. */
static size_t lower_bound(const struct rules *r, uint32_t file, uint64_t va)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct entry *e = r->entries[mid];

		if (e->file < file || (e->file == file && e->va < va))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool covers(const struct entry *e, uint32_t file, uint64_t va)
{
	return e->file == file && (e->va == va || (e->rule && va >= e->rule->start && va < e->rule->end));
}

static struct entry *entry_find(const struct rules *r, uint32_t file, uint64_t va)
{
	size_t i = lower_bound(r, file, va);

	if (i < r->n && covers(r->entries[i], file, va))
		return r->entries[i];
	return i && covers(r->entries[i - 1], file, va) ? r->entries[i - 1] : NULL;
}

static void entry_drop(struct rules *r, struct entry *e)
{
	size_t i = lower_bound(r, e->file, e->va);

	memmove(&r->entries[i], &r->entries[i + 1], (--r->n - i) * sizeof *r->entries);
	entry_free(r, e);
}

/* Makes room for one more entry. False: what is there is needed. */
static bool make_room(struct rules *r)
{
	while (r->stats.bytes + RULE_ENTRY_BYTES > r->options.max_bytes) {
		struct entry *e = list_first(&r->idle);

		if (!e)
			return false;
		entry_drop(r, e);
	}
	return true;
}

static struct entry *entry_add(struct rules *r, uint32_t file, uint64_t va)
{
	struct entry *e;
	size_t i;

	if (!make_room(r) || array_reserve(&r->entries, &r->cap, r->n + 1, sizeof *r->entries) < 0)
		return NULL;
	if (!file_wait(r, file))
		return NULL;
	e = malloc(sizeof *e);
	if (!e)
		return NULL;
	*e = (struct entry){.file = file, .va = va, .state = WANTED, .serial = ++r->serial};
	link_init(&e->link);
	i = lower_bound(r, file, va);
	memmove(&r->entries[i + 1], &r->entries[i], (r->n++ - i) * sizeof *r->entries);
	r->entries[i] = e;
	r->stats.bytes += RULE_ENTRY_BYTES;
	return e;
}

void rules_walk_begin(struct rules *r, uint64_t now_ns)
{
	struct entry *e;

	r->now_ns = now_ns;
	r->refused = false;
	while ((e = list_first(&r->held)) && e->held_until_ns <= now_ns)
		entry_move(e, &r->idle);
}

static bool may_read(const struct rules *r, uint32_t file)
{
	const struct binary *b = binary_registry_get(r->options.binaries, file);

	return !b || !stuck_devices_has(&r->stuck, b->dev) ||
	       stuck_devices_may_try(&r->stuck, b->dev, r->now_ns);
}

/* What was counted when the entry got no answer no longer counts. */
static void entry_take_back(struct rules *r, struct entry *e)
{
	e->unanswered = false;
	r->stats.bytes += sizeof *e->rule;
	r->stats.none--;
	r->stats.failed--;
}

static void entry_request_again(struct rules *r, struct entry *e)
{
	if (!file_wait(r, e->file))
		return;
	entry_take_back(r, e);
	e->state = WANTED;
}

enum rules_answer rules_get(struct rules *r, uint32_t file, uint64_t va, const struct frame_rule **ret)
{
	struct entry *e = entry_find(r, file, va);

	if (!e)
		e = entry_add(r, file, va);
	else if (e->unanswered && may_read(r, file))
		entry_request_again(r, e);
	else if (e->state == WANTED) /* there was no memory for the file */
		(void)file_wait(r, file);
	if (!e) {
		r->refused = true;
		return RULES_FULL;
	}
	entry_move(e, &r->walk);
	*ret = e->rule;
	return e->state == FOUND ? RULES_FOUND : e->state == NONE ? RULES_NONE : RULES_PENDING;
}

static void job_run(struct worker_job *job)
{
	struct rules_job *j = container_of(job, struct rules_job, job);

	j->error = rule_job_run(j->fd, j->any_version ? NULL : &j->version, j->of_system, j->query, j->n);
}

static void entry_answer(struct rules *r, struct entry *e, int error, const struct frame_rule *rule)
{
	if (error == 0) {
		e->rule = malloc(sizeof *rule);
		error = e->rule ? 0 : -ENOMEM;
	}
	if (error == 0) {
		*e->rule = *rule;
		e->state = FOUND;
		r->stats.found++;
		return;
	}
	e->state = NONE;
	r->stats.bytes -= sizeof *rule;
	r->stats.none++;
	r->stats.failed += error != -ENOENT;
	e->unanswered = error == -ETIMEDOUT;
}

/* The job is no longer with the workers, or is stuck there. */
static void job_leave(struct rules_job *j)
{
	struct rules_file *f = TAKE_PTR(j->share);

	if (!f)
		return;
	fair_queue_end(&j->rules->waiting, &f->wait, clock_mono_ns());
	free(f);
}

static void job_free(struct rules_job *j)
{
	free(j->share);
	binary_registry_release(j->rules->options.binaries, j->file);
	close(j->fd);
	free(j);
}

static void dispatch(struct rules *r);

static void answers_enter(struct rules *r, const struct rules_job *j, int error)
{
	for (size_t i = 0; i < j->n; i++) {
		size_t at = lower_bound(r, j->file, j->query[i].va);
		struct entry *e = at < r->n ? r->entries[at] : NULL;

		if (!e || e->serial != j->serials[i])
			continue;
		if (e->unanswered) { /* the job was stuck */
			entry_take_back(r, e);
			e->state = REQUESTED;
		}
		if (e->state == REQUESTED)
			entry_answer(r, e, error ?: j->query[i].error, &j->query[i].rule);
	}
}

static void try_end(struct rules *r, struct rules_job *j, bool failed)
{
	if (j->tried)
		stuck_devices_try_end(&r->stuck, j->dev, failed);
	j->tried = false;
}

static void job_done(struct worker_job *job, bool cancelled)
{
	struct rules_job *j = container_of(job, struct rules_job, job);
	struct rules *r = j->rules;

	if (!cancelled) {
		job_leave(j);
		try_end(r, j, false);
		if (j->stuck && !job->costly)
			stuck_devices_remove(&r->stuck, j->dev);
		if (j->error == -ESTALE)
			(void)binary_registry_changed(r->options.binaries, j->file);
		(void)binary_registry_quarantine(r->options.binaries, j->file, BINARY_FOR_RULES, j->error);
		answers_enter(r, j, j->error);
		r->n_jobs -= !j->stuck;
		dispatch(r);
		r->options.ready(r->options.data);
	}
	job_free(j);
}

/* Its file system does not answer. Walks do without the rules, which may still come. */
static void job_overdue(struct worker_job *job)
{
	struct rules_job *j = container_of(job, struct rules_job, job);
	struct rules *r = j->rules;

	j->stuck = true;
	job_leave(j);
	try_end(r, j, true);
	if (!job->costly)
		stuck_devices_add(&r->stuck, j->dev, r->now_ns);
	answers_enter(r, j, -ETIMEDOUT);
	r->n_jobs--;
	dispatch(r);
	r->options.ready(r->options.data);
}

/*
 * A job for requests of one file. 0, or why it cannot be read: -EBADF, -ENOMEM, -ENOTRECOVERABLE (in
 * quarantine), -ETIMEDOUT (not now).
 */
static int job_new(struct rules_job **ret, struct rules *r, uint32_t file)
{
	const struct binary *b = binary_registry_get(r->options.binaries, file);
	bool stuck = b && stuck_devices_has(&r->stuck, b->dev);
	struct rules_job *j;

	*ret = NULL;
	if (!b || b->fd < 0)
		return -EBADF;
	if (b->quarantined & BINARY_FOR_RULES)
		return -ENOTRECOVERABLE;
	if (stuck && !stuck_devices_may_try(&r->stuck, b->dev, r->now_ns))
		return -ETIMEDOUT;
	j = malloc(sizeof *j);
	if (!j)
		return -ENOMEM;
	j->job =
		(struct worker_job){.run = job_run, .done = job_done, .overdue = job_overdue, .urgent = true};
	j->rules = r;
	j->share = NULL;
	j->file = file;
	j->dev = b->dev;
	j->stuck = false;
	j->tried = stuck;
	j->n = 0;
	j->version = b->version;
	j->any_version = !binary_version(b);
	j->of_system = b->of_system;
	j->fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 3);
	if (j->fd < 0) {
		free(j);
		return -EBADF;
	}
	(void)binary_registry_hold(r->options.binaries, file);
	*ret = j;
	return 0;
}

/* Puts requests of the file into the job; without one, answers them with the error. True: more are left. */
static bool requests_move(struct rules *r, uint32_t file, struct rules_job *j, int error)
{
	for (size_t i = lower_bound(r, file, 0); i < r->n && r->entries[i]->file == file; i++) {
		struct entry *e = r->entries[i];

		if (e->state != WANTED)
			continue;
		if (j && j->n == REQUESTS_MAX)
			return true;
		e->state = REQUESTED;
		if (!j) {
			entry_answer(r, e, error, NULL);
			continue;
		}
		j->serials[j->n] = e->serial;
		j->query[j->n++].va = e->va;
	}
	return false;
}

/* The workers' queue is full: the requests wait for the next dispatch. */
static void requests_return(struct rules *r, const struct rules_job *j)
{
	for (size_t i = 0; i < j->n; i++)
		r->entries[lower_bound(r, j->file, j->query[i].va)]->state = WANTED;
}

static bool has_requests(const struct rules *r, uint32_t file)
{
	for (size_t i = lower_bound(r, file, 0); i < r->n && r->entries[i]->file == file; i++)
		if (r->entries[i]->state == WANTED)
			return true;
	return false;
}

/* Makes a job of requests of the file, which does not wait any longer; takes it. 0; -ENOSPC: none for now. */
static int dispatch_file(struct rules *r, struct rules_file *f)
{
	struct rules_job *j;
	int error = job_new(&j, r, f->file);
	bool more = requests_move(r, f->file, j, error);

	if (!j) {
		free(f);
		r->options.ready(r->options.data);
		return 0;
	}
	if (worker_submit(r->options.worker, &j->job, WORKER_HIGH) < 0) {
		requests_return(r, j);
		(void)file_wait(r, f->file);
		free(f);
		job_free(j);
		return -ENOSPC;
	}
	fair_queue_begin(&r->waiting, &f->wait, clock_mono_ns());
	j->share = f;
	if (more)
		(void)file_wait(r, f->file);
	if (j->tried)
		stuck_devices_try_begin(&r->stuck, j->dev);
	r->n_jobs++;
	return 0;
}

static void dispatch(struct rules *r)
{
	struct fair_wait *w;

	while (r->n_jobs < JOBS_MAX && (w = fair_queue_next(&r->waiting, clock_mono_ns()))) {
		struct rules_file *f = file_take(r, container_of(w, struct rules_file, wait));

		if (!has_requests(r, f->file)) /* no walk needs them any longer */
			free(f);
		else if (dispatch_file(r, f) < 0)
			return;
	}
}

void rules_walk_end(struct rules *r, bool repeat)
{
	struct entry *e;

	r->stats.refused += r->refused;
	while ((e = list_first(&r->walk))) {
		bool held = e->held_until_ns > r->now_ns;

		if (repeat || held) { /* a walk that began earlier may still need it */
			e->held_until_ns = r->now_ns + RULES_HOLD_NS;
			entry_move(e, &r->held);
		} else if (e->state == WANTED) {
			entry_drop(r, e);
		} else {
			entry_move(e, &r->idle);
		}
	}
	dispatch(r);
}

void rules_forget(struct rules *r, uint32_t file)
{
	size_t first = lower_bound(r, file, 0), last = first;
	struct rules_file *f = file_find(r, file);

	if (f)
		free(file_take(r, f));
	while (last < r->n && r->entries[last]->file == file)
		entry_free(r, r->entries[last++]);
	if (first < last)
		memmove(&r->entries[first], &r->entries[last], (r->n - last) * sizeof *r->entries);
	r->n -= last - first;
}

void rules_stats(const struct rules *r, struct rules_stats *ret)
{
	*ret = r->stats;
}
