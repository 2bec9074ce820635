// SPDX-License-Identifier: Apache-2.0
/*
 * Requests on disk, for the time that the Collector is away: a folder with one file per request, in order. It
 * survives kill -9 and reboot: a file gets its name only when it is complete and on the disk; a file that is
 * damaged nevertheless is skipped and counted. Rank 1 (otlp).
 *
 * A name is SEQUENCE-SAMPLES.otlp, 16 hexadecimal digits and a decimal number: the order does not depend on a
 * clock, and the samples in a damaged file can be counted. A lock on the file `lock` gives one spool
 * exclusive use of the folder.
 *
 * Blocking, one thread; the exporter calls it from the export thread. The counters in otlp_spool_stats
 * satisfy, for samples and for requests: recovered + stored = removed + full + damaged + held.
 */
#ifndef PROFLET_OTLP_SPOOL_H
#define PROFLET_OTLP_SPOOL_H

#include <stdint.h>

#include "agent/base/cleanup.h"
#include "otlp/request.h"

#define OTLP_SPOOL_FILES_MAX 65536u
#define OTLP_SPOOL_BLOCK 4096u /* a file counts for a multiple of this */

struct otlp_spool;

struct otlp_spool_count {
	uint64_t recovered; /* found when the folder was opened */
	uint64_t stored, removed;
	uint64_t full;	  /* the oldest, dropped because the spool was full */
	uint64_t damaged; /* could not be read back */
	uint64_t held;
};

struct otlp_spool_stats {
	struct otlp_spool_count samples, requests;
	uint64_t bytes, max_bytes; /* of the files, in blocks */
	uint64_t failures;	   /* writes and removals that the file system refused */
	/* Entries of the folder that are not the spool's; they are left alone and take no room in it. */
	uint64_t foreign;
};

/*
 * Opens the folder, and creates it (mode 0700) if its parent exists; waits up to `wait_ns` for another
 * process that uses it. 0; -EBUSY: it still does; -ENOMEM; -EPERM, -ELOOP: see spool_folder_error; -EROFS,
 * -EACCES, -ENOENT, -ENOTDIR, -ENOSPC … of the file system.
 */
int otlp_spool_open(struct otlp_spool **ret, const char *path, uint64_t max_bytes, uint64_t wait_ns);
void otlp_spool_close(struct otlp_spool *s); /* NULL is fine; the files remain on disk */

/*
 * Writes the request as the newest file, and drops the oldest files if there is no room. The caller still
 * owns the request. 0; -EFBIG: larger than the whole spool; -ENOSPC, -EROFS, -EIO …: it was not stored.
 */
int otlp_spool_put(struct otlp_spool *s, const struct otlp_request *r);
/*
 * Reads the oldest request, owned by the caller; removes damaged files before it. 0; -ENOENT: there is none;
 * -ENOMEM, -EMFILE, -ENFILE.
 */
int otlp_spool_oldest(struct otlp_spool *s, struct otlp_request **ret);
/*
 * Removes the oldest request. 0; -errno: the spool has forgotten it, but the file still exists and would be
 * found at the next start.
 */
int otlp_spool_remove(struct otlp_spool *s);

void otlp_spool_stats(const struct otlp_spool *s, struct otlp_spool_stats *ret);

DEFINE_CLEANUP(struct otlp_spool *, otlp_spool_close)
#define _cleanup_spool_ _cleanup_(otlp_spool_close_p)

#endif
