// SPDX-License-Identifier: Apache-2.0
/*
 * tables[] is indexed by the binary's index. Tables leave in one place, table_drop: out of their entry, out
 * of every published list, and then their blocks are retired. Nothing can come between these three.
 */
#include "agent/unwind/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/unwind/build.h"
#include "bpf/abi.h"

#define EVICTED_REST_NS (5 * NS_PER_SEC) /* tables that fight for room do so at this pace */

struct unwind_tables {
	struct binary_registry *binaries;
	struct arena *arena;
	struct worker *worker;
	void (*ready)(void *data);
	void *data;
	struct binary_table *tables; /* [1 .. max] */
	uint32_t max;
	uint32_t top; /* no index above it was ever used */
	uint32_t change;
	size_t n_waiting, n_building, n_stuck;
	void (*withdraw)(uint32_t binary, void *data); /* out of what is published */
	void *withdraw_data;
	struct build_job *no_room; /* finished, but the arena was full */
	struct unwind_tables_stats stats;
};

int unwind_tables_new(struct unwind_tables **ret, struct binary_registry *binaries, struct arena *arena,
		      struct worker *worker, void (*ready)(void *data), void *data)
{
	struct unwind_tables *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	*c = (struct unwind_tables){
		.binaries = binaries, .arena = arena, .worker = worker, .ready = ready, .data = data};
	c->max = binary_registry_max(binaries);
	c->tables = calloc((size_t)c->max + 1, sizeof *c->tables);
	if (!c->tables) {
		free(c);
		return -ENOMEM;
	}
	*ret = c;
	return 0;
}

void unwind_tables_free(struct unwind_tables *c)
{
	if (!c)
		return;
	for (uint32_t i = 1; i <= c->top; i++)
		free(c->tables[i].placed);
	build_job_free(c->no_room);
	free(c->tables);
	free(c);
}

void unwind_tables_set_withdraw(struct unwind_tables *c, void (*withdraw)(uint32_t binary, void *data),
				void *data)
{
	c->withdraw = withdraw;
	c->withdraw_data = data;
}

struct binary_registry *unwind_tables_binaries(const struct unwind_tables *c)
{
	return c->binaries;
}

struct binary_table *unwind_tables_get(const struct unwind_tables *c, uint32_t index)
{
	return index && index <= c->top && c->tables[index].state != TABLE_ABSENT ? &c->tables[index] : NULL;
}

void unwind_tables_add(struct unwind_tables *c, uint32_t index)
{
	const struct binary *b = binary_registry_get(c->binaries, index);

	if (!b || c->tables[index].state != TABLE_ABSENT)
		return;
	c->tables[index] = (struct binary_table){.binary = b, .state = TABLE_WAITING};
	if (index > c->top)
		c->top = index;
	c->n_waiting++;
}

void unwind_tables_touch(struct unwind_tables *c, uint32_t index, uint64_t now_ns)
{
	struct binary_table *f = unwind_tables_get(c, index);

	if (!f)
		return;
	f->last_used_ns = now_ns;
	if (f->state == TABLE_EVICTED && now_ns - f->evicted_ns > EVICTED_REST_NS) {
		f->state = TABLE_WAITING;
		c->n_waiting++;
	}
	f->urgent = true;
}

uint32_t unwind_tables_change(const struct unwind_tables *c)
{
	return c->change;
}

static void changed(struct unwind_tables *c, struct binary_table *f)
{
	f->change = ++c->change;
}

/* Takes the table out of its entry and out of every published list, and gives its blocks back. */
static void table_drop(struct unwind_tables *c, struct binary_table *f)
{
	_cleanup_free_ struct unwind_placed *placed = TAKE_PTR(f->placed);
	size_t n = f->n_placed;

	f->n_placed = 0;
	if (c->withdraw)
		c->withdraw(f->binary->index, c->withdraw_data);
	for (size_t i = 0; i < n; i++) {
		arena_retire(c->arena, placed[i].block);
		c->stats.table_bytes -= placed[i].block.len;
	}
	c->stats.rows -= f->n_rows;
	c->stats.ready--;
}

/* Would the arena have `bytes` if every table went? */
static bool can_make_room(const struct unwind_tables *c, size_t bytes)
{
	struct arena_stats s;

	arena_stats(c->arena, &s);
	return bytes + s.used_bytes + PROCESS_TABLE_BYTES <= s.max_bytes + c->stats.table_bytes;
}

/* Drops the tables unused for longest until `bytes` of them have gone. False when there are none, or too few.
 */
static bool evict(struct unwind_tables *c, size_t bytes)
{
	size_t before = c->stats.table_bytes;

	if (!can_make_room(c, bytes))
		return false;
	while (before - c->stats.table_bytes < bytes) {
		struct binary_table *oldest = NULL;

		for (uint32_t i = 1; i <= c->top; i++) {
			struct binary_table *f = &c->tables[i];

			if (f->state == TABLE_READY && f->n_placed &&
			    (!oldest || f->last_used_ns < oldest->last_used_ns))
				oldest = f;
		}
		if (!oldest)
			return before != c->stats.table_bytes;
		table_drop(c, oldest);
		oldest->state = TABLE_EVICTED;
		oldest->evicted_ns = clock_mono_ns();
		c->stats.evicted++;
	}
	return true;
}

static int block_copy(struct unwind_tables *c, uint32_t binary, const struct unwind_block *b,
		      struct unwind_placed *ret)
{
	int r = arena_alloc(c->arena, b->len, (struct arena_owner){ARENA_TABLE, binary}, &ret->block);
	uint8_t *mem;

	if (r < 0)
		return r;
	mem = arena_at(c->arena, ret->block.ref);
	memcpy(mem, b->bytes, b->len);
	unwind_block_place(mem, (ret->block.ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN,
			   ret->block.generation);
	ret->va = b->va;
	ret->end = b->end;
	return 0;
}

/* Copies the blocks into the arena: all of them, or none. 0, -ENOSPC, -errno. */
static int table_place(struct unwind_tables *c, struct binary_table *f, const struct unwind_blocks *blocks)
{
	_cleanup_free_ struct unwind_placed *placed = calloc(blocks->n ?: 1, sizeof *placed);
	size_t i;
	int r = placed ? 0 : -ENOMEM;

	for (i = 0; i < blocks->n && r == 0; i++)
		r = block_copy(c, f->binary->index, &blocks->blocks[i], &placed[i]);
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

static void debug_finish(struct unwind_tables *c, struct build_job *j)
{
	struct binary_debug found = {j->debug.fd, j->names.fd, j->names.delta};

	binary_registry_searched(c->binaries, j->file, &found);
	j->debug.fd = found.debug_fd;
	j->names.fd = found.names_fd;
}

static void table_finish(struct unwind_tables *c, struct binary_table *f, struct build_job *j, bool may_evict)
{
	int r = j->error;

	debug_finish(c, j);
	f->n_rows = j->n_rows;
	f->build_ns = j->build_ns;
	if (j->htlhash[0])
		binary_registry_set_htlhash(c->binaries, j->file, j->htlhash);
	if (r == 0)
		r = table_place(c, f, &j->blocks);
	if (r == -ENOSPC && may_evict && !c->no_room && evict(c, j->blocks.bytes)) {
		c->no_room = j; /* tried again when the evicted blocks are free */
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
	struct unwind_tables *c = j->owner;
	struct binary_table *f = &c->tables[j->file];

	f->state = TABLE_FAILED;
	f->stuck = true;
	c->n_building--;
	c->n_stuck++;
	c->stats.overdue++;
	c->stats.overdue_file = j->file;
	changed(c, f);
	c->ready(c->data);
}

/* The file system of one that is stuck answers again: so may the others there. */
static void unstick(struct unwind_tables *c, struct binary_table *f)
{
	f->stuck = false;
	f->state = TABLE_BUILDING;
	c->n_building++;
	c->n_stuck--;
	for (uint32_t i = 1; i <= c->top; i++) {
		struct binary_table *other = &c->tables[i];

		if (!other->put_off || other->binary->dev != f->binary->dev)
			continue;
		other->put_off = false;
		other->state = TABLE_WAITING;
		c->n_waiting++;
	}
}

static void build_done(struct worker_job *job, bool cancelled)
{
	struct build_job *j = container_of(job, struct build_job, job);
	struct unwind_tables *c = j->owner;

	if (cancelled) {
		build_job_free(j);
		return;
	}
	if (c->tables[j->file].stuck)
		unstick(c, &c->tables[j->file]);
	table_finish(c, &c->tables[j->file], j, true);
}

void unwind_tables_retry(struct unwind_tables *c)
{
	struct build_job *j = TAKE_PTR(c->no_room);

	if (j)
		table_finish(c, &c->tables[j->file], j, false);
}

/* The file to build next: what samples wait for, else the lowest index. */
static struct binary_table *next_waiting(const struct unwind_tables *c)
{
	struct binary_table *first = NULL;

	for (uint32_t i = 1; i <= c->top; i++) {
		struct binary_table *f = &c->tables[i];

		if (f->state != TABLE_WAITING)
			continue;
		if (f->urgent)
			return f;
		if (!first)
			first = f;
	}
	return first;
}

/* One file system that does not answer is not to take a thread for each of its files. */
static bool is_dead(const struct unwind_tables *c, dev_t dev)
{
	for (uint32_t i = 1; i <= c->top && c->n_stuck; i++)
		if (c->tables[i].stuck && c->tables[i].binary->dev == dev)
			return true;
	return false;
}

void unwind_tables_pump(struct unwind_tables *c)
{
	while (c->n_waiting && c->n_building < UNWIND_JOBS_MAX) {
		struct binary_table *f = next_waiting(c);
		struct build_job *j;

		c->n_waiting--;
		f->put_off = is_dead(c, f->binary->dev);
		c->stats.put_off += f->put_off;
		if (f->put_off || f->binary->fd < 0 ||
		    build_job_new(&j, f->binary, c, build_done, build_overdue) < 0) {
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

size_t unwind_tables_pending(const struct unwind_tables *c)
{
	return c->n_waiting + c->n_building;
}

bool unwind_tables_busy(const struct unwind_tables *c, uint32_t index)
{
	const struct binary_table *f = unwind_tables_get(c, index);

	return f && (f->state == TABLE_BUILDING || f->stuck);
}

void unwind_tables_forget(struct unwind_tables *c, uint32_t index)
{
	struct binary_table *f = unwind_tables_get(c, index);

	if (!f)
		return;
	c->n_waiting -= f->state == TABLE_WAITING;
	if (f->state == TABLE_READY)
		table_drop(c, f);
	free(f->placed);
	*f = (struct binary_table){.state = TABLE_ABSENT};
}

void unwind_tables_sweep(struct unwind_tables *c, const uint8_t *used, uint64_t before_ns,
			 void (*fn)(uint32_t index, void *data), void *data)
{
	for (uint32_t i = 1; i <= c->top; i++) {
		const struct binary_table *f = unwind_tables_get(c, i);

		if (!f || used[i] || f->last_used_ns >= before_ns || unwind_tables_busy(c, i))
			continue;
		fn(i, data);
		unwind_tables_forget(c, i);
		binary_registry_remove(c->binaries, i);
	}
}

void unwind_tables_stats(const struct unwind_tables *c, struct unwind_tables_stats *ret)
{
	*ret = c->stats;
}
