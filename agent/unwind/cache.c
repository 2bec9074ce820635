// SPDX-License-Identifier: Apache-2.0
/*
 * files[] is indexed by file index; keys find an index by inode or by build id. A table that goes is first
 * taken out of the file, so that the next published mapping lists do not name it, and retired after that
 * publication.
 */
#include "agent/unwind/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/proc/root.h"
#include "agent/unwind/build.h"
#include "agent/unwind/file.h"
#include "agent/unwind/keys.h"
#include "bpf/abi.h"

#define EVICTED_REST_NS (5 * NS_PER_SEC) /* tables that fight for room do so at this pace */

struct unwind_cache {
	struct arena *arena;
	struct worker *worker;
	void (*ready)(void *data);
	void *data;
	struct unwind_file **files; /* [1 .. max_files] */
	uint32_t max_files, n_files, next_index;
	uint32_t top; /* no index above it was ever used */
	uint32_t change;
	struct file_keys keys;
	size_t n_waiting, n_building, n_stuck;
	struct arena_block *leaving; /* out of every new list, retired after the next publication */
	size_t n_leaving, cap_leaving;
	struct build_job *no_room; /* finished, but the arena was full */
	struct unwind_cache_stats stats;
};

int unwind_cache_new(struct unwind_cache **ret, struct arena *arena, struct worker *worker,
		     uint32_t max_files, void (*ready)(void *data), void *data)
{
	struct unwind_cache *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	if (max_files > FRAME_FILE_MAX)
		max_files = FRAME_FILE_MAX;
	*c = (struct unwind_cache){.arena = arena, .worker = worker, .ready = ready, .data = data};
	c->max_files = max_files;
	c->files = calloc(max_files + 1, sizeof(void *));
	if (!c->files) {
		free(c);
		return -ENOMEM;
	}
	file_keys_init(&c->keys, (size_t)max_files * 4);
	*ret = c;
	return 0;
}

void unwind_cache_free(struct unwind_cache *c)
{
	if (!c)
		return;
	file_keys_fini(&c->keys);
	for (uint32_t i = 1; i <= c->max_files; i++)
		unwind_file_free(c->files[i]);
	build_job_free(c->no_room);
	free(c->leaving);
	free(c->files);
	free(c);
}

static uint32_t free_index(struct unwind_cache *c)
{
	for (uint32_t i = 0; i < c->max_files; i++) {
		c->next_index = c->next_index % c->max_files + 1;
		if (!c->files[c->next_index])
			return c->next_index;
	}
	return 0;
}

/* Puts a new file in, or finds that the same content is here under another inode. Returns its index, 0: no
 * room. */
static uint32_t file_enter(struct unwind_cache *c, struct unwind_file *f, uint64_t size)
{
	const char *id = f->module.build_id_gnu;
	uint32_t same = id ? file_keys_find_id(&c->keys, id) : 0, index;

	if (same && c->files[same]->size == size) {
		unwind_file_free(f);
		return same;
	}
	index = c->n_files < c->max_files ? free_index(c) : 0;
	if (!index) {
		c->stats.full++;
		unwind_file_free(f);
		return 0;
	}
	f->index = f->module.id = index;
	c->files[index] = f;
	if (index > c->top)
		c->top = index;
	c->n_files++;
	c->n_waiting++;
	if (id && !same)
		file_keys_add_id(&c->keys, id, index);
	return index;
}

uint32_t unwind_cache_known(const struct unwind_cache *c, const struct stat *st)
{
	return file_keys_find(&c->keys, st);
}

int unwind_cache_enter(struct unwind_cache *c, struct unwind_file *f, const struct stat *st, uint32_t *ret)
{
	uint32_t index = file_enter(c, f, (uint64_t)st->st_size);

	if (!index)
		return -ENFILE;
	file_keys_add(&c->keys, st, index);
	*ret = index;
	return 0;
}

int unwind_cache_add(struct unwind_cache *c, int fd, const struct stat *st, const char *path, uint32_t *ret)
{
	uint32_t index = unwind_cache_known(c, st);
	struct unwind_file *f;
	int r;

	if (index) {
		close(fd);
		*ret = index;
		return 0;
	}
	r = unwind_file_new(&f, fd, st, path);
	if (r < 0) {
		close(fd);
		return r;
	}
	return unwind_cache_enter(c, f, st, ret);
}

bool unwind_cache_wants_root(const struct unwind_cache *c, uint32_t index)
{
	const struct unwind_file *f = unwind_cache_file(c, index);

	return f && f->state == TABLE_WAITING && !f->searched && !f->root && f->n_segments;
}

void unwind_cache_set_root(struct unwind_cache *c, uint32_t index, struct proc_root *root)
{
	if (unwind_cache_wants_root(c, index))
		c->files[index]->root = proc_root_ref(root);
}

uint32_t unwind_cache_find(const struct unwind_cache *c, const char *build_id)
{
	return file_keys_find_id(&c->keys, build_id);
}

uint32_t unwind_cache_find_inode(const struct unwind_cache *c, dev_t dev, uint64_t inode)
{
	return file_keys_find_inode(&c->keys, dev, inode);
}

struct unwind_file *unwind_cache_file(const struct unwind_cache *c, uint32_t index)
{
	return index && index <= c->max_files ? c->files[index] : NULL;
}

void unwind_cache_touch(struct unwind_cache *c, uint32_t index, uint64_t now_ns)
{
	struct unwind_file *f = unwind_cache_file(c, index);

	if (!f)
		return;
	f->last_used_ns = now_ns;
	if (f->state == TABLE_EVICTED && now_ns - f->evicted_ns > EVICTED_REST_NS) {
		f->state = TABLE_WAITING;
		c->n_waiting++;
	}
	f->urgent = true;
}

uint32_t unwind_cache_change(const struct unwind_cache *c)
{
	return c->change;
}

static void changed(struct unwind_cache *c, struct unwind_file *f)
{
	f->change = ++c->change;
}

/* Takes the table out of the file; its blocks wait for the publication. */
static void table_drop(struct unwind_cache *c, struct unwind_file *f)
{
	if (c->n_leaving + f->n_placed > c->cap_leaving) {
		size_t cap = (c->n_leaving + f->n_placed) * 2;
		struct arena_block *more = realloc(c->leaving, cap * sizeof *more);

		if (!more)
			return; /* the table stays; better than blocks that nobody owns */
		c->leaving = more;
		c->cap_leaving = cap;
	}
	for (size_t i = 0; i < f->n_placed; i++) {
		c->leaving[c->n_leaving++] = f->placed[i].block;
		c->stats.table_bytes -= f->placed[i].block.len;
	}
	c->stats.rows -= f->n_rows;
	c->stats.ready--;
	free(f->placed);
	f->placed = NULL;
	f->n_placed = 0;
	changed(c, f);
}

/* Would the arena have `bytes` if every table went? */
static bool can_make_room(const struct unwind_cache *c, size_t bytes)
{
	struct arena_stats s;

	arena_stats(c->arena, &s);
	return bytes + s.used_bytes + PROCESS_TABLE_BYTES <= s.max_bytes + c->stats.table_bytes;
}

/* Drops the tables unused for longest until `bytes` of them have gone. False when there are none, or too few.
 */
static bool evict(struct unwind_cache *c, size_t bytes)
{
	size_t before = c->stats.table_bytes;

	if (!can_make_room(c, bytes))
		return false;
	while (before - c->stats.table_bytes < bytes) {
		struct unwind_file *oldest = NULL;

		for (uint32_t i = 1; i <= c->top; i++) {
			struct unwind_file *f = c->files[i];

			if (f && f->state == TABLE_READY && f->n_placed &&
			    (!oldest || f->last_used_ns < oldest->last_used_ns))
				oldest = f;
		}
		if (!oldest)
			return before != c->stats.table_bytes;
		table_drop(c, oldest);
		if (oldest->n_placed)
			return false;
		oldest->state = TABLE_EVICTED;
		oldest->evicted_ns = clock_mono_ns();
		c->stats.evicted++;
	}
	return true;
}

static int block_copy(struct unwind_cache *c, const struct unwind_block *b, struct unwind_placed *ret)
{
	int r = arena_alloc(c->arena, b->len, &ret->block);
	uint8_t *mem;

	if (r < 0)
		return r;
	mem = arena_at(c->arena, ret->block.ref);
	memcpy(mem, b->bytes, b->len);
	unwind_block_place(mem, (ret->block.ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN);
	ret->va = b->va;
	ret->end = b->end;
	return 0;
}

/* Copies the blocks into the arena: all of them, or none. 0, -ENOSPC, -errno. */
static int table_place(struct unwind_cache *c, struct unwind_file *f, const struct unwind_blocks *blocks)
{
	_cleanup_free_ struct unwind_placed *placed = calloc(blocks->n ?: 1, sizeof *placed);
	size_t i;
	int r = placed ? 0 : -ENOMEM;

	for (i = 0; i < blocks->n && r == 0; i++)
		r = block_copy(c, &blocks->blocks[i], &placed[i]);
	if (r < 0) {
		for (size_t k = 0; placed && k < i; k++)
			arena_retire(c->arena, placed[k].block);
		return r;
	}
	f->n_placed = blocks->n;
	f->placed = TAKE_PTR(placed);
	for (i = 0; i < f->n_placed; i++)
		c->stats.table_bytes += f->placed[i].block.len;
	c->stats.rows += f->n_rows;
	c->stats.ready++;
	return 0;
}

/* The search is over, whatever it found; what was found is wanted again when the table was evicted. */
static void debug_finish(struct unwind_cache *c, struct unwind_file *f, struct build_job *j)
{
	proc_root_unref(TAKE_PTR(f->root));
	f->searched = true;
	if (f->names_fd < 0 && j->names.fd >= 0) {
		f->names_fd = TAKE_FD(j->names.fd);
		f->names_delta = j->names.delta;
		c->stats.names_files++;
	}
	if (f->debug_fd >= 0 || j->debug.fd < 0)
		return;
	f->debug_fd = TAKE_FD(j->debug.fd);
	c->stats.debug_files++;
}

static void table_finish(struct unwind_cache *c, struct unwind_file *f, struct build_job *j, bool may_evict)
{
	int r = j->error;

	debug_finish(c, f, j);
	f->n_rows = j->n_rows;
	f->build_ns = j->build_ns;
	if (j->htlhash[0] && !f->module.htlhash)
		f->module.htlhash = strdup(j->htlhash);
	if (r == 0)
		r = table_place(c, f, &j->blocks);
	if (r == -ENOSPC && may_evict && !c->no_room && evict(c, j->blocks.bytes)) {
		c->no_room = j; /* tried again when the evicted blocks are free */
		c->ready(c->data);
		return;
	}
	f->state = r == 0	   ? TABLE_READY
		   : r == -ENODATA ? TABLE_NONE
		   : r == -ENOSPC  ? TABLE_EVICTED
				   : TABLE_FAILED;
	if (f->state == TABLE_EVICTED)
		f->evicted_ns = clock_mono_ns();
	c->n_building--;
	c->stats.built += r == 0;
	c->stats.failed += f->state == TABLE_FAILED;
	c->stats.build_ns += j->build_ns;
	c->stats.skipped_fdes += j->n_skipped;
	build_job_free(j);
	changed(c, f);
	c->ready(c->data); /* also when there is none: mappings say so then, and nobody waits */
}

/* Reading it takes too long. Whoever waits is told that there is no table; it may still come. */
static void build_overdue(struct worker_job *job)
{
	struct build_job *j = container_of(job, struct build_job, job);
	struct unwind_cache *c = j->owner;
	struct unwind_file *f = c->files[j->file];

	f->state = TABLE_FAILED;
	f->stuck = true;
	c->n_building--;
	c->n_stuck++;
	c->stats.overdue++;
	c->stats.overdue_file = f->index;
	changed(c, f);
	c->ready(c->data);
}

/* The file system of one that is stuck answers again: so may the others there. */
static void unstick(struct unwind_cache *c, struct unwind_file *f)
{
	f->stuck = false;
	f->state = TABLE_BUILDING;
	c->n_building++;
	c->n_stuck--;
	for (uint32_t i = 1; i <= c->top; i++) {
		struct unwind_file *other = c->files[i];

		if (!other || !other->put_off || other->dev != f->dev)
			continue;
		other->put_off = false;
		other->state = TABLE_WAITING;
		c->n_waiting++;
	}
}

static void build_done(struct worker_job *job, bool cancelled)
{
	struct build_job *j = container_of(job, struct build_job, job);
	struct unwind_cache *c = j->owner;

	if (cancelled) {
		build_job_free(j);
		return;
	}
	if (c->files[j->file]->stuck)
		unstick(c, c->files[j->file]);
	table_finish(c, c->files[j->file], j, true);
}

void unwind_cache_retry(struct unwind_cache *c)
{
	struct build_job *j = TAKE_PTR(c->no_room);

	if (j)
		table_finish(c, c->files[j->file], j, false);
}

/* The file to build next: what samples wait for, else the lowest index. */
static struct unwind_file *next_waiting(const struct unwind_cache *c)
{
	struct unwind_file *first = NULL;

	for (uint32_t i = 1; i <= c->top; i++) {
		struct unwind_file *f = c->files[i];

		if (!f || f->state != TABLE_WAITING)
			continue;
		if (f->urgent)
			return f;
		if (!first)
			first = f;
	}
	return first;
}

/* One file system that does not answer is not to take a thread for each of its files. */
static bool is_dead(const struct unwind_cache *c, dev_t dev)
{
	for (uint32_t i = 1; i <= c->top && c->n_stuck; i++)
		if (c->files[i] && c->files[i]->stuck && c->files[i]->dev == dev)
			return true;
	return false;
}

void unwind_cache_pump(struct unwind_cache *c)
{
	while (c->n_waiting && c->n_building < UNWIND_JOBS_MAX) {
		struct unwind_file *f = next_waiting(c);
		struct build_job *j;

		c->n_waiting--;
		f->put_off = is_dead(c, f->dev);
		c->stats.put_off += f->put_off;
		if (f->put_off || f->fd < 0 || build_job_new(&j, f, c, build_done, build_overdue) < 0) {
			f->state = TABLE_FAILED;
			changed(c, f);
			c->stats.failed++;
			continue;
		}
		if (worker_submit(c->worker, &j->job, f->urgent ? WORKER_HIGH : WORKER_LOW) < 0) {
			build_job_free(j);
			c->n_waiting++;
			return;
		}
		f->state = TABLE_BUILDING;
		c->n_building++;
	}
}

void unwind_cache_published(struct unwind_cache *c)
{
	for (size_t i = 0; i < c->n_leaving; i++)
		arena_retire(c->arena, c->leaving[i]);
	c->n_leaving = 0;
}

size_t unwind_cache_pending(const struct unwind_cache *c)
{
	return c->n_waiting + c->n_building;
}

void unwind_cache_sweep(struct unwind_cache *c, const uint8_t *used, uint64_t before_ns,
			void (*fn)(uint32_t index, void *data), void *data)
{
	for (uint32_t i = 1; i <= c->top; i++) {
		struct unwind_file *f = c->files[i];

		if (!f || used[i] || f->last_used_ns >= before_ns || f->state == TABLE_BUILDING || f->stuck)
			continue;
		fn(i, data);
		file_keys_forget(&c->keys, i);
		c->n_waiting -= f->state == TABLE_WAITING;
		if (f->state == TABLE_READY)
			table_drop(c, f);
		unwind_file_free(f);
		c->files[i] = NULL;
		c->n_files--;
	}
}

void unwind_cache_stats(const struct unwind_cache *c, struct unwind_cache_stats *ret)
{
	*ret = c->stats;
	ret->files = c->n_files;
}
