// SPDX-License-Identifier: Apache-2.0
/* Strings of PHP (zend_string), as bytes that were read in a process: → UTF-8. Pure. Rank 3. */
#ifndef PROFLET_RUNTIME_PHP_TEXT_H
#define PROFLET_RUNTIME_PHP_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct buf;

/*
 * Appends the text of the string whose first `len` bytes are at `object`, up to its first NUL: behind that,
 * the name of an anonymous class has its file. Characters as text_character_put; bytes that are no UTF-8
 * become U+FFFD; if the string goes on behind the bytes, "…" follows. 1 if so, 0 if the text is whole;
 * -EBADMSG: there is no string; -ENOMEM, -EOVERFLOW. On error, nothing is appended.
 */
int php_text_append(struct buf *out, const uint8_t *object, size_t len);

#endif
