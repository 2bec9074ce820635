// SPDX-License-Identifier: Apache-2.0
/*
 * Names come from foreign binaries and processes. Here they are made harmless once, on the way in, and
 * escaped where a format needs it, on the way out. Rank 2.
 */
#ifndef PROFLET_OUTPUT_TEXT_H
#define PROFLET_OUTPUT_TEXT_H

#include <stddef.h>
#include <stdio.h>

struct buf;

/*
 * Appends `s` as valid UTF-8 (RFC 3629) without control characters (C0, DEL, C1) and without the invisible
 * characters that reorder text (U+202A to U+202E, U+2066 to U+2069): each becomes '?', a malformed byte
 * U+FFFD. Longer than max_bytes: cut, the cut shown by "…". 0, -ENOMEM, -EOVERFLOW.
 */
int output_text_clean(struct buf *out, const char *s, size_t max_bytes);
/* Writes cleaned text as a JSON string that may stand inside an HTML script element. */
void output_text_json(FILE *f, const char *s);
/* Characters of cleaned text, taken as one column each. */
size_t output_text_columns(const char *s);
/* Bytes of the first `columns` characters. */
size_t output_text_bytes(const char *s, size_t columns);
/* Columns of cleaned text on a terminal: some characters take two, or none. */
size_t output_text_width(const char *s);
/* Bytes of as many characters as fit `columns` of a terminal, and of those that take none behind them. */
size_t output_text_fit(const char *s, size_t columns);

#endif
