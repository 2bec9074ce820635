// SPDX-License-Identifier: Apache-2.0
/* Strings of V8, as a report has them (struct runtime_code), to UTF-8. Pure. */
#ifndef PROFLET_RUNTIME_V8_TEXT_H
#define PROFLET_RUNTIME_V8_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct buf;

#define V8_NAME_ANONYMOUS "(anonymous)" /* as V8's own profiler has it */

/*
 * Appends the text: a u32 number of characters, a u32 number of bytes that each has, and as many of them as
 * were sent. 0; 1: it was cut, and ends in an ellipsis; -EBADMSG; -ENOMEM.
 */
int v8_text_append(struct buf *out, const uint8_t *text, size_t len);
/*
 * Appends the name of a function, of its own name and the one that V8 has guessed; either may have 0 bytes.
 * Returns as above.
 */
int v8_name_append(struct buf *out, const uint8_t *name, size_t name_len, const uint8_t *guessed,
		   size_t guessed_len);

#endif
