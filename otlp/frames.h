// SPDX-License-Identifier: Apache-2.0
/*
 * Frames to dictionary entries: module → mapping, frame → location with its line, frames → stack. Rank 1
 * (otlp).
 *
 * Every location carries profile.frame.type (a backend refuses the whole request otherwise). A frame without
 * a name gets the fallback line "module+0xADDRESS", because backends without symbols of their own drop the
 * frame, or the whole sample, when a native frame has no line; `bare` leaves it out for those that have a
 * symbol store.
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

#define OTLP_FRAMES_MAX 2048 /* of one stack; outer frames beyond are cut, the outermost one stays */
#define OTLP_MODULE_CACHE 256

/* Tells what a frame is: a sample only has its number. Borrowed until the next call. */
typedef void (*otlp_frame_fn)(void *data, uint64_t id, struct frame *ret);

/* Embedded; zeroed with `resolve` set is fine. */
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

/* One stack on its way into the dictionary. */
struct otlp_frames_stack {
	const uint64_t *ids; /* borrowed */
	size_t n;
	size_t bound;			/* upper bound of the bytes by which the dictionary can grow */
	int32_t known[OTLP_FRAMES_MAX]; /* locations; -1: not in the dictionary yet */
};

/* Forgets what it knows about the dictionary: call it together with otlp_dict_reset. */
void otlp_frames_reset(struct otlp_frames *f);
void otlp_frames_fini(struct otlp_frames *f);
/* Looks the frames up, leaf first. */
void otlp_frames_find(struct otlp_frames *f, const uint64_t *ids, size_t n, struct otlp_frames_stack *ret);
/* The stack in the dictionary, which is as it was at otlp_frames_find. Errors of the dictionary. */
int otlp_frames_intern(struct otlp_frames *f, struct otlp_dict *d, const struct otlp_frames_stack *s,
		       int32_t *ret);

#endif
