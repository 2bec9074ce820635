// SPDX-License-Identifier: Apache-2.0
/* Texts that a process has as UTF-8, or means to have: → valid UTF-8. Pure. Rank 3. */
#ifndef PROFLET_RUNTIME_UTF8_TEXT_H
#define PROFLET_RUNTIME_UTF8_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define UTF8_TEXT_ELLIPSIS "\xe2\x80\xa6" /* the end of a text that was cut */

/*
 * Appends the text: characters as text_character_put, bytes that are no UTF-8 become U+FFFD. If the text was
 * `cut` behind these bytes, a character that was cut with it is left out, and "…" follows. 0, -ENOMEM,
 * -EOVERFLOW. On error, nothing is appended.
 */
int utf8_text_append(struct buf *out, const uint8_t *text, size_t len, bool cut);
/* Whether the text is UTF-8, but for a character that was cut. */
bool utf8_text_is(const uint8_t *text, size_t len, bool cut);

#endif
