// SPDX-License-Identifier: Apache-2.0
/*
 * String objects of CPython (PEP 393), as bytes that were read in a process: → UTF-8. Pure. Rank 3; may
 * include agent/elf.
 */
#ifndef PROFLET_RUNTIME_CPYTHON_TEXT_H
#define PROFLET_RUNTIME_CPYTHON_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct buf;
struct cpython_layout;

#define CPYTHON_TEXT_ELLIPSIS "\xe2\x80\xa6" /* the end of a text that was cut */

/*
 * Appends the text of the string object whose first `len` bytes are at `object`. Control characters (C0, DEL,
 * C1) and those that reorder text (U+202A to U+202E, U+2066 to U+2069) become '?', surrogates and what is no
 * character U+FFFD; if the string goes on behind the bytes, "…" follows. 1 if so, 0 if the text is whole;
 * -ENODATA: not even the beginning of the text is there; -ENOTSUP: no string of a form that names have;
 * -ENOMEM, -EOVERFLOW. On error, nothing is appended.
 */
int cpython_text_append(struct buf *out, const struct cpython_layout *layout, const uint8_t *object,
			size_t len);

#endif
