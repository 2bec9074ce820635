// SPDX-License-Identifier: Apache-2.0
/*
 * The screen of `proflet top`, independent of a terminal: the state (what is shown), how keys change it, and
 * the lines to draw. Pure.
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
#define OUTPUT_SCREEN_PATH_MAX 256
#define OUTPUT_SCREEN_NOTICE_MAX 512
#define OUTPUT_SCREEN_LEVELS_MAX 16

enum output_screen_subject {
	OUTPUT_SCREEN_NO_SUBJECT,
	OUTPUT_SCREEN_FUNCTION,
	OUTPUT_SCREEN_PROCESS,
	OUTPUT_SCREEN_CONTAINER,
};

/* What a row is about. Texts are those of the row; a cut one has a mark behind its maximum. */
struct output_screen_place {
	enum output_screen_subject subject;
	uint32_t pid;
	char name[OUTPUT_LIVE_MAX_NAME + 8]; /* of the function or the process */
	char module[OUTPUT_LIVE_MAX_NAME + 8];
	char container[OUTPUT_LIVE_MAX_NAME + 8], container_name[OUTPUT_LIVE_MAX_NAME + 8];
};

/* A row that was opened, and where the screen was then. */
struct output_screen_level {
	struct output_screen_place place;
	size_t cursor, scroll;
	char filter[OUTPUT_SCREEN_FILTER_MAX];
};

/* Zeroed: functions of the window, sorted by self. */
struct output_screen {
	enum output_live_view view;
	bool by_total, since_start, paused, help;
	bool editing; /* the filter */
	char filter[OUTPUT_SCREEN_FILTER_MAX];
	bool naming; /* a recording: its path is edited */
	char path[OUTPUT_SCREEN_PATH_MAX];
	char notice[OUTPUT_SCREEN_NOTICE_MAX]; /* shown until the next key */
	size_t help_scroll;
	size_t cursor; /* index of the selected row */
	size_t scroll; /* index of the first visible row */
	size_t page;   /* number of visible rows; set by output_screen_draw */
	/* The row at the cursor, as it was drawn: a table may have other rows when the key comes. */
	struct output_screen_place selected;
	/* Rows that have been opened, each within those before it. */
	struct output_screen_level levels[OUTPUT_SCREEN_LEVELS_MAX];
	size_t n_levels;
};

enum output_screen_effect {
	OUTPUT_SCREEN_NOTHING,
	OUTPUT_SCREEN_CHANGED, /* draw again */
	OUTPUT_SCREEN_CLEARED, /* clear the terminal and draw again */
	OUTPUT_SCREEN_NAME,    /* the user wants a recording: propose a path, draw again */
	OUTPUT_SCREEN_WRITE,   /* write it to `path`, say so in `notice`, end `naming` if it worked; draw */
	OUTPUT_SCREEN_QUIT,
};

enum output_screen_effect output_screen_key(struct output_screen *s, const struct output_key *key);
/* What the table shows; *scope is filled in if the query needs it. Borrowed from the screen. */
struct output_live_query output_screen_query(const struct output_screen *s, struct output_live_scope *scope);

/*
 * The numbers above the rows, for the last interval unless stated otherwise. Strings are borrowed, and
 * cleaned when drawn; NULL: unknown.
 */
struct output_screen_head {
	const char *host, *time, *event;
	uint32_t frequency_hz; /* per CPU */
	unsigned n_cpus;
	uint64_t running_ns;
	double busy; /* fraction of the CPUs' time, 0 to 1 */
	double samples_per_second;
	uint64_t dropped, dropped_ever; /* of selected processes only; dropped_ever: since the start */
	const char *drops;		/* dropped_ever by reason: "ring_full 3" */
	size_t n_processes;		/* known processes */
	uint64_t left_out;		/* samples not shown because of a pause */
	const char *message;		/* the last line of the log */
};

struct output_screen_size {
	unsigned columns, lines;
	bool colour;
	bool plain; /* no terminal: only the table, at most `lines` rows, and a blank line */
};

/*
 * Appends the lines of a screen, at most size->lines, without a newline after the last; or a plain table.
 * Corrects the state's cursor, scroll and page, and sets `selected`. 0 or -ENOMEM.
 */
int output_screen_draw(struct output_live *l, const struct output_screen_head *head, struct output_screen *s,
		       const struct output_screen_size *size, struct buf *out);

#endif
