// SPDX-License-Identifier: Apache-2.0
/*
 * Every file is in the list `by_use`, the most recently used at the end. A file with collected addresses and
 * no job is also in `waiting`, unless its last job failed for lack of memory. When the cache exceeds its byte
 * budget, sweeps free memory, beginning with the least recently used file. A sweep frees the ranges that were
 * not looked up since the previous sweep (second chance), so that a large file keeps its frequently used
 * functions.
 */
#include "agent/symbol/symbol_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/proc/fair_queue.h"
#include "agent/symbol/batch.h"

#define KILLED_WAIT_NS (NS_PER_SEC / 10) /* before a file is read again whose process was killed; doubles */
#define KILLED_WAIT_MAX_NS (10 * NS_PER_SEC)
#define MEMORY_WAIT_NS NS_PER_SEC /* the same, of one that needs more memory than there is */
#define MEMORY_WAIT_MAX_NS (320 * NS_PER_SEC)

struct list_link {
	struct list_link *prev, *next; /* circular; NULL while in no list */
};

/* A file's names, and its addresses that wait for a job. */
struct cached_file {
	struct map_node node;
	struct list_link by_use;
	struct fair_wait wait;
	bool queued;  /* in `waiting` */
	bool working; /* its job counts as one of its tenant's */
	bool put_off; /* until symbol_cache_retry, not before: */
	uint64_t not_before_ns, wait_ns;
	bool harmful; /* to who reads it: it is not read again */
	uint32_t id;
	uint64_t job_serial; /* of the running job; 0: none */
	struct symbol_ranges ranges;
	uint64_t *wanted; /* owned; sorted, each once */
	size_t n_wanted, cap_wanted;
};

struct symbol_cache {
	struct map files;
	struct list_link by_use; /* head */
	struct fair_queue waiting;
	uint64_t (*tenant)(uint32_t file_id, void *data);
	void *tenant_data;
	size_t max_bytes;
	uint64_t last_serial;
	struct symbol_cache_stats stats;
};

DEFINE_CLEANUP(struct symbol_batch *, symbol_batch_free)

static void list_init(struct list_link *head)
{
	head->prev = head->next = head;
}

static void list_remove(struct list_link *l)
{
	if (!l->next)
		return;
	l->prev->next = l->next;
	l->next->prev = l->prev;
	l->prev = l->next = NULL;
}

static void list_append(struct list_link *head, struct list_link *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static bool file_is(const struct map_node *node, const void *key)
{
	return container_of(node, struct cached_file, node)->id == *(const uint32_t *)key;
}

/* NULL: the file is not in the cache. */
static struct cached_file *file_find(const struct symbol_cache *c, uint32_t id)
{
	struct map_node *node = map_find(&c->files, hash_u64(id), file_is, &id);

	return node ? container_of(node, struct cached_file, node) : NULL;
}

static int add_file(struct symbol_cache *c, uint32_t id, struct cached_file **ret)
{
	_cleanup_free_ struct cached_file *f = calloc(1, sizeof *f);
	int r;

	if (!f)
		return -ENOMEM;
	f->id = id;
	r = map_insert(&c->files, &f->node, hash_u64(id));
	if (r < 0)
		return r;
	list_append(&c->by_use, &f->by_use);
	*ret = TAKE_PTR(f);
	return 0;
}

/*
 * Adds the file's ranges to the statistics, or subtracts them. To be called before and after every change of
 * them.
 */
static void account(struct symbol_cache *c, const struct cached_file *f, bool add)
{
	size_t bytes = 0;

	for (size_t i = 0; i < f->ranges.n; i++)
		bytes += symbol_range_bytes(&f->ranges.v[i]);
	c->stats.bytes += add ? bytes : -bytes;
	c->stats.n_ranges += add ? f->ranges.n : -f->ranges.n;
}

static void queue_add(struct symbol_cache *c, struct cached_file *f)
{
	if (f->queued || f->put_off || f->job_serial || !f->n_wanted)
		return;
	fair_queue_add(&c->waiting, &f->wait, c->tenant ? c->tenant(f->id, c->tenant_data) : 0, true);
	f->queued = true;
}

static void queue_remove(struct symbol_cache *c, struct cached_file *f)
{
	if (f->queued)
		fair_queue_remove(&c->waiting, &f->wait);
	f->queued = false;
}

static void job_leave(struct symbol_cache *c, struct cached_file *f)
{
	if (f->working)
		fair_queue_end(&c->waiting, &f->wait, clock_mono_ns());
	f->working = false;
}

static void forget(struct symbol_cache *c, struct cached_file *f)
{
	account(c, f, false);
	c->stats.n_wanted -= f->n_wanted;
	map_remove(&c->files, &f->node);
	list_remove(&f->by_use);
	queue_remove(c, f);
	job_leave(c, f);
	symbol_ranges_fini(&f->ranges);
	free(f->wanted);
	free(f);
}

int symbol_cache_new(struct symbol_cache **ret, size_t max_bytes)
{
	struct symbol_cache *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	map_init(&c->files, SYMBOL_FILES_MAX);
	list_init(&c->by_use);
	fair_queue_init(&c->waiting, SYMBOL_JOBS_OF_A_TENANT);
	c->max_bytes = max_bytes;
	*ret = c;
	return 0;
}

void symbol_cache_free(struct symbol_cache *c)
{
	if (!c)
		return;
	while (c->by_use.next != &c->by_use)
		forget(c, container_of(c->by_use.next, struct cached_file, by_use));
	map_fini(&c->files);
	fair_queue_fini(&c->waiting);
	free(c);
}

void symbol_cache_on_tenant(struct symbol_cache *c, uint64_t (*tenant)(uint32_t file_id, void *data),
			    void *data)
{
	c->tenant = tenant;
	c->tenant_data = data;
}

void symbol_cache_on_held(struct symbol_cache *c,
			  uint64_t (*held_until_ns)(uint64_t tenant, const void *data), const void *data)
{
	fair_queue_on_held(&c->waiting, held_until_ns, data);
}

/* Makes `f` the most recently used file. */
static void touch(struct symbol_cache *c, struct cached_file *f)
{
	list_remove(&f->by_use);
	list_append(&c->by_use, &f->by_use);
}

bool symbol_cache_find(struct symbol_cache *c, uint32_t file_id, uint64_t va, struct symbol_name *ret)
{
	struct cached_file *f = file_find(c, file_id);
	struct symbol_range *x = f ? symbol_ranges_find(&f->ranges, va) : NULL;

	if (!x)
		return false;
	x->used = true;
	touch(c, f);
	ret->function = x->names;
	ret->system_name = x->system_name_at ? x->names + x->system_name_at : NULL;
	ret->lines = x->lines;
	ret->n_lines = x->n_lines;
	ret->unnamed = x->unnamed;
	ret->start = x->start;
	ret->end = x->end;
	return true;
}

static int wanted_insert(struct symbol_cache *c, struct cached_file *f, uint64_t va)
{
	size_t at = array_first_from(f->wanted, f->n_wanted, va);

	if (at < f->n_wanted && f->wanted[at] == va)
		return 0;
	if (f->n_wanted >= SYMBOL_WANTED_PER_FILE || c->stats.n_wanted >= SYMBOL_WANTED_MAX)
		return -ENOSPC;
	if (array_reserve(&f->wanted, &f->cap_wanted, f->n_wanted + 1, sizeof *f->wanted) < 0)
		return -ENOMEM;
	memmove(f->wanted + at + 1, f->wanted + at, (f->n_wanted - at) * sizeof *f->wanted);
	f->wanted[at] = va;
	f->n_wanted++;
	c->stats.n_wanted++;
	queue_add(c, f);
	return 0;
}

int symbol_cache_want(struct symbol_cache *c, uint32_t file_id, uint64_t va)
{
	struct cached_file *f = file_find(c, file_id);
	int r = va == UINT64_MAX ? -ENOSPC : 0; /* no range can contain this address */

	if (r >= 0 && !f)
		r = add_file(c, file_id, &f);
	if (r >= 0 && f->harmful) {
		c->stats.n_unreadable++;
		return 0;
	}
	if (r >= 0)
		r = wanted_insert(c, f, va);
	if (r < 0)
		c->stats.n_dropped++;
	return r;
}

bool symbol_cache_next_wanted(struct symbol_cache *c, uint32_t *ret_file_id)
{
	struct fair_wait *next = fair_queue_next(&c->waiting, clock_mono_ns());

	if (!next)
		return false;
	*ret_file_id = container_of(next, struct cached_file, wait)->id;
	return true;
}

void symbol_cache_retry(struct symbol_cache *c)
{
	const uint64_t now_ns = clock_mono_ns();

	for (struct list_link *l = c->by_use.next; l != &c->by_use; l = l->next) {
		struct cached_file *f = container_of(l, struct cached_file, by_use);

		if (f->not_before_ns > now_ns)
			continue;
		f->put_off = false;
		queue_add(c, f);
	}
}

/* Frees the ranges of `f` that were not looked up since the last sweep, and `f` if it is empty then. */
static void sweep(struct symbol_cache *c, struct cached_file *f)
{
	size_t n = 0;

	account(c, f, false);
	for (size_t i = 0; i < f->ranges.n; i++) {
		struct symbol_range *x = &f->ranges.v[i];

		if (x->used) {
			x->used = false;
			f->ranges.v[n++] = *x;
		} else {
			symbol_range_fini(x);
			c->stats.n_evicted++;
		}
	}
	symbol_ranges_truncate(&f->ranges, n);
	account(c, f, true);
	if (!n && !f->n_wanted && !f->job_serial && !f->harmful)
		forget(c, f);
}

/*
 * Sweeps until the budget is met. The first round clears the `used` marks, so the second can free any range.
 */
static void evict_to_budget(struct symbol_cache *c)
{
	for (int round = 0; round < 2; round++)
		for (struct list_link *l = c->by_use.next, *next; l != &c->by_use; l = next) {
			next = l->next;
			if (c->stats.bytes <= c->max_bytes)
				return;
			sweep(c, container_of(l, struct cached_file, by_use));
		}
}

static int add_ranges(struct symbol_cache *c, struct cached_file *f, struct symbol_ranges *ranges)
{
	int r;

	account(c, f, false);
	r = symbol_ranges_merge(&f->ranges, ranges);
	touch(c, f);
	account(c, f, true);
	return r;
}

static void take_wanted(struct symbol_cache *c, struct cached_file *f, struct symbol_batch *b)
{
	b->n_addrs = f->n_wanted;
	b->addrs = TAKE_PTR(f->wanted);
	c->stats.n_wanted -= f->n_wanted;
	f->n_wanted = f->cap_wanted = 0;
	queue_remove(c, f);
}

static int batch_new(struct symbol_batch **ret, uint32_t file_id)
{
	struct symbol_batch *b = calloc(1, sizeof *b);

	if (!b)
		return -ENOMEM;
	b->file_id = file_id;
	b->fd = b->debug_fd = -1;
	b->status = -ECANCELED;
	*ret = b;
	return 0;
}

void symbol_cache_give_up(struct symbol_cache *c, uint32_t file_id)
{
	_cleanup_(symbol_batch_free_p) struct symbol_batch *b = NULL;
	struct cached_file *f = file_find(c, file_id);

	if (!f || !f->n_wanted)
		return;
	queue_remove(c, f);
	if (batch_new(&b, file_id) < 0) {
		/* cannot be recorded without memory: the addresses will be collected and tried again */
		c->stats.n_dropped += f->n_wanted;
		c->stats.n_wanted -= f->n_wanted;
		f->n_wanted = 0;
		return;
	}
	take_wanted(c, f, b);
	if (symbol_batch_answer_none(b) < 0 || add_ranges(c, f, &b->ranges) < 0)
		c->stats.n_dropped += b->n_addrs;
	else
		c->stats.n_unreadable += b->n_addrs;
	evict_to_budget(c);
}

static void job_run(struct worker_job *work)
{
	symbol_batch_run(container_of(work, struct symbol_job, work)->batch);
}

static void job_done(struct worker_job *work, bool cancelled)
{
	struct symbol_job *job = container_of(work, struct symbol_job, work);

	(void)cancelled; /* the batch's status is -ECANCELED then */
	symbol_cache_complete(job->cache, job);
}

static int copy_files(struct symbol_batch *b, const struct symbol_files *files)
{
	b->fd = fcntl(files->fd, F_DUPFD_CLOEXEC, 0);
	if (b->fd < 0)
		return -errno;
	b->source_lines = files->source_lines;
	b->any_version = !files->version;
	b->any_debug_version = !files->debug_version;
	if (files->version)
		b->version = *files->version;
	if (files->debug_version)
		b->debug_version = *files->debug_version;
	if (files->debug_fd < 0)
		return 0;
	b->debug_delta = files->debug_delta;
	b->of_system = files->of_system;
	b->debug_fd = fcntl(files->debug_fd, F_DUPFD_CLOEXEC, 0);
	return b->debug_fd < 0 ? -errno : 0;
}

int symbol_job_new(struct symbol_job **ret, struct symbol_cache *c, uint32_t file_id,
		   const struct symbol_files *files)
{
	_cleanup_(symbol_batch_free_p) struct symbol_batch *b = NULL;
	_cleanup_free_ struct symbol_job *job = NULL;
	struct cached_file *f = file_find(c, file_id);
	int r;

	if (f && f->job_serial)
		return -EBUSY;
	if (!f || !f->n_wanted)
		return -ENOENT;
	r = batch_new(&b, file_id);
	if (r < 0)
		return r;
	job = calloc(1, sizeof *job);
	if (!job)
		return -ENOMEM;
	r = copy_files(b, files);
	if (r < 0)
		return r;
	b->serial = f->job_serial = ++c->last_serial;
	take_wanted(c, f, b);
	fair_queue_begin(&c->waiting, &f->wait, clock_mono_ns());
	f->working = true;
	c->stats.n_in_jobs += b->n_addrs;
	*job = (struct symbol_job){
		.work = {.run = job_run, .done = job_done}, .cache = c, .batch = TAKE_PTR(b)};
	*ret = TAKE_PTR(job);
	return 0;
}

/* Drops collected addresses that the ranges cover by now, and queues the file for the remaining ones. */
static void settle_wanted(struct symbol_cache *c, struct cached_file *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_wanted; i++)
		if (!symbol_ranges_find(&f->ranges, f->wanted[i]))
			f->wanted[n++] = f->wanted[i];
	c->stats.n_wanted -= f->n_wanted - n;
	f->n_wanted = n;
	queue_add(c, f);
}

/* Says when the file may be read again. */
static void note_outcome(struct symbol_cache *c, struct cached_file *f, int status)
{
	const bool memory = status == -ENOMEM;
	const uint64_t max_ns = memory ? MEMORY_WAIT_MAX_NS : KILLED_WAIT_MAX_NS;

	f->put_off = memory || status == -EAGAIN;
	if (f->put_off) {
		f->wait_ns = f->wait_ns ? f->wait_ns * 2 : memory ? MEMORY_WAIT_NS : KILLED_WAIT_NS;
		f->wait_ns = f->wait_ns < max_ns ? f->wait_ns : max_ns;
		f->not_before_ns = clock_mono_ns() + f->wait_ns;
	} else if (status != -ECANCELED) {
		f->wait_ns = f->not_before_ns = 0;
	}
	f->harmful |= status == -ENOTRECOVERABLE || status == -ETIME || status == -EBADMSG;
	if (!f->harmful)
		return;
	c->stats.n_unreadable += f->n_wanted;
	c->stats.n_wanted -= f->n_wanted;
	f->n_wanted = 0;
}

static bool did_not_run(int status)
{
	return status == -ECANCELED || status == -ENOMEM || status == -EAGAIN;
}

static void want_again(struct symbol_cache *c, const struct symbol_batch *b)
{
	for (size_t i = 0; i < b->n_addrs; i++)
		symbol_cache_want(c, b->file_id,
				  b->addrs[i]); /* counts the addresses for which there is no room */
}

bool symbol_cache_expects(const struct symbol_cache *c, const struct symbol_job *job)
{
	const struct cached_file *f = file_find(c, job->batch->file_id);

	return f && f->job_serial == job->batch->serial;
}

void symbol_cache_complete(struct symbol_cache *c, struct symbol_job *job)
{
	_cleanup_(symbol_batch_free_p) struct symbol_batch *b = job->batch;
	struct cached_file *f = file_find(c, b->file_id);

	free(job);
	c->stats.n_in_jobs -= b->n_addrs;
	c->stats.n_lines_left += b->n_lines_left;
	if (!f || f->job_serial != b->serial) {
		c->stats.n_stale++;
		return;
	}
	job_leave(c, f);
	f->job_serial = 0;
	note_outcome(c, f, b->status);
	if (did_not_run(b->status) || add_ranges(c, f, &b->ranges) < 0)
		want_again(c, b);
	else if (b->status < 0)
		c->stats.n_unreadable += b->n_addrs;
	if (b->status == -ESTALE)
		c->stats.n_changed += b->n_addrs;
	settle_wanted(c, f);
	evict_to_budget(c);
}

void symbol_cache_overdue(struct symbol_cache *c, const struct symbol_job *job)
{
	struct cached_file *f = file_find(c, job->batch->file_id);

	if (symbol_cache_expects(c, job))
		job_leave(c, f);
}

void symbol_cache_forget(struct symbol_cache *c, uint32_t file_id)
{
	struct cached_file *f = file_find(c, file_id);

	if (f)
		forget(c, f);
}

void symbol_cache_get_stats(const struct symbol_cache *c, struct symbol_cache_stats *ret)
{
	*ret = c->stats;
	ret->n_files = c->files.len;
}
