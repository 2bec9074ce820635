// SPDX-License-Identifier: Apache-2.0
/*
 * Keys of a terminal, from the bytes that it sends (ECMA-48 control sequences as xterm and its relatives use
 * them). Bytes come in any portions: a sequence may be cut anywhere. Pure. Rank 2.
 */
#ifndef PROFLET_OUTPUT_KEYS_H
#define PROFLET_OUTPUT_KEYS_H

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
	OUTPUT_KEY_INTERRUPT, /* Ctrl-C, where it is no signal */
	OUTPUT_KEY_REDRAW,    /* Ctrl-L */
	OUTPUT_KEY_CLEAR,     /* Ctrl-U */
};

struct output_key {
	enum output_key_code code;
	char text[5]; /* OUTPUT_KEY_TEXT: UTF-8, as it came */
};

/* The bytes of a key that is not whole yet. Zeroed at start. */
struct output_keys {
	char bytes[16];
	size_t n;
	bool overlong; /* the rest of the sequence is left out */
};

/* Takes one byte. True when it ends a key that is known. */
bool output_keys_byte(struct output_keys *k, char byte, struct output_key *ret);
/* A key is not whole: Escape sends the byte that the sequences of other keys begin with. */
static inline bool output_keys_pending(const struct output_keys *k)
{
	return k->n > 0;
}
/* Nothing has followed for a while. True: it was the Escape key; else what is pending is left out. */
bool output_keys_timeout(struct output_keys *k, struct output_key *ret);

#endif
