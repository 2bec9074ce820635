// SPDX-License-Identifier: Apache-2.0
/*
 * Pairs segments of Perl's frames with the native frames of the loops that run them. Neither has a mark of
 * the other, but both know who called: a segment by what it begins with, a loop by its caller's code, and by
 * whether that caller has a place to jump to on its stack. Pure.
 */
#ifndef PROFLET_SAMPLE_PAIRING_H
#define PROFLET_SAMPLE_PAIRING_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/sample/decode.h"

#define PAIRING_LOOPS_MAX 128u /* of a stack; more stay native frames */
#define PAIRING_SEGMENTS_MAX (RUNTIME_SEGMENTS_MAX + PAIRING_LOOPS_MAX)

/* What code a native frame runs, as far as pairing needs to know. */
enum pairing_role {
	PAIRING_OTHER,
	PAIRING_LOOP,
	PAIRING_CALL,	/* calls a function */
	PAIRING_STRING, /* evaluates a text */
	PAIRING_RUN,	/* runs the program */
	PAIRING_PARSE,	/* reads the program */
};

typedef enum pairing_role (*pairing_role_fn)(uint64_t word, void *data);

struct pairing {
	/*
	 * In their order: the frames' words before `end`, and the native frame that they go before, which
	 * they replace if `kind` is 0; or RUNTIME_NOT_TIED. Those of loops that run nothing are empty.
	 */
	struct runtime_segment segments[PAIRING_SEGMENTS_MAX];
	uint32_t n_segments;
	uint32_t n_words;
	bool uncertain;
	uint64_t words[2 * RUNTIME_FRAMES_MAX];
};

/*
 * Pairs the segments of `v`. Frames that no loop runs are left out where the native stack is whole: of a
 * function about to be called, of one that native code calls for each element but not just now, and of the
 * program in a thread that does not run it.
 */
void sample_pair(struct pairing *ret, const struct sample_view *v, pairing_role_fn role, void *data);
/* The same with the segments of Lua's coroutines. A function that no loop runs yet is left out. */
void sample_pair_states(struct pairing *ret, const struct sample_view *v);

#endif
