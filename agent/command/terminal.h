// SPDX-License-Identifier: Apache-2.0
/*
 * The terminal as a full screen: alternate screen, raw input on the event loop, and output that never blocks
 * the loop (frames are skipped while the terminal is too slow). Closing restores everything. Text written to
 * stderr meanwhile (the log) is captured, and printed when the screen is left.
 */
#ifndef PROFLET_TERMINAL_H
#define PROFLET_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

struct loop;
struct output_key;
struct terminal;

struct terminal_options {
	struct loop *loop; /* outlives the terminal */
	/* A key was pressed. A negative result ends the loop. */
	int (*key)(const struct output_key *key, void *data);
	int (*ended)(void *data); /* end of input */
	void *data;
};

/* Whether stdin and stdout are a terminal with cursor control. */
bool terminal_usable(void);
/* Takes over the terminal. 0, or -errno with the terminal unchanged. */
int terminal_open(struct terminal **ret, const struct terminal_options *options);
/* Restores it. NULL is fine. */
void terminal_close(struct terminal *t);
/* Its size now. */
void terminal_size(const struct terminal *t, unsigned *ret_columns, unsigned *ret_lines);
/* Shows lines, separated by '\n', from the top. At most as many as the screen has. */
void terminal_show(struct terminal *t, const char *lines);
/* Clears the screen before the next frame, when something else may have drawn on it. */
void terminal_clear(struct terminal *t);
/* Restores the terminal, stops the process as SIGTSTP does, and takes over again when it continues. */
void terminal_suspend(struct terminal *t);
/* To call when the process continues after a stop that came without SIGTSTP. */
void terminal_resumed(struct terminal *t);
/* The last line written to stderr, NULL: none. Borrowed until the loop runs. */
const char *terminal_message(const struct terminal *t);

#endif
