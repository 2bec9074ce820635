// SPDX-License-Identifier: Apache-2.0
/*
 * The binaries that are mapped somewhere, by file index: identity, segments, unwind table, and an open
 * descriptor (the process may be gone when names are wanted). Tables are built by worker threads, those that
 * samples need first, and live in the arena under its budget: when it is full, the tables unused for longest
 * go. Rank 2.
 *
 * Same device, inode, mtime and size, or same build id and size: same file index.
 */
#ifndef PROFLET_UNWIND_CACHE_H
#define PROFLET_UNWIND_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "agent/base/frame.h"
#include "agent/elf/file/elf_image.h"
#include "agent/unwind/arena.h"

struct proc_root;
struct unwind_cache;
struct worker;

#define UNWIND_JOBS_MAX \
	16u /* files with the workers at a time: what waits behind them can still change places */

enum unwind_table_state {
	TABLE_WAITING,	/* to be built */
	TABLE_BUILDING, /* on a worker */
	TABLE_READY,
	TABLE_NONE,    /* the file has no call-frame information, or is not ELF */
	TABLE_FAILED,  /* could not be read or held in memory */
	TABLE_EVICTED, /* was ready; built again when a sample needs it */
};

/* A block of a file's table in the arena. */
struct unwind_placed {
	uint64_t va, end; /* ELF virtual addresses */
	struct arena_block block;
};

struct unwind_file {
	uint32_t index;
	enum unwind_table_state state;
	bool urgent;
	bool stuck;    /* its job has run too long, and is not back yet */
	bool put_off;  /* not tried: it is on the file system of one that is stuck */
	uint64_t size; /* bytes */
	dev_t dev;
	int fd;	      /* names the file, may have O_PATH: jobs open it anew, and only they; -1 for none */
	int debug_fd; /* its separate debug file, when rows come from there; -1 */
	int names_fd; /* the same, when it has names that the file lacks; it may have O_PATH; -1 */
	uint64_t names_delta;	/* to be added to the addresses there */
	struct proc_root *root; /* where that may be, until it was looked for; one reference; NULL: nowhere */
	bool searched;		/* for it */
	struct elf_segment *segments;
	size_t n_segments;
	struct unwind_placed *placed;
	size_t n_placed;
	uint64_t last_used_ns; /* by a sample; CLOCK_MONOTONIC */
	uint64_t evicted_ns;   /* when its table found no room, or gave it to another */
	uint64_t build_ns;
	uint64_t n_rows;
	uint32_t change;	    /* unwind_cache_change() when its table came or went last */
	struct frame_module module; /* strings owned */
};

/* Its table is not there now, and may come: what needs it can wait. */
static inline bool unwind_file_pending(const struct unwind_file *f)
{
	return f->state == TABLE_WAITING || f->state == TABLE_BUILDING || f->state == TABLE_EVICTED;
}

struct unwind_cache_stats {
	uint64_t files, ready, built, failed, evicted, full, skipped_fdes;
	uint64_t rows, table_bytes, build_ns;
	uint64_t overdue;      /* tables given up because their files did not answer in time */
	uint32_t overdue_file; /* the last of these */
	uint64_t put_off;      /* and those on the same file systems that were not tried */
	uint64_t debug_files;  /* tables that needed a separate debug file and found it */
	uint64_t names_files;  /* files whose separate debug file has names that they lack */
};

/*
 * `ready` is called (from unwind_cache_pump's thread, the main loop's) after tables came or went: mappings
 * that use the cache's files are to be published again, and unwind_cache_published called then. arena and
 * worker are borrowed.
 */
int unwind_cache_new(struct unwind_cache **ret, struct arena *arena, struct worker *worker,
		     uint32_t max_files, void (*ready)(void *data), void *data);
void unwind_cache_free(struct unwind_cache *c);
/* Both steps for an open file that can be read without delay; takes the fd. 0, -ENFILE at max_files
 * (counted), -ENOMEM. */
int unwind_cache_add(struct unwind_cache *c, int fd, const struct stat *st, const char *path, uint32_t *ret);
/* The index of the file that stat(2) describes so, 0 when it is not known. */
uint32_t unwind_cache_known(const struct unwind_cache *c, const struct stat *st);
/* Puts in what unwind_file_new has made of a file that is not known; takes it, also on failure. 0 or -ENFILE.
 */
int unwind_cache_enter(struct unwind_cache *c, struct unwind_file *f, const struct stat *st, uint32_t *ret);
/* A new file, whose separate debug file has not been looked for: unwind_cache_set_root may say where. */
bool unwind_cache_wants_root(const struct unwind_cache *c, uint32_t index);
/* Its debug file is looked for below this root, which it takes a reference of, while the first table is made.
 */
void unwind_cache_set_root(struct unwind_cache *c, uint32_t index, struct proc_root *root);
/* A file with this GNU build id (hex), or of this device and inode, 0 when there is none. For processes that
 * are gone. */
uint32_t unwind_cache_find(const struct unwind_cache *c, const char *build_id);
uint32_t unwind_cache_find_inode(const struct unwind_cache *c, dev_t dev, uint64_t inode);
/* The file with this index, NULL when there is none. Borrowed until unwind_cache_sweep. */
struct unwind_file *unwind_cache_file(const struct unwind_cache *c, uint32_t index);
/* A sample has a frame in it: it is in use, and without a table it goes to the front of the queue. */
void unwind_cache_touch(struct unwind_cache *c, uint32_t index, uint64_t now_ns);
/* Gives waiting files to the workers. Call after adding, and after worker_collect. */
void unwind_cache_pump(struct unwind_cache *c);
/* Counts tables that came or went: a list made before a file's last one is out of date. */
uint32_t unwind_cache_change(const struct unwind_cache *c);
/* Every mapping list that was out of date is published anew: tables that went are retired. */
void unwind_cache_published(struct unwind_cache *c);
/* Tables that found the arena full are tried again. Call after a grace period. */
void unwind_cache_retry(struct unwind_cache *c);
/* Files that wait for, or are at, a worker. */
size_t unwind_cache_pending(const struct unwind_cache *c);
/*
 * Forgets the files that `used` (max_files + 1 flags by index) does not mark and no sample used since
 * before_ns; calls fn with each index first.
 */
void unwind_cache_sweep(struct unwind_cache *c, const uint8_t *used, uint64_t before_ns,
			void (*fn)(uint32_t index, void *data), void *data);
void unwind_cache_stats(const struct unwind_cache *c, struct unwind_cache_stats *ret);

#endif
