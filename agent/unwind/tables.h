// SPDX-License-Identifier: Apache-2.0
/*
 * The unwind tables of binaries, found by the binaries' indices. Worker threads build them, beginning with
 * those that samples need. Finished tables are stored in the arena, within its budget. When the arena is
 * full, we evict the tables of one contiguous range: the one whose tables have been unused for longest.
 */
#ifndef PROFLET_UNWIND_TABLES_H
#define PROFLET_UNWIND_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/binary/registry.h"
#include "agent/proc/fair_queue.h"
#include "agent/unwind/arena.h"
#include "agent/unwind/generated.h"

struct buf;
struct code_times;
struct runtime_facts;
struct unwind_tables;
struct worker;

/* Builds submitted to the workers at a time. Few, because those not yet submitted can still be reordered. */
#define UNWIND_JOBS_MAX 16u
/* Of these, of one tenant. */
#define UNWIND_JOBS_OF_A_TENANT 4u

enum unwind_table_state {
	TABLE_ABSENT,	/* there is no such binary */
	TABLE_WAITING,	/* to be built */
	TABLE_BUILDING, /* on a worker */
	TABLE_READY,
	TABLE_NONE,    /* the binary has no call-frame information, or is not ELF */
	TABLE_FAILED,  /* could not be read or held in memory */
	TABLE_EVICTED, /* evicted, or there was no room for it; built again when a sample needs it */
};

/* A block of a binary's table in the arena. */
struct unwind_placed {
	uint64_t va, end; /* ELF virtual addresses */
	struct arena_block block;
};

struct binary_table {
	const struct binary *binary; /* borrowed */
	enum unwind_table_state state;
	bool urgent;	       /* a sample has hit the binary, or it is likely a runtime that is awaited */
	struct build_job *job; /* with the workers, not stuck there; NULL: none */
	struct fair_wait wait;
	bool stuck;   /* its job is blocked, and has not returned yet */
	bool put_off; /* not built, because a job is stuck on the same file system */
	bool tried;   /* built in spite of that */
	struct unwind_placed *placed;
	size_t n_placed;
	uint64_t last_used_ns; /* by a sample; CLOCK_MONOTONIC */
	uint64_t evicted_ns;   /* when the state became TABLE_EVICTED */
	uint64_t wait_ns;      /* it is not built again before that much time has passed since */
	uint64_t again_ns;     /* the same after a build that could not be made; 0: the last one could */
	uint64_t build_ns;
	uint64_t n_rows;
	struct generated *generated;	/* code without a file: what is known of it; owned; NULL: a file */
	struct generated_stats counted; /* what `generated` said of itself at the last build */
	bool refused;			/* nothing more will be known of that code */
	uint64_t not_before_ns, checked_ns; /* its next build; the last that compared it with the memory */
	uint64_t check_ns;		    /* between comparisons */
	struct code_heaps *heaps;	    /* of a HotSpot's code; owned; NULL: not known */
	struct code_times *times; /* of generated code that is given to other code; owned; NULL: other code */
	uint32_t change;	  /* unwind_tables_change() when its last build ended */
	/* What a build has found, whatever became of the table; owned; NULL: no runtime, or not known yet. */
	struct runtime_facts *runtime;
	bool runtime_logged; /* that some process's objects have another layout, or that none is known */
};

/* True when the table is not ready but may become so: a sample that needs it can wait. */
static inline bool binary_table_pending(const struct binary_table *f)
{
	return f->state == TABLE_WAITING || f->state == TABLE_BUILDING || f->state == TABLE_EVICTED;
}

/*
 * True when more may become known of the code at hand: of a binary whose table is pending, and of generated
 * code, of which new functions appear all the time.
 */
static inline bool binary_table_may_grow(const struct binary_table *f)
{
	return f->generated ? !f->refused && f->state != TABLE_FAILED : binary_table_pending(f);
}

struct unwind_tables_stats {
	uint64_t ready, built, failed, evicted, skipped_fdes;
	uint64_t stale; /* not built, or dropped, because the file has got other content */
	uint64_t rows, table_bytes, build_ns;
	uint64_t overdue;      /* builds that no sample waits for any longer: reading the file is blocked */
	uint32_t overdue_file; /* the last of these */
	uint64_t costly;       /* the same: the build takes too much CPU time */
	uint32_t costly_file;
	uint64_t put_off;      /* builds not tried, because one is stuck on the same file system */
	uint64_t no_room;      /* finished tables for which eviction could make no room */
	uint32_t no_room_file; /* the last of these */
	/*
	 * parts of generated code that were analysed; that had changed since; addresses that could not be
	 * read
	 */
	uint64_t generated, generated_replaced, generated_refused;
};

/*
 * `ready` is called on the main loop, within worker_collect or unwind_tables_retry, after a build has
 * ended: the owner then publishes again the mappings that use the binary. Registry, arena and worker are
 * borrowed.
 */
int unwind_tables_new(struct unwind_tables **ret, struct binary_registry *binaries, struct arena *arena,
		      struct worker *worker, void (*ready)(void *data), void *data);
/* Call it before the registry is freed. */
void unwind_tables_free(struct unwind_tables *t);
/*
 * Registers the function that takes the table of a binary out of everything that is published. It is called
 * before the blocks of the table are retired. There is one such function, the publisher's.
 */
void unwind_tables_set_withdraw(struct unwind_tables *t, void (*withdraw)(uint32_t binary, void *data),
				void *data);
/*
 * Registers the function that gets what a job has found beside rows in the generated code of the binary
 * (generated_found, generated_lines); before `ready` is called.
 */
void unwind_tables_set_found(struct unwind_tables *t,
			     void (*found)(uint32_t binary, const struct generated *g, void *data),
			     void *data);
struct binary_registry *unwind_tables_binaries(const struct unwind_tables *t);
/* Queues the build of the binary's table. Does nothing for a binary that was added before. */
void unwind_tables_add(struct unwind_tables *t, uint32_t index);
/*
 * Generated code is followed: code that is in no ELF file is TABLE_PENDING until it was analysed, instead of
 * TABLE_NEVER. Call it before anything is published.
 */
void unwind_tables_follow_generated(struct unwind_tables *t);
bool unwind_tables_follows_generated(const struct unwind_tables *t); /* false for NULL */
/* Like unwind_tables_add, for a binary that stands for the generated code of a process. 0 or -ENOMEM. */
int unwind_tables_add_generated(struct unwind_tables *t, uint32_t index, uint32_t pid);
/* Code of such a binary has run that is not known: it is analysed soon. */
void unwind_tables_request(struct unwind_tables *t, uint32_t index, const struct generated_request *request);
/*
 * The line is wanted at which a function of V8 begins, of that process. False: it cannot be requested now, or
 * the binary is that of another process.
 */
bool unwind_tables_request_line(struct unwind_tables *t, uint32_t index, uint32_t pid,
				const struct v8_layout *layout, const struct v8_line_wish *wish);
/* The same of code that V8 has compiled (generated_request_v8_code). */
bool unwind_tables_request_v8_code(struct unwind_tables *t, uint32_t index, uint32_t pid,
				   const struct v8_process *process, const struct vm_wanted *wanted);
/* The table of such a binary that is in the arena was published. */
void unwind_tables_published(struct unwind_tables *t, uint32_t index);
/* Nothing more will be known of such a binary: samples no longer wait for it. */
void unwind_tables_refuse(struct unwind_tables *t, uint32_t index);
/* True while a build of such a binary runs or waits, for requests that a sample has made. */
bool unwind_tables_requested(const struct unwind_tables *t, uint32_t index);
/* The binary has a descriptor again: a build that failed without one is queued again. */
void unwind_tables_reopened(struct unwind_tables *t, uint32_t index);
/* The state of the binary's table, NULL if it was not added. Borrowed until the binary is forgotten. */
struct binary_table *unwind_tables_get(const struct unwind_tables *t, uint32_t index);
/*
 * A sample has a frame in the binary: its table is in use. If it is not built yet, its build goes first. If
 * it was put off, it is tried now and then.
 */
void unwind_tables_touch(struct unwind_tables *t, uint32_t index, uint64_t now_ns);
/*
 * Builds for binaries that are likely language runtimes go first, the smallest before the others: frames of a
 * language, a sample has only once its runtime is known. Of many such binaries, for some of each tenant.
 */
void unwind_tables_prefer_runtimes(struct unwind_tables *t);
/* Whether one of these may still become known, after a call of unwind_tables_prefer_runtimes. */
bool unwind_tables_expects_runtimes(const struct unwind_tables *t);
/* Submits queued builds to the workers. Call it after adding binaries, and after worker_collect. */
void unwind_tables_pump(struct unwind_tables *t);
/* Counts builds that ended. A list made before the last change of one of its binaries is outdated. */
uint32_t unwind_tables_change(const struct unwind_tables *t);
/*
 * Evicts tables so that `len` contiguous bytes become free, and reserves these for the caller, who calls
 * arena_claim after the next grace period. 0, -ENOSPC (nothing was evicted), -ENOMEM.
 */
int unwind_tables_make_room(struct unwind_tables *t, size_t len, struct arena_hold *ret);
/* Stores the finished tables for which eviction has made room. Call it after a grace period. */
void unwind_tables_retry(struct unwind_tables *t);
/* The binary's file has got other content, though it may still be mapped: its table is dropped. */
void unwind_tables_stale(struct unwind_tables *t, uint32_t index);
/* Builds that are queued or with a worker. */
size_t unwind_tables_pending(const struct unwind_tables *t);
/*
 * Drops the table, because the index is about to be given to another binary. The table is taken out of all
 * published lists at once. No job can be working on it, since a job has a reference to its binary.
 */
void unwind_tables_forget(struct unwind_tables *t, uint32_t index);
void unwind_tables_stats(const struct unwind_tables *t, struct unwind_tables_stats *ret);

#endif
