// SPDX-License-Identifier: Apache-2.0
/*
 * Decodes the bytes that a terminal sends into keys (ECMA-48 control sequences as used by xterm and its
 * relatives). Sequences may arrive in pieces. Pure.
 */
#ifndef PROFLET_OUTPUT_KEYBOARD_H
#define PROFLET_OUTPUT_KEYBOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum output_key_code {
	OUTPUT_KEY_TEXT, /* a character */
	OUTPUT_KEY_UP,
	OUTPUT_KEY_DOWN,
	OUTPUT_KEY_LEFT,
	OUTPUT_KEY_RIGHT,
	OUTPUT_KEY_PAGE_UP,
	OUTPUT_KEY_PAGE_DOWN,
	OUTPUT_KEY_HOME,
	OUTPUT_KEY_END,
	OUTPUT_KEY_TAB,
	OUTPUT_KEY_BACK_TAB,
	OUTPUT_KEY_ENTER,
	OUTPUT_KEY_BACKSPACE,
	OUTPUT_KEY_ESCAPE,
	OUTPUT_KEY_INTERRUPT, /* Ctrl-C, where it sends no signal */
	OUTPUT_KEY_REDRAW,    /* Ctrl-L */
	OUTPUT_KEY_CLEAR,     /* Ctrl-U */
};

struct output_key {
	enum output_key_code code;
	char text[5]; /* OUTPUT_KEY_TEXT: UTF-8 */
};

/* The bytes of an incomplete key. Zeroed at start. */
struct output_keys {
	char bytes[16];
	size_t n;
	bool overlong; /* the remaining bytes of the sequence are ignored */
};

/* Processes one byte. True when it completes a known key. */
bool output_keys_byte(struct output_keys *k, char byte, struct output_key *ret);
/* True when a key is incomplete. It may be Escape, whose byte also begins the sequences of other keys. */
static inline bool output_keys_pending(const struct output_keys *k)
{
	return k->n > 0;
}
/*
 * To be called when no byte has followed for a while. True: it was the Escape key; else the incomplete
 * sequence is discarded.
 */
bool output_keys_timeout(struct output_keys *k, struct output_key *ret);

#endif
