// SPDX-License-Identifier: Apache-2.0
/*
 * Text for display. Names come from foreign binaries and processes. They are cleaned once, when they come in,
 * and escaped by each writer as its format requires. Also measures the width of text.
 */
#ifndef PROFLET_OUTPUT_DISPLAY_TEXT_H
#define PROFLET_OUTPUT_DISPLAY_TEXT_H

#include <stddef.h>
#include <stdio.h>

struct buf;

/*
 * Appends `s` as valid UTF-8 (RFC 3629) without control characters (C0, DEL, C1) and without the invisible
 * characters that reorder text (U+202A to U+202E, U+2066 to U+2069): each becomes '?', a malformed byte
 * U+FFFD. A text longer than max_bytes is cut and ends in "…". 0, -ENOMEM, -EOVERFLOW.
 */
int output_text_clean(struct buf *out, const char *s, size_t max_bytes);
/* Writes cleaned text as a JSON string that is safe inside an HTML script element. */
void output_text_json(FILE *f, const char *s);
/*
 * The end of a source file's path that is enough to tell it: its last component, with the folder if every
 * folder may have a file of that name ("__init__.py"). A part of `path`.
 */
const char *output_text_file(const char *path);
/* Number of characters of cleaned text. */
size_t output_text_columns(const char *s);
/* Number of bytes of the first `columns` characters. */
size_t output_text_bytes(const char *s, size_t columns);
/* Width of cleaned text in columns of a terminal: some characters take two, or none. */
size_t output_text_width(const char *s);
/* Number of bytes that fit into `columns` columns of a terminal, with zero-width characters that follow. */
size_t output_text_fit(const char *s, size_t columns);

#endif
