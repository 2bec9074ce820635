// SPDX-License-Identifier: Apache-2.0
/*
 * The screen of `proflet top`, without a terminal: what is shown (state), how keys change that, and the lines
 * that it comes to. Pure. Rank 2.
 */
#ifndef PROFLET_OUTPUT_SCREEN_H
#define PROFLET_OUTPUT_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/live.h"

struct buf;
struct output_key;

#define OUTPUT_SCREEN_FILTER_MAX 64 /* bytes */

/* Zeroed: functions of the window, by self. */
struct output_screen {
	enum output_live_view view;
	bool by_total, since_start, paused, help;
	bool editing; /* the filter */
	char filter[OUTPUT_SCREEN_FILTER_MAX];
	size_t scroll; /* rows above the first that is seen */
	size_t page;   /* rows that were seen last; set by output_screen_draw */
};

enum output_screen_effect {
	OUTPUT_SCREEN_NOTHING,
	OUTPUT_SCREEN_CHANGED, /* to be drawn again */
	OUTPUT_SCREEN_CLEARED, /* drawn again on a cleared terminal */
	OUTPUT_SCREEN_QUIT,
};

enum output_screen_effect output_screen_key(struct output_screen *s, const struct output_key *key);

/* The account beside the rows, of the interval that ended last unless it says otherwise. Strings are
 * borrowed and cleaned here; NULL: unknown. */
struct output_screen_head {
	const char *host, *time, *event;
	uint32_t frequency_hz; /* per CPU */
	unsigned n_cpus;
	uint64_t running_ns;
	double busy; /* part of the CPUs' time, 0 to 1 */
	double samples_per_second;
	uint64_t dropped, dropped_ever; /* without those that nobody asked for; ever: since the start */
	const char *drops;		/* of these, by reason: "ring_full 3" */
	size_t n_processes;		/* that there are */
	uint64_t left_out;		/* samples, while it was paused */
	const char *message;		/* the last line of the log */
};

struct output_screen_size {
	unsigned columns, lines;
	bool colour;
	bool plain; /* no terminal: the table alone, `lines` rows at most, and a blank line */
};

/*
 * Appends the lines of a screen, at most size->lines, without a newline behind the last; or a plain table.
 * Corrects the state's scroll and page. 0 or -ENOMEM.
 */
int output_screen_draw(struct output_live *l, const struct output_screen_head *head, struct output_screen *s,
		       const struct output_screen_size *size, struct buf *out);

#endif
