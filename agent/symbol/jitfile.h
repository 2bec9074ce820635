// SPDX-License-Identifier: Apache-2.0
/*
 * The file that a runtime lists its code in, read on from where it was left: on a worker thread, while nobody
 * else has the source. Inside symbol/ only. Rank 2.
 */
#ifndef PROFLET_SYMBOL_JITFILE_H
#define PROFLET_SYMBOL_JITFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/proc/status.h"
#include "agent/symbol/jitdump.h"
#include "agent/symbol/jittable.h"
#include "agent/symbol/perfmap.h"

#define JIT_FILE_MAX (1ull << 30)  /* bytes of a file; what is behind is not read */
#define JIT_LOOK_MAX (64ull << 20) /* bytes read at a time; the next look goes on */
#define JIT_TAIL_BYTES 64u

struct jit_source {
	bool dump; /* jitdump; else a perf map */
	int fd;	   /* owned; -1: none yet */
	dev_t dev;
	ino_t ino;
	uint64_t offset; /* up to which it was read; behind its end where the last code is not there yet */
	uint64_t seen;	 /* its length then */
	uint8_t tail[JIT_TAIL_BYTES]; /* what stands before that: a file written anew is another one */
	unsigned tail_bytes;
	struct perfmap map;
	struct jitdump jitdump;
};

/* Whose the file has to be. */
struct jit_owner {
	struct proc_status status;
	uint64_t started_unix_ns; /* a map that was written last before is of an earlier process */
};

struct jit_look {
	struct jit_table *table; /* owned; NULL: nothing has changed */
	uint64_t n_bad, n_cut;	 /* entries that make no sense; that there was no room for */
	bool over;		 /* the file is longer than JIT_FILE_MAX */
};

void jit_source_init(struct jit_source *s, bool dump);
void jit_source_fini(struct jit_source *s);
/* It is read from its start at the next look. */
void jit_source_rewind(struct jit_source *s);
/*
 * Opens the process's perf map below its root. The folder's other users may have put anything there: only a
 * regular file with one name is taken, of the process's user or root, and no symbolic link is followed. A
 * descriptor, -EACCES: it is somebody else's, -ESTALE: it is older than the process, another -errno.
 */
int jit_perfmap_open(int root_fd, const struct jit_owner *owner);
/*
 * Reads what is new. `fd` (owned by the call, -1: none) is the file as it is found now; without one the file
 * that was found before is read on. *ret is what came of it, with `old` (borrowed, NULL: nothing) as what was
 * known. 0 or -errno; *ret is valid either way.
 */
int jit_source_look(struct jit_source *s, int fd, const struct jit_table *old, struct jit_look *ret);

#endif
