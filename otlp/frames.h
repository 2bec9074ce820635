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

struct otlp_dict;

#define OTLP_FRAMES_MAX 2048 /* of one stack; outer frames beyond are cut, the outermost one stays */
#define OTLP_MODULE_CACHE 256

/* Embedded; zeroed is fine. */
struct otlp_frames {
	bool bare;
	int32_t native_attr, kernel_attr; /* 0: not interned yet */
	struct {
		uint32_t id;
		int32_t mapping;
	} modules[OTLP_MODULE_CACHE]; /* by id modulo size */
	struct buf text;
};

/* Forgets what it knows about the dictionary: call it together with otlp_dict_reset. */
void otlp_frames_reset(struct otlp_frames *f);
void otlp_frames_fini(struct otlp_frames *f);
/* Errors of the dictionary. */
int otlp_frames_stack(struct otlp_frames *f, struct otlp_dict *d, const struct frame *frames, size_t n,
		      int32_t *ret);
/* Upper bound of the bytes by which otlp_frames_stack can make the dictionary grow. */
size_t otlp_frames_bound(const struct otlp_frames *f, const struct frame *frames, size_t n);

#endif
