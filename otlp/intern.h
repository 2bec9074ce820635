// SPDX-License-Identifier: Apache-2.0
/*
 * The dictionary of one request: seven tables whose entries are unique by value and referred to by index.
 * Entry 0 of each is the zero value (OTLP 1.10, ProfilesDictionary), written at creation. Equality by value
 * is equality of keys, because every index inside a key already names a unique entry. Entries are encoded
 * when they are added, so the size is known exactly at any time. Rank 1 (otlp).
 *
 * Every string becomes valid UTF-8 of at most OTLP_STRING_MAX bytes here; nothing else has to care. Functions
 * return 0 with the index, or -ENOMEM, or -EOVERFLOW / -ENOSPC when a table is full; *ret is written on
 * success only.
 */
#ifndef PROFLET_OTLP_INTERN_H
#define PROFLET_OTLP_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"

#define OTLP_STRING_MAX 16384 /* bytes; longer strings are cut */
#define OTLP_MAPPING_ATTRS_MAX 3

struct otlp_dict;

struct otlp_dict_mapping {
	uint64_t start, limit, file_offset;
	int32_t filename;
	int32_t attrs[OTLP_MAPPING_ATTRS_MAX]; /* the first n_attrs are set, the others 0 */
	uint32_t n_attrs;
	uint32_t zero; /* keys are compared as bytes: no hidden padding */
};

struct otlp_dict_location {
	uint64_t address;
	int32_t mapping, function; /* function 0: a location without a line */
	int32_t attr;
	uint32_t zero;
};

#define OTLP_LINES_MAX 64 /* of one location */

struct otlp_dict_line {
	int32_t function;
	uint32_t line; /* 0: not known */
};

int otlp_dict_new(struct otlp_dict **ret);
void otlp_dict_free(struct otlp_dict *d);
/* Back to the zero entries alone. -ENOMEM leaves it fit for otlp_dict_free only. */
int otlp_dict_reset(struct otlp_dict *d);

/* NULL and "" are entry 0. */
int otlp_dict_string(struct otlp_dict *d, const char *s, int32_t *ret);
int otlp_dict_attr_string(struct otlp_dict *d, int32_t key, const char *value, int32_t *ret);
int otlp_dict_attr_int(struct otlp_dict *d, int32_t key, int64_t value, int32_t *ret);
int otlp_dict_function(struct otlp_dict *d, int32_t name, int32_t system_name, int32_t filename,
		       int32_t *ret);
int otlp_dict_mapping(struct otlp_dict *d, const struct otlp_dict_mapping *m, int32_t *ret);
int otlp_dict_location(struct otlp_dict *d, const struct otlp_dict_location *l, int32_t *ret);
/* One with places in the source, innermost inlined call first, in place of `function`. -EINVAL: too many. */
int otlp_dict_location_lines(struct otlp_dict *d, const struct otlp_dict_location *l,
			     const struct otlp_dict_line *lines, size_t n, int32_t *ret);
/* Leaf first; no locations: entry 0. */
int otlp_dict_stack(struct otlp_dict *d, const int32_t *locations, size_t n, int32_t *ret);

/* Exact bytes that otlp_dict_encode will append. */
size_t otlp_dict_size(const struct otlp_dict *d);
/* Appends the body of a ProfilesDictionary. */
int otlp_dict_encode(const struct otlp_dict *d, struct buf *b);

/*
 * `s` itself if it is valid and short enough, else a clean copy in `scratch` (cleared first), valid until
 * that changes. NULL when memory is short.
 */
const char *otlp_clean_string(struct buf *scratch, const char *s, size_t *ret_len);

DEFINE_CLEANUP(struct otlp_dict *, otlp_dict_free)
#define _cleanup_dict_ _cleanup_(otlp_dict_free_p)

#endif
