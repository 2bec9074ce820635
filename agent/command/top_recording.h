// SPDX-License-Identifier: Apache-2.0
/* The recording that `proflet top` writes: the stacks of what it shows, in the formats of `record`. */
#ifndef PROFLET_TOP_RECORDING_H
#define PROFLET_TOP_RECORDING_H

#include <stddef.h>
#include <stdint.h>

struct output_live;
struct output_live_query;

struct top_recording {
	const struct output_live *live;
	const struct output_live_query *query; /* what is shown */
	uint32_t frequency_hz;
	const char *hostname; /* NULL: unknown */
};

/*
 * Proposes a path in the working directory, of which no file exists: "proflet-top", "proflet-top-2" and so
 * on. Without a free one, the last that was tried.
 */
void top_recording_propose(char *ret, size_t size);
/*
 * Writes PATH.html, .folded, .pb.gz and .otlp, or one file if the path ends in the extension of a format.
 * Existing files are never replaced. `ret_said`: a line for the user in any case; `ret_names` (owned): the
 * names of what was written, each on a line. 0, -ENODATA (no samples: nothing is written), or -errno.
 */
int top_recording_write(const struct top_recording *t, const char *path, char *ret_said, size_t size,
			char **ret_names);

#endif
