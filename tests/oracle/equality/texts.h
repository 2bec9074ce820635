// SPDX-License-Identifier: Apache-2.0
/* Interned strings: equal strings have equal pointers, valid until texts_fini(). */
#ifndef PROFLET_EQUALITY_TEXTS_H
#define PROFLET_EQUALITY_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/map.h"

struct texts {
	struct map map;
	const char **list; /* by index */
	size_t n, cap;
};

void texts_init(struct texts *t);
void texts_fini(struct texts *t);
/* The string's index, or -ENOMEM. */
int64_t texts_index(struct texts *t, const char *s, size_t len);
/* The interned string; NULL without memory. */
const char *texts_get(struct texts *t, const char *s);
const char *texts_printf(struct texts *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Doubles an array of `size`-byte elements. 0 or -ENOMEM. */
int texts_grow(void *array, size_t *cap, size_t size);

#endif
