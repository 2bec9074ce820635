// SPDX-License-Identifier: Apache-2.0
/*
 * For a stack that was unwound with an outdated list of mappings: how many of its frames are right all the
 * same. Pure. Used by completion.c.
 */
#ifndef PROFLET_UNWIND_OUTDATED_FRAMES_H
#define PROFLET_UNWIND_OUTDATED_FRAMES_H

#include <stdint.h>

struct proc_maps;
struct unwind_tables;

/* The first frame that is not valid. */
struct outdated_frame {
	uint64_t address; /* in the process; right, because a valid step led to it. 0: not known */
	uint64_t frame;	  /* what the right mappings make of it; 0: they have nothing there */
};

/*
 * `frames` are `n` user frames, leaf first, unwound with the mappings `used`; at the time of the sample the
 * process had the mappings `right`. Returns how many frames from the leaf on lie in a mapping that is the
 * same in both; the step from the first that does not was made with the wrong table, so the frames after it
 * mean nothing. *ret is that first one; zeroed when all are valid. Of omitted frames it is not known where
 * they were: they count as the first that is not valid. -ENOMEM.
 */
int unwind_frames_valid(const struct unwind_tables *tables, const struct proc_maps *used,
			const struct proc_maps *right, const uint64_t *frames, uint16_t n,
			struct outdated_frame *ret);

#endif
