// SPDX-License-Identifier: Apache-2.0
/*
 * files[] is indexed by file index; keys find an index by inode or by build id, several keys may lead to one
 * file (the same library in many container images). A table that goes is first taken out of the file, so that
 * the next published mapping lists do not name it, and retired after that publication.
 */
#include "agent/unwind/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/map.h"
#include "agent/base/worker.h"
#include "agent/proc/root.h"
#include "agent/unwind/build.h"
#include "agent/unwind/file.h"
#include "bpf/abi.h"

#define EVICTED_REST_NS (5 * NS_PER_SEC) /* tables that fight for room do so at this pace */

struct file_key {
	struct map_node node;
	bool by_build_id;
	uint64_t dev, inode, size;
	struct timespec mtime;
	const char *build_id; /* the file's own string */
	uint32_t index;
};

struct unwind_cache {
	struct arena *arena;
	struct worker *worker;
	void (*ready)(void *data);
	void *data;
	struct unwind_file **files; /* [1 .. max_files] */
	uint32_t max_files, n_files, next_index;
	uint32_t top; /* no index above it was ever used */
	uint32_t change;
	struct map keys;
	size_t n_waiting, n_building;
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
	map_init(&c->keys, (size_t)max_files * 4);
	*ret = c;
	return 0;
}

void unwind_cache_free(struct unwind_cache *c)
{
	struct map_node *n;

	if (!c)
		return;
	map_for_each (&c->keys, n, it)
		free(container_of(n, struct file_key, node));
	map_fini(&c->keys);
	for (uint32_t i = 1; i <= c->max_files; i++)
		unwind_file_free(c->files[i]);
	build_job_free(c->no_room);
	free(c->leaving);
	free(c->files);
	free(c);
}

static uint64_t key_hash(const struct file_key *k)
{
	if (k->by_build_id)
		return hash_bytes(k->build_id, strlen(k->build_id));
	return hash_u64(k->inode ^ hash_u64(k->dev)) ^ hash_u64(k->size ^ (uint64_t)k->mtime.tv_nsec);
}

static bool key_is(const struct map_node *node, const void *key)
{
	const struct file_key *a = container_of(node, struct file_key, node), *b = key;

	if (a->by_build_id != b->by_build_id)
		return false;
	if (a->by_build_id)
		return strcmp(a->build_id, b->build_id) == 0;
	return a->inode == b->inode && a->size == b->size && a->dev == b->dev &&
	       a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec;
}

static uint32_t key_find(const struct unwind_cache *c, const struct file_key *k)
{
	struct map_node *n = map_find(&c->keys, key_hash(k), key_is, k);

	return n ? container_of(n, struct file_key, node)->index : 0;
}

/* A key that finds no room costs a second reading of the file some day, no more. */
static void key_add(struct unwind_cache *c, struct file_key k, uint32_t index)
{
	struct file_key *copy = malloc(sizeof *copy);

	if (!copy)
		return;
	*copy = k;
	copy->index = index;
	if (map_insert(&c->keys, &copy->node, key_hash(&k)) < 0)
		free(copy);
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
	struct file_key k = {.by_build_id = true, .build_id = f->module.build_id_gnu};
	uint32_t same = k.build_id ? key_find(c, &k) : 0, index;

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
	if (k.build_id && !same)
		key_add(c, k, index);
	return index;
}

int unwind_cache_add(struct unwind_cache *c, int fd, const struct stat *st, const char *path, uint32_t *ret)
{
	struct file_key k = {
		.dev = st->st_dev, .inode = st->st_ino, .size = (uint64_t)st->st_size, .mtime = st->st_mtim};
	uint32_t index = key_find(c, &k);
	struct unwind_file *f;
	int r;

	if (index) {
		close(fd);
		*ret = index;
		return 0;
	}
	r = unwind_file_new(&f, fd, path, k.size);
	if (r < 0) {
		close(fd);
		return r;
	}
	index = file_enter(c, f, k.size);
	if (!index)
		return -ENFILE;
	key_add(c, k, index);
	*ret = index;
	return 0;
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
	struct file_key k = {.by_build_id = true, .build_id = build_id};

	return key_find(c, &k);
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

static void build_done(struct worker_job *job, bool cancelled)
{
	struct build_job *j = container_of(job, struct build_job, job);
	struct unwind_cache *c = j->owner;

	if (cancelled)
		build_job_free(j);
	else
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

void unwind_cache_pump(struct unwind_cache *c)
{
	while (c->n_waiting && c->n_building < UNWIND_JOBS_MAX) {
		struct unwind_file *f = next_waiting(c);
		struct build_job *j;

		c->n_waiting--;
		if (f->fd < 0 || build_job_new(&j, f, c, build_done) < 0) {
			f->state = TABLE_FAILED;
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

static void keys_forget(struct unwind_cache *c, uint32_t index)
{
	struct map_node *n;

	map_for_each (&c->keys, n, it) {
		struct file_key *k = container_of(n, struct file_key, node);

		if (k->index == index) {
			map_remove(&c->keys, n);
			free(k);
		}
	}
}

void unwind_cache_sweep(struct unwind_cache *c, const uint8_t *used, uint64_t before_ns,
			void (*fn)(uint32_t index, void *data), void *data)
{
	for (uint32_t i = 1; i <= c->top; i++) {
		struct unwind_file *f = c->files[i];

		if (!f || used[i] || f->last_used_ns >= before_ns || f->state == TABLE_BUILDING)
			continue;
		fn(i, data);
		keys_forget(c, i);
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
