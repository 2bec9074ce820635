// SPDX-License-Identifier: Apache-2.0
/*
 * UTF-8 as defined by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. Receivers written
 * in Go reject a whole request for one invalid byte, while thread names and paths may contain any byte. Rank
 * 1 (otlp).
 */
#ifndef PROFLET_OTLP_UTF8_H
#define PROFLET_OTLP_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/base/buf.h"

bool utf8_valid(const char *s, size_t len);
/*
 * Appends `s` with U+FFFD for every byte that is not part of a valid character, cut before the character that
 * would exceed max_bytes. Errors of buf_append.
 */
int utf8_sanitize(struct buf *b, const char *s, size_t len, size_t max_bytes);

#endif
