// SPDX-License-Identifier: Apache-2.0
/* What the readers of the formats share. Private to recording/. */
#ifndef PROFLET_RECORDING_READER_H
#define PROFLET_RECORDING_READER_H

#include <protobuf-c/protobuf-c.h>

#include "agent/base/buf.h"
#include "agent/base/pool.h"
#include "agent/recording/recording_types.h"

#define READER_LINES_MAX 64u /* inlined calls of a frame */

/* Names of a type of values and of its unit. */
struct value_type {
	const char *type, *unit;
};

struct reader {
	const uint8_t *bytes; /* borrowed */
	size_t n;
	const struct recording_options *options;
	recording_stack_fn on_stack;
	void *data;
	struct recording_info *info;
	struct buf why; /* what is wrong, without the name of the file */
	/* scratch for one stack */
	struct frame *frames; /* OUTPUT_MAX_DEPTH of them, owned */
	struct buf lines;     /* struct frame_line */
	struct pool pool;
	size_t pool_left;
};

/*
 * Each reads the whole: 0; -ENODATA: it is another format, nothing was called; other errors as
 * recording_read, with r->why.
 */
int read_pprof(struct reader *r);
int read_otlp(struct reader *r);
int read_folded(struct reader *r);

/* Decoded messages live in r->pool, up to RECORDING_MEMORY_MAX bytes. */
ProtobufCAllocator reader_allocator(struct reader *r);
/* Whether a message could not be decoded for want of room: -EFBIG or -ENOMEM; else 0. */
int reader_out_of_room(const struct reader *r);
/*
 * The index of the values that are wanted, and notes their names in the info. -ENOENT, with r->why: there is
 * none of that type.
 */
int reader_choose(struct reader *r, const struct value_type *types, size_t n);
/* Copies a text into a string of the info. 0 or -ENOMEM. */
int reader_note(char **to, const char *text);
/*
 * Gives the first n frames their lines, which do not move any more: as many as each has, one after the
 * other.
 */
void reader_place_lines(struct reader *r, size_t n);
/* Hands on a stack, if it counts. The sum is bounded: -EBADMSG. */
int reader_stack(struct reader *r, const struct recording_stack *s);
/* Notes what is wrong. Returns -EBADMSG. */
int reader_bad(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether the name is one that stands for missing frames, as this project's recordings have them. */
bool is_ending_name(const char *name);
/* Whether a module of that name is the kernel or a part of it. */
bool is_kernel_module(const char *path);
/* The language runtime (frame.runtime) of functions in a source file, by its extension; NULL: none. */
const char *runtime_of_file(const char *file);
/* The last component of a path. */
const char *last_component(const char *path);

#endif
