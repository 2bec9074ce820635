// SPDX-License-Identifier: Apache-2.0
/*
 * Why the process table may differ from what runs on the host. A module that loses a change notes the reason
 * here; all of /proc is then read again (rescans.h).
 */
#ifndef PROFLET_TRACK_GAPS_H
#define PROFLET_TRACK_GAPS_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, text). The text is the metric's label. */
#define GAPS(X)                                                                       \
	X(EVENTS, "events_lost")    /* process events are missing */                  \
	X(CPU_CAME, "cpu_online")   /* a CPU ran tasks before its events were read */ \
	X(NO_MEMORY, "no_memory")   /* a change was known, but could not be stored */ \
	X(NOT_OPENED, "not_opened") /* a mapped file was not, as descriptors were short */

enum gap {
#define X(name, text) GAP_##name,
	GAPS(X)
#undef X
		GAPS_N
};

struct gaps {
	uint64_t n[GAPS_N];
	bool open; /* since the last rescan began */
};

static inline void gap_note(struct gaps *g, enum gap why)
{
	g->n[why]++;
	g->open = true;
}

#endif
