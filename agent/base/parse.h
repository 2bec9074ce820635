// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers, durations, sizes and encoded text as users and the kernel write them. Whole-string parsers:
 * anything left over is an error. All return 0, -EINVAL (not such a number) or -ERANGE; *ret is written on
 * success only.
 */
#ifndef PROFLET_BASE_PARSE_H
#define PROFLET_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int parse_u64(const char *s, unsigned base, uint64_t *ret);
int parse_u32(const char *s, uint32_t *ret);
/* "10s", "1m", "250ms", "2h", "100us", "5ns"; a bare number is refused. Result in nanoseconds. */
int parse_duration_ns(const char *s, uint64_t *ret);
/* "64MiB", "1GiB", "4KiB", "512B" or a bare number of bytes. */
int parse_size_bytes(const char *s, uint64_t *ret);
/* "5%", "12.5%" → 0.05, 0.125. */
int parse_percent(const char *s, double *ret);
int parse_bool(const char *s, bool *ret); /* true/false, yes/no, on/off */
/* The value of a hexadecimal digit, 0 to 15; -1 for any other character. */
int parse_hex_digit(char c);
/* Decodes %XX (RFC 3986 section 2.1) in place. 0, or -EINVAL for a % without two hex digits, or a NUL. */
int parse_percent_decode(char *s);

#endif
