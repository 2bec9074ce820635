// SPDX-License-Identifier: Apache-2.0
/*
 * tables[] is indexed by the binary's index. A table is removed in one place, table_drop, which takes it
 * out of its entry, then out of every published list, and then retires its blocks.
 */
#include "agent/unwind/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/worker.h"
#include "agent/elf/runtime/facts.h"
#include "agent/unwind/build.h"
#include "agent/unwind/code_times.h"
#include "agent/unwind/generated.h"
#include "agent/unwind/stuck_devices.h"
#include "bpf/abi.h"

#define EVICTED_WAIT_NS (5 * NS_PER_SEC) /* before an evicted table is built again; doubles */
#define EVICTED_WAIT_MAX_NS (320 * NS_PER_SEC)
#define AGAIN_NS (NS_PER_SEC / 10) /* before a build that could not be made is tried again; doubles */
#define GENERATED_COST 20u	   /* generated code is analysed in 1/20 of the time at most */
#define GENERATED_MAX_NS (2 * NS_PER_SEC)
/* Between comparisons of used code with the memory; of code that is changing. */
#define GENERATED_CHECK_NS (1 * NS_PER_SEC)
#define GENERATED_CHANGING_NS (NS_PER_SEC / 10)
#define IDLE_NS (60 * NS_PER_SEC) /* a table that no sample has used for so long is idle */

struct unwind_tables {
	struct binary_registry *binaries;
	struct arena *arena;
	struct worker *worker;
	void (*ready)(void *data);
	void *data;
	uint64_t (*now)(void);
	struct binary_table *tables; /* [1 .. max] */
	uint32_t max;
	uint32_t top; /* no index above it was ever used */
	uint32_t change;
	struct fair_queue waiting;
	size_t n_building;
	struct stuck_devices stuck;
	void (*withdraw)(uint32_t binary, void *data); /* takes a table out of what is published */
	void *withdraw_data;
	/* takes what jobs find beside rows */
	void (*found)(uint32_t binary, const struct generated *g, void *data);
	void *found_data;
	bool follow_generated;
	uint32_t *generated; /* binaries that stand for generated code; owned */
	size_t n_generated, cap_generated;
	atomic_uint n_early;	 /* jobs that know of a runtime before their table is made */
	struct placing *placing; /* finished tables that wait for the room made by eviction */
	struct unwind_tables_stats stats;
};

int unwind_tables_new(struct unwind_tables **ret, struct binary_registry *binaries, struct arena *arena,
		      struct worker *worker, void (*ready)(void *data), void *data)
{
	struct unwind_tables *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	*c = (struct unwind_tables){.binaries = binaries,
				    .arena = arena,
				    .worker = worker,
				    .ready = ready,
				    .data = data,
				    .now = clock_mono_ns};
	fair_queue_init(&c->waiting, UNWIND_JOBS_OF_A_TENANT);
	fair_queue_on_held(&c->waiting, binary_registry_held_until_ns, binaries);
	c->max = binary_registry_max(binaries);
	c->tables = calloc((size_t)c->max + 1, sizeof *c->tables);
	if (!c->tables) {
		free(c);
		return -ENOMEM;
	}
	*ret = c;
	return 0;
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

/* --- builds that wait */

static void wait_add(struct unwind_tables *c, struct binary_table *f)
{
	f->state = TABLE_WAITING;
	fair_queue_add(&c->waiting, &f->wait, f->binary->tenant, f->urgent);
}

static void wait_remove(struct unwind_tables *c, struct binary_table *f)
{
	fair_queue_remove(&c->waiting, &f->wait);
}

/* Builds of tables that samples have hit go first. */
static void wait_urgently(struct unwind_tables *c, struct binary_table *f)
{
	if (f->urgent)
		return;
	if (f->state == TABLE_WAITING)
		wait_remove(c, f);
	f->urgent = true;
	if (f->state == TABLE_WAITING)
		wait_add(c, f);
	if (f->job)
		worker_urge(c->worker, &f->job->job);
}

/* --- what is known of a table */

void unwind_tables_add(struct unwind_tables *c, uint32_t index)
{
	const struct binary *b = binary_registry_get(c->binaries, index);

	if (!b || c->tables[index].state != TABLE_ABSENT)
		return;
	c->tables[index] = (struct binary_table){.binary = b, .wait_ns = EVICTED_WAIT_NS};
	if (index > c->top)
		c->top = index;
	wait_add(c, &c->tables[index]);
}

/* Queues the build of a table that was not built, or is no longer there. */
static void wait_again(struct unwind_tables *c, struct binary_table *f)
{
	f->put_off = false;
	wait_add(c, f);
}

void unwind_tables_reopened(struct unwind_tables *c, uint32_t index)
{
	struct binary_table *f = unwind_tables_get(c, index);

	if (f && f->state == TABLE_FAILED && !f->stuck)
		wait_again(c, f);
}

/* --- generated code */

void unwind_tables_set_found(struct unwind_tables *c,
			     void (*found)(uint32_t binary, const struct generated *g, void *data),
			     void *data)
{
	c->found = found;
	c->found_data = data;
}

void unwind_tables_follow_generated(struct unwind_tables *c)
{
	c->follow_generated = true;
}

bool unwind_tables_follows_generated(const struct unwind_tables *c)
{
	return c && c->follow_generated;
}

int unwind_tables_add_generated(struct unwind_tables *c, uint32_t index, uint32_t pid)
{
	const struct binary *b = binary_registry_get(c->binaries, index);
	struct generated *g;

	if (array_reserve(&c->generated, &c->cap_generated, c->n_generated + 1, sizeof *c->generated) < 0 ||
	    generated_new(&g, pid) < 0)
		return -ENOMEM;
	c->tables[index] = (struct binary_table){.binary = b,
						 .state = TABLE_READY,
						 .urgent = true,
						 .wait_ns = EVICTED_WAIT_NS,
						 .check_ns = GENERATED_CHECK_NS,
						 .generated = g};
	if (index > c->top)
		c->top = index;
	c->generated[c->n_generated++] = index;
	return 0;
}

/* Whether a build of generated code is due: it was requested, or it is to be compared with the memory. */
static bool generated_due(const struct binary_table *f, uint64_t now_ns)
{
	if (f->refused || f->job || f->state == TABLE_WAITING || f->state == TABLE_BUILDING || f->stuck ||
	    now_ns < f->not_before_ns)
		return false;
	return generated_requested(f->generated) ||
	       (f->n_placed && f->last_used_ns > f->checked_ns && now_ns > f->checked_ns + f->check_ns);
}

static void generated_wait(struct unwind_tables *c)
{
	for (size_t i = 0; i < c->n_generated; i++) {
		struct binary_table *f = &c->tables[c->generated[i]];

		if (generated_due(f, c->now()))
			wait_add(c, f);
	}
}

void unwind_tables_request(struct unwind_tables *c, uint32_t index, const struct generated_request *request)
{
	struct binary_table *f = unwind_tables_get(c, index);

	if (f && f->generated && !f->refused)
		(void)generated_request(f->generated, request);
}

bool unwind_tables_request_line(struct unwind_tables *c, uint32_t index, uint32_t pid,
				const struct v8_layout *layout, const struct v8_line_wish *wish)
{
	struct binary_table *f = unwind_tables_get(c, index);

	return f && f->generated && !f->refused && generated_pid(f->generated) == pid &&
	       generated_request_line(f->generated, layout, wish);
}

bool unwind_tables_request_v8_code(struct unwind_tables *c, uint32_t index, uint32_t pid,
				   const struct v8_process *process, const struct vm_wanted *wanted)
{
	struct binary_table *f = unwind_tables_get(c, index);

	return f && f->generated && !f->refused && generated_pid(f->generated) == pid &&
	       generated_request_v8_code(f->generated, process, wanted);
}

bool unwind_tables_requested(const struct unwind_tables *c, uint32_t index)
{
	const struct binary_table *f = unwind_tables_get(c, index);

	return f && f->generated && (f->job || generated_requested(f->generated));
}

void unwind_tables_published(struct unwind_tables *c, uint32_t index)
{
	struct binary_table *f = unwind_tables_get(c, index);

	if (f && f->times)
		code_times_published(f->times, c->now());
}

static void generated_forget(struct unwind_tables *c, struct binary_table *f)
{
	for (size_t i = 0; i < c->n_generated; i++)
		if (c->generated[i] == f->binary->index) {
			c->generated[i] = c->generated[--c->n_generated];
			break;
		}
	generated_free(TAKE_PTR(f->generated));
	code_times_free(TAKE_PTR(f->times));
	free(TAKE_PTR(f->heaps));
}

void unwind_tables_touch(struct unwind_tables *c, uint32_t index, uint64_t now_ns)
{
	struct binary_table *f = unwind_tables_get(c, index);

	if (!f)
		return;
	f->last_used_ns = now_ns;
	wait_urgently(c, f);
	if (f->put_off && stuck_devices_may_try(&c->stuck, f->binary->dev, now_ns)) {
		stuck_devices_try_begin(&c->stuck, f->binary->dev);
		f->tried = true;
		wait_again(c, f);
	} else if (f->state == TABLE_EVICTED && now_ns - f->evicted_ns > f->wait_ns) {
		wait_again(c, f);
	}
}

/* --- language runtimes, at the start */

#define PREFERRED_MAX 16u
#define PREFERRED_OF_TENANT 4u

static uint64_t code_bytes(const struct binary_table *f)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < f->binary->n_segments; i++)
		bytes += f->binary->segments[i].executable ? f->binary->segments[i].file_bytes : 0;
	return bytes;
}

static int by_code_bytes(const void *a, const void *b)
{
	const uint64_t x = code_bytes(*(struct binary_table *const *)a),
		       y = code_bytes(*(struct binary_table *const *)b);

	return (x > y) - (x < y);
}

static bool is_likely_runtime(const struct binary_table *f)
{
	return !f->generated && f->binary->refs && !f->runtime && binary_table_pending(f) &&
	       runtime_facts_likely(f->binary->module.name);
}

/* Whether it is not among the found ones, nor so many of its tenant's are. */
static bool has_share(struct binary_table *const *found, unsigned n, const struct binary_table *f,
		      unsigned of_tenant)
{
	unsigned n_tenant = 0;

	for (unsigned i = 0; i < n; i++) {
		if (found[i] == f)
			return false;
		n_tenant += found[i]->binary->tenant == f->binary->tenant;
	}
	return n_tenant < of_tenant;
}

/* Adds more to the `n` found ones, at most so many of each tenant. Returns their number. */
static unsigned find_runtimes(const struct unwind_tables *c, struct binary_table *found[PREFERRED_MAX],
			      unsigned n, unsigned of_tenant)
{
	for (uint32_t i = 0; i <= c->top && n < PREFERRED_MAX; i++) {
		struct binary_table *f = unwind_tables_get(c, i);

		if (f && is_likely_runtime(f) && has_share(found, n, f, of_tenant))
			found[n++] = f;
	}
	return n;
}

/* Those whose build waits or runs: a few of each tenant, then any. Returns their number. */
static unsigned likely_runtimes(const struct unwind_tables *c, struct binary_table *ret[PREFERRED_MAX])
{
	const unsigned n = find_runtimes(c, ret, 0, PREFERRED_OF_TENANT);

	return find_runtimes(c, ret, n, PREFERRED_MAX);
}

void unwind_tables_prefer_runtimes(struct unwind_tables *c)
{
	struct binary_table *found[PREFERRED_MAX];
	const unsigned n = likely_runtimes(c, found);

	qsort(found, n, sizeof found[0], by_code_bytes);
	for (unsigned i = 0; i < n; i++)
		wait_urgently(c, found[i]);
}

bool unwind_tables_expects_runtimes(const struct unwind_tables *c)
{
	struct binary_table *found[PREFERRED_MAX];
	const unsigned n = likely_runtimes(c, found);

	for (unsigned i = 0; i < n; i++)
		if (found[i]->urgent)
			return true;
	return false;
}

uint32_t unwind_tables_change(const struct unwind_tables *c)
{
	return c->change;
}

static void changed(struct unwind_tables *c, struct binary_table *f)
{
	f->change = ++c->change;
}

void unwind_tables_refuse(struct unwind_tables *c, uint32_t index)
{
	struct binary_table *f = unwind_tables_get(c, index);

	if (!f || !f->generated || f->refused)
		return;
	f->refused = true;
	changed(c, f);
	c->ready(c->data);
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

/* A build that was tried on a file system with stuck jobs has ended. `failed`: it is stuck, or not made. */
static void try_end(struct unwind_tables *c, struct binary_table *f, bool failed)
{
	if (f->tried)
		stuck_devices_try_end(&c->stuck, f->binary->dev, failed);
	f->tried = false;
}

/* --- room in the arena */

/* Only tables that were last used before `before_ns` may be evicted. */
struct eviction {
	struct unwind_tables *tables;
	uint64_t before_ns;
};

static uint64_t table_last_used(uint64_t id, void *data)
{
	const struct eviction *e = data;
	const struct binary_table *f = &e->tables->tables[id];

	return f->state == TABLE_READY && f->last_used_ns < e->before_ns ? f->last_used_ns : ARENA_KEEP;
}

static void table_evict(uint64_t id, void *data)
{
	struct unwind_tables *c = ((struct eviction *)data)->tables;
	struct binary_table *f = &c->tables[id];

	table_drop(c, f);
	f->state = TABLE_EVICTED;
	f->evicted_ns = c->now();
	/* lists have a share of their own, so the next place is not theirs: nothing has to be waited for */
	if (((struct eviction *)data)->before_ns == UINT64_MAX)
		f->evicted_ns -= f->wait_ns;
	c->stats.evicted++;
}

static int room_hold(struct unwind_tables *c, size_t len, uint64_t before_ns, struct arena_hold *ret)
{
	struct eviction e = {c, before_ns};

	return arena_hold(c->arena, len, &(struct arena_eviction){table_last_used, table_evict, &e}, ret);
}

int unwind_tables_make_room(struct unwind_tables *c, size_t len, struct arena_hold *ret)
{
	return room_hold(c, len, UINT64_MAX, ret);
}

/* A finished table on its way into the arena: each of its blocks has a place, or a reservation for one. */
struct placing {
	struct placing *next;
	struct build_job *job;
	size_t n;
	struct {
		struct unwind_placed placed;
		struct arena_hold hold;
	} blocks[];
};

static void placing_free(struct unwind_tables *c, struct placing *p)
{
	for (size_t i = 0; i < p->n; i++) {
		arena_retire(c->arena, p->blocks[i].placed.block);
		arena_unhold(c->arena, &p->blocks[i].hold);
	}
	free(p);
}

/*
 * A table may evict those that were used before it was, or are idle. The table of a binary that is merely
 * mapped does not evict one that samples have used in the last minute, or the tables of a busy host would
 * evict each other in turn.
 */
static uint64_t evicts_before(const struct unwind_tables *c, const struct binary_table *f)
{
	uint64_t now_ns = c->now(), idle_ns = now_ns > IDLE_NS ? now_ns - IDLE_NS : 0;

	return f->last_used_ns > idle_ns ? f->last_used_ns : idle_ns;
}

/* Finds a place for every block, or for none: 0 with *ret, -ENOSPC, -ENOMEM. Tables may have been evicted. */
static int placing_begin(struct unwind_tables *c, struct build_job *j, struct placing **ret)
{
	const struct arena_owner owner = {ARENA_TABLE, j->file};
	uint64_t before_ns = evicts_before(c, &c->tables[j->file]);
	struct placing *p = calloc(1, sizeof *p + j->blocks.n * sizeof p->blocks[0]);
	int r = p ? 0 : -ENOMEM;

	for (size_t i = 0; i < j->blocks.n && r == 0; i++) {
		const struct unwind_block *b = &j->blocks.blocks[i];

		p->blocks[i].placed.va = b->va;
		p->blocks[i].placed.end = b->end;
		p->n++;
		if (arena_alloc(c->arena, b->len, owner, &p->blocks[i].placed.block) < 0)
			r = room_hold(c, b->len, before_ns, &p->blocks[i].hold);
	}
	if (r < 0) {
		if (p)
			placing_free(c, p);
		return r;
	}
	p->job = j;
	*ret = p;
	return 0;
}

/* True when every block has its place. */
static bool placing_claim(struct unwind_tables *c, struct placing *p)
{
	const struct arena_owner owner = {ARENA_TABLE, p->job->file};
	bool all = true;

	for (size_t i = 0; i < p->n; i++)
		if (p->blocks[i].hold.id &&
		    arena_claim(c->arena, &p->blocks[i].hold, p->job->blocks.blocks[i].len, owner,
				&p->blocks[i].placed.block) < 0)
			all = false;
	return all;
}

/* Writes the blocks to their places, and gives these to the binary. 0; -ENOMEM: nothing has changed. */
static int placing_end(struct unwind_tables *c, struct placing *p)
{
	struct binary_table *f = &c->tables[p->job->file];
	struct unwind_placed *placed = calloc(p->n ?: 1, sizeof *placed);

	if (!placed)
		return -ENOMEM;
	for (size_t i = 0; i < p->n; i++) {
		const struct unwind_block *b = &p->job->blocks.blocks[i];
		struct arena_block at = p->blocks[i].placed.block;
		uint8_t *mem = arena_at(c->arena, at.ref);

		memcpy(mem, b->bytes, b->len);
		unwind_block_place(mem, (at.ref & ((1u << REF_OFFSET_BITS) - 1)) * REF_ALIGN, at.generation);
		placed[i] = p->blocks[i].placed;
		c->stats.table_bytes += at.len;
	}
	f->placed = placed;
	f->n_placed = p->n;
	c->stats.rows += f->n_rows;
	c->stats.ready++;
	free(p);
	return 0;
}

/* --- jobs */

/* What the build needs is scarce now, as descriptors: it is tried again. */
static bool is_scarce(int r)
{
	return r == -EAGAIN || r == -EMFILE || r == -ENFILE;
}

static void debug_finish(struct unwind_tables *c, struct build_job *j)
{
	struct binary_debug found = {.debug_fd = j->debug.fd,
				     .names_fd = j->names.fd,
				     .names_delta = j->names.delta,
				     .names_version = j->names.version,
				     .of_system = j->of_system};

	binary_registry_searched(c->binaries, j->file, &found);
	j->debug.fd = found.debug_fd;
	j->names.fd = found.names_fd;
}

static void job_end(struct unwind_tables *c, struct build_job *j)
{
	binary_registry_release(c->binaries, j->file);
	build_job_free(j);
}

/* The job is no longer with the workers, or is stuck there. */
static void job_leave(struct unwind_tables *c, struct binary_table *f)
{
	if (!f->job)
		return;
	f->job = NULL;
	fair_queue_end(&c->waiting, &f->wait, c->now());
}

/* Soon at first, then ever more rarely. */
static void try_later(const struct unwind_tables *c, struct binary_table *f)
{
	f->again_ns = f->again_ns ? f->again_ns * 2 : AGAIN_NS;
	f->again_ns = f->again_ns < EVICTED_WAIT_NS ? f->again_ns : EVICTED_WAIT_NS;
	f->evicted_ns = c->now() - EVICTED_WAIT_NS + f->again_ns;
	f->wait_ns = EVICTED_WAIT_NS;
}

/* Ends a build: r is 0 if the table is in the arena, or the reason why it is not. Takes the job. */
static void table_finish(struct unwind_tables *c, struct build_job *j, int r)
{
	struct binary_table *f = &c->tables[j->file];

	if (f->times && r == 0)
		code_times_placed(f->times, generated_look(f->generated));
	if (f->generated && (r == -ENODATA || f->n_placed)) /* more code may come; or the old table stays */
		r = 0;
	f->state = r == 0			  ? TABLE_READY
		   : r == -ENODATA		  ? TABLE_NONE
		   : r == -ENOSPC || is_scarce(r) ? TABLE_EVICTED
						  : TABLE_FAILED;
	if (r == -ENOSPC) { /* one that does not fit is built again ever more rarely */
		f->evicted_ns = c->now();
		f->wait_ns = f->wait_ns < EVICTED_WAIT_MAX_NS ? f->wait_ns * 2 : f->wait_ns;
		c->stats.no_room++;
		c->stats.no_room_file = j->file;
	} else if (is_scarce(r)) {
		try_later(c, f);
	} else {
		f->wait_ns = EVICTED_WAIT_NS;
		f->again_ns = 0;
	}
	c->n_building--;
	c->stats.built += r == 0;
	c->stats.failed += f->state == TABLE_FAILED && r != -ESTALE;
	(void)binary_registry_quarantine(c->binaries, j->file, BINARY_FOR_TABLE, r);
	if (r == -ESTALE) {
		c->stats.stale++;
		(void)binary_registry_changed(c->binaries, j->file);
	}
	changed(c, f);
	job_end(c, j);
	c->ready(c->data); /* also without a table: lists then say so, and no sample waits for it */
}

/* Stores the table if all of its places are free by now. True when that has succeeded or failed for good. */
static bool table_place(struct unwind_tables *c, struct placing *p)
{
	struct build_job *j = p->job;
	int r;

	if (!placing_claim(c, p))
		return false;
	r = placing_end(c, p);
	if (r < 0)
		placing_free(c, p);
	table_finish(c, j, r);
	return true;
}

/* Takes what the job knows of when code was there. */
static void times_take(struct binary_table *f)
{
	size_t n, n_empty;
	const struct code_span *spans = generated_spans(f->generated, &n);
	const uint64_t *empty = generated_empty(f->generated, &n_empty);

	if (!f->times && n && code_times_new(&f->times) < 0)
		return;
	if (!f->times)
		return;
	(void)code_times_set(f->times, spans, n);
	for (size_t i = 0; i < n_empty; i++)
		code_times_add_empty(f->times, empty[i], generated_began_ns(f->generated));
}

/* Takes where the code is, if that has become known; lists that say so are written again. */
static void heaps_take(struct unwind_tables *c, struct binary_table *f)
{
	const struct code_heaps *known = generated_heaps(f->generated);

	if (!known || (f->heaps && memcmp(f->heaps, known, sizeof *known) == 0))
		return;
	if (!f->heaps)
		f->heaps = malloc(sizeof *f->heaps);
	if (!f->heaps)
		return;
	*f->heaps = *known;
	changed(c, f);
}

/*
 * A build of generated code has ended. The table that the code had gives way to the new one, if there is
 * one.
 */
static void generated_built(struct unwind_tables *c, struct binary_table *f, const struct build_job *j)
{
	const uint64_t wait_ns = j->build_ns * GENERATED_COST;
	struct generated_stats s;

	generated_stats(f->generated, &s);
	f->not_before_ns = c->now() + (wait_ns < GENERATED_MAX_NS ? wait_ns : GENERATED_MAX_NS);
	if (s.wait_until_ns > f->not_before_ns)
		f->not_before_ns = s.wait_until_ns;
	c->stats.generated += s.analysed - f->counted.analysed;
	c->stats.generated_replaced += s.replaced - f->counted.replaced;
	c->stats.generated_refused += s.refused - f->counted.refused;
	f->check_ns = s.replaced == f->counted.replaced && s.unloads == f->counted.unloads &&
				      (s.analysed == f->counted.analysed || !(s.replaced + s.unloads))
			      ? GENERATED_CHECK_NS
			      : GENERATED_CHANGING_NS;
	f->counted = s;
	f->refused |= j->error == -ESRCH;
	if (!f->refused) {
		times_take(f);
		heaps_take(c, f);
	}
	if (c->found)
		c->found(f->binary->index, f->generated, c->found_data);
	if (f->n_placed && (j->error == 0 || j->error == -ENODATA))
		table_drop(c, f);
}

/* What an earlier build has found of the same content stays. */
static void take_runtime(struct binary_table *f, struct build_job *j)
{
	if (!j->runtime && j->error != -ESTALE)
		return;
	free(f->runtime);
	f->runtime = TAKE_PTR(j->runtime);
}

static void table_built(struct unwind_tables *c, struct build_job *j)
{
	struct binary_table *f = &c->tables[j->file];
	const uint32_t before = c->change;
	struct placing *p = NULL;
	int r = j->error;

	if (f->generated)
		generated_built(c, f, j);
	if (r == -EALREADY) {
		f->state = TABLE_READY;
		c->n_building--;
		job_end(c, j);
		if (c->change != before) /* what else is known of the code */
			c->ready(c->data);
		return;
	}
	if (!f->generated && !is_scarce(r))
		debug_finish(c, j);
	take_runtime(f, j);
	if (!f->n_placed)
		f->n_rows = j->n_rows;
	f->build_ns = j->build_ns;
	if (j->htlhash[0])
		binary_registry_set_htlhash(c->binaries, j->file, j->htlhash);
	c->stats.build_ns += j->build_ns;
	c->stats.skipped_fdes += j->n_skipped;
	if (r == 0)
		r = placing_begin(c, j, &p);
	if (r < 0) {
		table_finish(c, j, r);
	} else if (!table_place(c, p)) {
		p->next = c->placing;
		c->placing = p;
	}
}

/* The job is stuck, or takes too long. Samples do not wait any longer for its table, which may still come. */
static void build_overdue(struct worker_job *job)
{
	struct build_job *j = container_of(job, struct build_job, job);
	struct unwind_tables *c = j->owner;
	struct binary_table *f = &c->tables[j->file];

	job_leave(c, f);
	f->state = TABLE_FAILED;
	f->stuck = true;
	try_end(c, f, true);
	c->n_building--;
	if (job->costly) {
		c->stats.costly++;
		c->stats.costly_file = j->file;
	} else {
		stuck_devices_add(&c->stuck, f->binary->dev, c->now());
		c->stats.overdue++;
		c->stats.overdue_file = j->file;
	}
	changed(c, f);
	c->ready(c->data);
}

/* A stuck job is back. If its file system has answered, queue the builds that were put off for it. */
static void unstick(struct unwind_tables *c, struct binary_table *f, bool costly)
{
	f->stuck = false;
	f->state = TABLE_BUILDING;
	c->n_building++;
	if (costly)
		return;
	stuck_devices_remove(&c->stuck, f->binary->dev);
	for (uint32_t i = 1; i <= c->top; i++) {
		struct binary_table *other = &c->tables[i];

		if (other->put_off && other->binary->dev == f->binary->dev)
			wait_again(c, other);
	}
}

static void build_done(struct worker_job *job, bool cancelled)
{
	struct build_job *j = container_of(job, struct build_job, job);
	struct unwind_tables *c = j->owner;

	if (cancelled) {
		job_end(c, j);
		return;
	}
	job_leave(c, &c->tables[j->file]);
	try_end(c, &c->tables[j->file], false);
	if (c->tables[j->file].stuck)
		unstick(c, &c->tables[j->file], job->costly);
	table_built(c, j);
}

void unwind_tables_retry(struct unwind_tables *c)
{
	struct placing **at = &c->placing, *p;

	while ((p = *at)) {
		struct placing *next = p->next;

		if (table_place(c, p))
			*at = next;
		else
			at = &p->next;
	}
}

void unwind_tables_free(struct unwind_tables *c)
{
	if (!c)
		return;
	for (uint32_t i = 1; i <= c->top; i++) {
		free(c->tables[i].placed);
		free(c->tables[i].runtime);
		generated_free(c->tables[i].generated);
		code_times_free(c->tables[i].times);
		free(c->tables[i].heaps);
	}
	free(c->generated);
	while (c->placing) {
		struct placing *p = c->placing;

		c->placing = p->next;
		job_end(c, p->job);
		placing_free(c, p);
	}
	stuck_devices_fini(&c->stuck);
	fair_queue_fini(&c->waiting);
	free(c->tables);
	free(c);
}

/* Takes what jobs know of language runtimes before their tables are made. */
static void early_take(struct unwind_tables *c)
{
	bool any = false;

	if (!atomic_exchange(&c->n_early, 0))
		return;
	for (uint32_t i = 1; i <= c->top; i++) {
		struct binary_table *f = &c->tables[i];
		struct runtime_facts *early = f->job ? atomic_exchange(&f->job->early, NULL) : NULL;

		if (early && !f->runtime) {
			f->runtime = TAKE_PTR(early);
			changed(c, f);
			any = true;
		}
		free(early);
	}
	if (any)
		c->ready(c->data);
}

/* The table to build next. NULL: none. */
static struct binary_table *next_waiting(struct unwind_tables *c)
{
	struct fair_wait *w = c->n_building < UNWIND_JOBS_MAX ? fair_queue_next(&c->waiting, c->now()) : NULL;

	return w ? container_of(w, struct binary_table, wait) : NULL;
}

/* The job that builds the table. 0 or -errno. */
static int new_job(struct unwind_tables *c, struct binary_table *f, struct build_job **ret)
{
	uint64_t now_ns = c->now();
	bool check = f->n_placed && now_ns > f->checked_ns + f->check_ns;

	if (f->binary->quarantined & BINARY_FOR_TABLE)
		return -ENOTRECOVERABLE;
	if (!f->generated)
		return f->binary->fd < 0 ? -EBADF
					 : build_job_new(ret, f->binary, c, build_done, build_overdue);
	if (build_job_generated(ret, f->binary->index, f->generated, c, build_done, build_overdue) < 0)
		return -ENOMEM;
	if (check)
		f->checked_ns = now_ns;
	(void)generated_begin(f->generated, check);
	return 0;
}

/* Nobody has it mapped any more, and no sample waits: its table is built when one needs it. */
static bool is_unused(const struct binary_table *f)
{
	return !f->urgent && !f->generated && !f->binary->refs;
}

static void put_aside(struct unwind_tables *c, struct binary_table *f)
{
	f->state = TABLE_EVICTED;
	f->evicted_ns = c->now() - f->wait_ns;
}

/* There is no job: `r` says why, or its file system does not answer. */
static void not_begun(struct unwind_tables *c, struct binary_table *f, int r)
{
	bool later = !f->put_off && is_scarce(r);

	f->state = later ? TABLE_EVICTED : TABLE_FAILED;
	if (later)
		try_later(c, f);
	else
		c->stats.failed++;
	try_end(c, f, true);
	changed(c, f);
}

void unwind_tables_pump(struct unwind_tables *c)
{
	struct binary_table *f;

	early_take(c);
	generated_wait(c);
	while ((f = next_waiting(c))) {
		struct build_job *j;
		int r = 0;

		wait_remove(c, f);
		if (is_unused(f)) {
			put_aside(c, f);
			continue;
		}
		f->put_off = !f->tried && stuck_devices_has(&c->stuck, f->binary->dev);
		c->stats.put_off += f->put_off;
		if (!f->put_off)
			r = new_job(c, f, &j);
		if (f->put_off || r < 0) {
			not_begun(c, f, r);
			continue;
		}
		j->job.urgent = f->urgent;
		j->n_early = &c->n_early;
		if (worker_submit(c->worker, &j->job, f->urgent ? WORKER_HIGH : WORKER_LOW) < 0) {
			build_job_free(j);
			wait_add(c, f);
			return;
		}
		f->state = TABLE_BUILDING;
		f->job = j;
		fair_queue_begin(&c->waiting, &f->wait, c->now());
		c->n_building++;
		(void)binary_registry_hold(c->binaries, j->file);
	}
}

void unwind_tables_stale(struct unwind_tables *c, uint32_t index)
{
	struct binary_table *f = unwind_tables_get(c, index);

	if (!f)
		return;
	free(TAKE_PTR(f->runtime));
	if (f->state != TABLE_READY)
		return;
	table_drop(c, f);
	f->state = TABLE_FAILED;
	c->stats.stale++;
	changed(c, f);
	c->ready(c->data);
}

size_t unwind_tables_pending(const struct unwind_tables *c)
{
	return c->waiting.n_waiting + c->n_building;
}

void unwind_tables_forget(struct unwind_tables *c, uint32_t index)
{
	struct binary_table *f = unwind_tables_get(c, index);

	if (!f)
		return;
	if (f->state == TABLE_WAITING)
		wait_remove(c, f);
	try_end(c, f, true);
	if (f->n_placed || (f->state == TABLE_READY && !f->generated))
		table_drop(c, f);
	free(f->placed);
	free(f->runtime);
	if (f->generated)
		generated_forget(c, f);
	*f = (struct binary_table){.state = TABLE_ABSENT};
}

void unwind_tables_stats(const struct unwind_tables *c, struct unwind_tables_stats *ret)
{
	*ret = c->stats;
}
