// SPDX-License-Identifier: Apache-2.0
/*
 * The unwind tables of binaries, by the binaries' indices. Worker threads build them, those that samples
 * need first, and they live in the arena under its budget. When it is full, a contiguous range is made free
 * by evicting the tables in it, where these have been unused for longest.
 */
#ifndef PROFLET_UNWIND_TABLES_H
#define PROFLET_UNWIND_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/binary/registry.h"
#include "agent/unwind/arena.h"

struct unwind_tables;
struct worker;

/* Binaries with the workers at a time: those that wait behind them can still change places. */
#define UNWIND_JOBS_MAX 16u

enum unwind_table_state {
	TABLE_ABSENT,	/* there is no such binary */
	TABLE_WAITING,	/* to be built */
	TABLE_BUILDING, /* on a worker */
	TABLE_READY,
	TABLE_NONE,    /* the binary has no call-frame information, or is not ELF */
	TABLE_FAILED,  /* could not be read or held in memory */
	TABLE_EVICTED, /* was ready; built again when a sample needs it */
};

/* A block of a binary's table in the arena. */
struct unwind_placed {
	uint64_t va, end; /* ELF virtual addresses */
	struct arena_block block;
};

struct binary_table {
	const struct binary *binary; /* borrowed */
	enum unwind_table_state state;
	bool urgent;
	bool stuck;   /* its job has run too long, and is not back yet */
	bool put_off; /* not tried: it is on the file system of one that is stuck */
	struct unwind_placed *placed;
	size_t n_placed;
	uint64_t last_used_ns; /* by a sample; CLOCK_MONOTONIC */
	uint64_t evicted_ns;   /* when it found no room, or gave it to another */
	uint64_t wait_ns;      /* before it is built again after that */
	uint64_t build_ns;
	uint64_t n_rows;
	uint32_t change; /* unwind_tables_change() when it came last, or was found to be none */
};

/* It is not there now, and may come: what needs it can wait. */
static inline bool binary_table_pending(const struct binary_table *f)
{
	return f->state == TABLE_WAITING || f->state == TABLE_BUILDING || f->state == TABLE_EVICTED;
}

struct unwind_tables_stats {
	uint64_t ready, built, failed, evicted, skipped_fdes;
	uint64_t rows, table_bytes, build_ns;
	uint64_t overdue;      /* tables given up because their files did not answer in time */
	uint32_t overdue_file; /* the last of these */
	uint64_t put_off;      /* and those on the same file systems that were not tried */
	uint64_t no_room;      /* finished tables that no eviction could make room for */
	uint32_t no_room_file; /* the last of these */
};

/*
 * `ready` is called (from the main loop, within worker_collect or unwind_tables_retry) after tables came:
 * mappings that use the binaries are to be published again. Registry, arena and worker are borrowed.
 */
int unwind_tables_new(struct unwind_tables **ret, struct binary_registry *binaries, struct arena *arena,
		      struct worker *worker, void (*ready)(void *data), void *data);
/* Before the registry. */
void unwind_tables_free(struct unwind_tables *t);
/*
 * Before the blocks of a binary's table are retired, `withdraw` takes them out of everything that is
 * published. There is one such function, the publisher's.
 */
void unwind_tables_set_withdraw(struct unwind_tables *t, void (*withdraw)(uint32_t binary, void *data),
				void *data);
struct binary_registry *unwind_tables_binaries(const struct unwind_tables *t);
/* The binary gets a table, unless it has one already or waits for it. */
void unwind_tables_add(struct unwind_tables *t, uint32_t index);
/* The binary has a descriptor again: a table that failed for want of one is tried again. */
void unwind_tables_reopened(struct unwind_tables *t, uint32_t index);
/* What is known of the binary's table, NULL where it was not added. Borrowed until it is forgotten. */
struct binary_table *unwind_tables_get(const struct unwind_tables *t, uint32_t index);
/* A sample has a frame in it: it is in use, and without a table it goes to the front of the queue. */
void unwind_tables_touch(struct unwind_tables *t, uint32_t index, uint64_t now_ns);
/* Gives waiting binaries to the workers. Call after adding, and after worker_collect. */
void unwind_tables_pump(struct unwind_tables *t);
/* Counts tables that came, or will never come: a list made before a binary's last change is out of date. */
uint32_t unwind_tables_change(const struct unwind_tables *t);
/*
 * Evicts tables so that `len` bytes become free in one piece, kept for the caller: arena_claim after the next
 * grace period. 0, -ENOSPC (nothing was evicted), -ENOMEM.
 */
int unwind_tables_make_room(struct unwind_tables *t, size_t len, struct arena_hold *ret);
/* Places the tables that room was made for. Call after a grace period. */
void unwind_tables_retry(struct unwind_tables *t);
/* Binaries that wait for, or are at, a worker. */
size_t unwind_tables_pending(const struct unwind_tables *t);
/*
 * The index will stand for another binary; no worker has it, since jobs hold their binaries. Its table leaves
 * all published lists at once.
 */
void unwind_tables_forget(struct unwind_tables *t, uint32_t index);
void unwind_tables_stats(const struct unwind_tables *t, struct unwind_tables_stats *ret);

#endif
