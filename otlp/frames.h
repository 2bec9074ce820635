// SPDX-License-Identifier: Apache-2.0
/*
 * Converts frames to dictionary entries: module → mapping, frame → location with its line, frames → stack.
 * Rank 1 (otlp).
 *
 * Every location has the attribute profile.frame.type, without which a backend rejects the whole request. A
 * frame without a name gets the line "module+0xADDRESS", because backends without symbols drop the frame, or
 * the whole sample, when a native frame has no line; `bare` omits that line for backends that have a
 * symbol store.
 *
 * Frames of a language runtime have no mapping and address 0: they are the same location if function and line
 * are equal.
 */
#ifndef PROFLET_OTLP_FRAMES_H
#define PROFLET_OTLP_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/frame.h"
#include "agent/base/memo.h"

struct otlp_dict;

#define OTLP_FRAMES_MAX 2048 /* per stack; further outer frames are cut, except the outermost one */
#define OTLP_MODULE_CACHE 256

/* Describes the frame with this number; samples have numbers only. Borrowed until the next call. */
typedef void (*otlp_frame_fn)(void *data, uint64_t id, struct frame *ret);

/* Embedded; valid when zeroed except for `resolve`. */
struct otlp_frames {
	bool bare;
	otlp_frame_fn resolve;
	void *data;
	int32_t native_attr, kernel_attr; /* 0: not interned yet */
	struct {
		uint32_t id;
		int32_t mapping;
	} modules[OTLP_MODULE_CACHE]; /* by id modulo size */
	struct memo locations;	      /* by frame id */
	struct buf text;
};

/* A stack while it is added to the dictionary. */
struct otlp_frames_stack {
	const uint64_t *ids; /* borrowed */
	size_t n;
	size_t bound;			/* upper bound of the bytes by which the dictionary can grow */
	int32_t known[OTLP_FRAMES_MAX]; /* locations; -1: not in the dictionary yet */
};

/* Forgets all indices in the dictionary. Call it together with otlp_dict_reset. */
void otlp_frames_reset(struct otlp_frames *f);
void otlp_frames_fini(struct otlp_frames *f);
/* Looks the frames up, leaf first, and computes `bound`. */
void otlp_frames_find(struct otlp_frames *f, const uint64_t *ids, size_t n, struct otlp_frames_stack *ret);
/*
 * Adds the stack to the dictionary, which must be unchanged since otlp_frames_find. Errors of the dictionary.
 */
int otlp_frames_intern(struct otlp_frames *f, struct otlp_dict *d, const struct otlp_frames_stack *s,
		       int32_t *ret);

#endif
