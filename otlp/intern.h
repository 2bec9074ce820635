// SPDX-License-Identifier: Apache-2.0
/*
 * The dictionary of one request: seven tables whose entries are unique by value and referred to by index.
 * Entry 0 of each is the zero value (OTLP 1.10, ProfilesDictionary), written at creation. Two entries are
 * equal when their keys are, because every index inside a key already refers to a unique entry. Entries are
 * encoded when they are added, so the exact size is known at any time. Rank 1 (otlp).
 *
 * Here every string is made valid UTF-8 of at most OTLP_STRING_MAX bytes, so no other module has to.
 * Functions return 0 with the index, or -ENOMEM, or -EOVERFLOW / -ENOSPC when a table is full; *ret is
 * written on success only.
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

/* The strings are entries of the dictionary. */
struct otlp_dict_function {
	int32_t name, system_name, filename;
	uint32_t start_line; /* 0: unknown */
};

#define OTLP_LOCATION_ATTRS 2

struct otlp_dict_location {
	uint64_t address;
	int32_t mapping, function;	    /* function 0: the location has no line */
	int32_t attrs[OTLP_LOCATION_ATTRS]; /* 0: none */
};

#define OTLP_LINES_MAX 64 /* per location */

struct otlp_dict_line {
	int32_t function;
	uint32_t line; /* 0: unknown */
};

int otlp_dict_new(struct otlp_dict **ret);
void otlp_dict_free(struct otlp_dict *d);
/* Removes all entries but the zero values. After -ENOMEM, only otlp_dict_free may be called. */
int otlp_dict_reset(struct otlp_dict *d);

/* NULL and "" are entry 0. */
int otlp_dict_string(struct otlp_dict *d, const char *s, int32_t *ret);
int otlp_dict_attr_string(struct otlp_dict *d, int32_t key, const char *value, int32_t *ret);
int otlp_dict_attr_int(struct otlp_dict *d, int32_t key, int64_t value, int32_t *ret);
int otlp_dict_function(struct otlp_dict *d, const struct otlp_dict_function *f, int32_t *ret);
int otlp_dict_mapping(struct otlp_dict *d, const struct otlp_dict_mapping *m, int32_t *ret);
int otlp_dict_location(struct otlp_dict *d, const struct otlp_dict_location *l, int32_t *ret);
/*
 * Adds a location with source lines, innermost inlined call first, instead of `function`. -EINVAL: more than
 * OTLP_LINES_MAX lines.
 */
int otlp_dict_location_lines(struct otlp_dict *d, const struct otlp_dict_location *l,
			     const struct otlp_dict_line *lines, size_t n, int32_t *ret);
/* Adds a stack of locations, leaf first. Without locations it is entry 0. */
int otlp_dict_stack(struct otlp_dict *d, const int32_t *locations, size_t n, int32_t *ret);

/* The exact number of bytes that otlp_dict_encode appends. */
size_t otlp_dict_size(const struct otlp_dict *d);
/* Appends the body of a ProfilesDictionary. */
int otlp_dict_encode(const struct otlp_dict *d, struct buf *b);

/*
 * Returns `s` itself if it is valid and short enough, else a clean copy in `scratch` (cleared first), valid
 * until `scratch` changes. NULL: out of memory.
 */
const char *otlp_clean_string(struct buf *scratch, const char *s, size_t *ret_len);

DEFINE_CLEANUP(struct otlp_dict *, otlp_dict_free)
#define _cleanup_dict_ _cleanup_(otlp_dict_free_p)

#endif
