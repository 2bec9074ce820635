// SPDX-License-Identifier: Apache-2.0
/*
 * The terminal as a full screen: the alternate screen, raw input on the event loop, output that never holds
 * the loop up (a frame that the terminal is too slow for is left out), and everything as it was afterwards.
 * What is written to stderr meanwhile (the log) is kept beside, and shown when the screen is left. Rank 3.
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
	/* Negative ends the loop. */
	int (*key)(const struct output_key *key, void *data);
	int (*ended)(void *data); /* there is no input any more */
	void *data;
};

/* Whether stdin and stdout are a terminal that can more than print lines. */
bool terminal_usable(void);
/* Takes the terminal over. 0 or -errno; it is as it was then. */
int terminal_open(struct terminal **ret, const struct terminal_options *options);
/* Gives it back. NULL is fine. */
void terminal_close(struct terminal *t);
/* As it is now. */
void terminal_size(const struct terminal *t, unsigned *ret_columns, unsigned *ret_lines);
/* Shows lines, separated by '\n', from the top: as many as the screen has. */
void terminal_show(struct terminal *t, const char *lines);
/* Clears the screen before the next frame: somebody else has drawn on it. */
void terminal_clear(struct terminal *t);
/* Gives the terminal back, stops the process as SIGTSTP does, and takes it over again when it goes on. */
void terminal_suspend(struct terminal *t);
/* The process goes on, after a stop that nobody announced. */
void terminal_resumed(struct terminal *t);
/* The last line on stderr, NULL: none. Borrowed until the loop goes on. */
const char *terminal_message(const struct terminal *t);

#endif
