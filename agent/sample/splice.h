// SPDX-License-Identifier: Apache-2.0
/*
 * Puts the frames of a language runtime among the native frames of a sample, each segment where the frame of
 * the interpreter's loop is that runs it. Pure.
 */
#ifndef PROFLET_SAMPLE_SPLICE_H
#define PROFLET_SAMPLE_SPLICE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/sample/decode.h"
#include "agent/sample/pairing.h"

#define SPLICE_WORDS_MAX (KERNEL_FRAMES_MAX + USER_FRAMES_MAX + 2 * RUNTIME_FRAMES_MAX)

struct splice_options {
	bool loop_frames; /* keep the native frames of the loop */
	/* Whether a native frame may be the loop of the process's runtime; NULL: unknown. */
	bool (*is_loop)(uint64_t word, void *data);
	/* Whether it is a part of the loop that stands for no functions; NULL: there are none. */
	bool (*is_inner_loop)(uint64_t word, void *data);
	/* Whether the frame that this one, a loop with functions, has called is such a part; NULL: never. */
	bool (*calls_inner_loop)(uint64_t word, void *data);
	/*
	 * A sample has no frames of a runtime: if this native frame is a loop whose functions should be
	 * there, why they are not, as ending_detail(); else 0. NULL: unknown.
	 */
	uint32_t (*missing)(const struct sample_view *v, uint64_t word, void *data);
	pairing_role_fn role; /* of a native frame, for Perl; NULL: unknown */
	void *data;
};

struct splice_stats {
	uint64_t samples;		     /* with frames of a runtime */
	uint64_t uncertain;		     /* of these, the place of some frames is not certain */
	uint64_t cut[RUNTIME_REASONS_N];     /* of these, the list was not followed to its end, by reason */
	uint64_t missing[RUNTIME_REASONS_N]; /* without frames of a runtime, but with its loop, by reason */
};

struct splice {
	struct splice_options options;
	struct splice_stats stats;
	struct runtime_segment segments[RUNTIME_FRAMES_MAX];
	struct pairing pairing;
	uint64_t words[SPLICE_WORDS_MAX];
};

/*
 * *ret is `v` with all frames in one stack; borrowed from `s` until the next call. A sample without frames of
 * a runtime has the frames that it had. If the native stack is whole but the list of frames is not, or is
 * missing, the ending is ENDING_RUNTIME.
 */
void sample_splice(struct splice *s, const struct sample_view *v, struct sample_view *ret);

#endif
