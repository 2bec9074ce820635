// SPDX-License-Identifier: Apache-2.0
/* The way of collected addresses to a worker thread and back. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/symbol/resolve_private.h"

DEFINE_CLEANUP(struct symbol_batch *, symbol_batch_free)

static int add_ranges(struct symbol_cache *c, struct symbol_file *f, struct symbol_ranges *ranges)
{
	int r;

	symbol_cache_account(c, f, false);
	r = symbol_ranges_merge(&f->ranges, ranges);
	symbol_cache_touch(c, f);
	symbol_cache_account(c, f, true);
	return r;
}

static void take_wanted(struct symbol_cache *c, struct symbol_file *f, struct symbol_batch *b)
{
	b->n_addrs = f->n_wanted;
	b->addrs = TAKE_PTR(f->wanted);
	c->stats.n_wanted -= f->n_wanted;
	f->n_wanted = f->cap_wanted = 0;
	symbol_link_remove(&f->queue);
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
	struct symbol_file *f = symbol_cache_file(c, file_id);

	if (!f || !f->n_wanted)
		return;
	symbol_link_remove(&f->queue);
	if (batch_new(&b, file_id) < 0) {
		/* no memory to remember it: asked for again, tried again */
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
	symbol_cache_keep_budget(c);
}

static void job_run(struct worker_job *work)
{
	symbol_batch_run(container_of(work, struct symbol_job, work)->batch);
}

static void job_done(struct worker_job *work, bool cancelled)
{
	struct symbol_job *job = container_of(work, struct symbol_job, work);

	(void)cancelled; /* the batch's status says it */
	symbol_cache_complete(job->cache, job);
}

static int copy_files(struct symbol_batch *b, const struct symbol_files *files)
{
	b->fd = fcntl(files->fd, F_DUPFD_CLOEXEC, 0);
	if (b->fd < 0)
		return -errno;
	b->source_lines = files->source_lines;
	if (files->debug_fd < 0)
		return 0;
	b->debug_delta = files->debug_delta;
	b->debug_fd = fcntl(files->debug_fd, F_DUPFD_CLOEXEC, 0);
	return b->debug_fd < 0 ? -errno : 0;
}

int symbol_job_new(struct symbol_job **ret, struct symbol_cache *c, uint32_t file_id,
		   const struct symbol_files *files)
{
	_cleanup_(symbol_batch_free_p) struct symbol_batch *b = NULL;
	_cleanup_free_ struct symbol_job *job = NULL;
	struct symbol_file *f = symbol_cache_file(c, file_id);
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
	c->stats.n_in_jobs += b->n_addrs;
	*job = (struct symbol_job){
		.work = {.run = job_run, .done = job_done}, .cache = c, .batch = TAKE_PTR(b)};
	*ret = TAKE_PTR(job);
	return 0;
}

/* Drops collected addresses that the ranges answer by now, and queues the file for the others. */
static void settle_wanted(struct symbol_cache *c, struct symbol_file *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_wanted; i++)
		if (!symbol_ranges_find(&f->ranges, f->wanted[i]))
			f->wanted[n++] = f->wanted[i];
	c->stats.n_wanted -= f->n_wanted - n;
	f->n_wanted = n;
	if (n && !f->queue.next)
		symbol_link_append(&c->queue, &f->queue);
}

static void want_again(struct symbol_cache *c, const struct symbol_batch *b)
{
	for (size_t i = 0; i < b->n_addrs; i++)
		symbol_cache_want(c, b->file_id, b->addrs[i]); /* counts what does not fit */
}

void symbol_cache_complete(struct symbol_cache *c, struct symbol_job *job)
{
	_cleanup_(symbol_batch_free_p) struct symbol_batch *b = job->batch;
	struct symbol_file *f = symbol_cache_file(c, b->file_id);

	free(job);
	c->stats.n_in_jobs -= b->n_addrs;
	c->stats.n_lines_left += b->n_lines_left;
	if (!f || f->job_serial != b->serial) {
		c->stats.n_stale++;
		return;
	}
	f->job_serial = 0;
	if (b->status == -ECANCELED || b->status == -ENOMEM || add_ranges(c, f, &b->ranges) < 0)
		want_again(c, b);
	else if (b->status < 0)
		c->stats.n_unreadable += b->n_addrs;
	settle_wanted(c, f);
	symbol_cache_keep_budget(c);
}
