// SPDX-License-Identifier: Apache-2.0
/*
 * Requests on disk, for the time that the Collector is away: a folder of files, one a request, in order. It
 * outlives kill -9 and reboot: a file gets its name only when it is whole and on the disk, and what is torn
 * nevertheless is passed over and counted. Rank 1 (otlp).
 *
 * A name is SEQUENCE-SAMPLES.otlp, 16 hexadecimal digits and a decimal number: the order does not depend on
 * any clock, and the samples in a file can be counted though the file is damaged. One spool has a folder for
 * itself, by a lock on the file `lock`.
 *
 * Blocking, one thread; the exporter's calls come from the export thread. What happens here is counted in
 * otlp_spool_stats:  recovered + stored = removed + full + damaged + held, for samples and for requests.
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
	uint64_t full;	  /* oldest dropped for want of room */
	uint64_t damaged; /* could not be read back */
	uint64_t held;
};

struct otlp_spool_stats {
	struct otlp_spool_count samples, requests;
	uint64_t bytes, max_bytes; /* held, in blocks */
	uint64_t failures;	   /* writes and removals that the file system refused */
};

/*
 * Opens the folder, which is made (mode 0700) when its parent exists. 0; -EBUSY: another process has it;
 * -ENOMEM; -EROFS, -EACCES, -ENOENT, -ENOTDIR, -ENOSPC … of the file system.
 */
int otlp_spool_open(struct otlp_spool **ret, const char *path, uint64_t max_bytes);
void otlp_spool_close(struct otlp_spool *s); /* NULL is fine; what is held stays on disk */

/*
 * Writes the request behind the others and drops the oldest for it where there is no room. The request stays
 * the caller's. 0; -EFBIG: larger than the whole spool; -ENOSPC, -EROFS, -EIO …: it was not stored.
 */
int otlp_spool_put(struct otlp_spool *s, const struct otlp_request *r);
/* Reads the oldest; files that are damaged are removed on the way. 0 and a request of the caller's, -ENOENT:
 * none, -ENOMEM, -EMFILE, -ENFILE. */
int otlp_spool_oldest(struct otlp_spool *s, struct otlp_request **ret);
/* Removes the oldest. 0, or -errno: the spool has forgotten it, but the file is still there and would be
 * found at the next start. */
int otlp_spool_remove(struct otlp_spool *s);

void otlp_spool_stats(const struct otlp_spool *s, struct otlp_spool_stats *ret);

DEFINE_CLEANUP(struct otlp_spool *, otlp_spool_close)
#define _cleanup_spool_ _cleanup_(otlp_spool_close_p)

#endif
