// SPDX-License-Identifier: Apache-2.0
/*
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing past U+10FFFF. Receivers written in Go
 * refuse a whole request for one bad byte, and thread names and paths are bytes of any kind. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_UTF8_H
#define PROFLET_OTLP_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/buf.h"

bool utf8_valid(const char *s, size_t len);
/*
 * Appends `s` with U+FFFD for every byte that belongs to no character, cut before the character that would
 * pass max_bytes. Errors of buf_append.
 */
int utf8_sanitize(struct buf *b, const char *s, size_t len, size_t max_bytes);

#endif
