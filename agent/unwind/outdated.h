// SPDX-License-Identifier: Apache-2.0
/* Frames that were found with an outdated list of mappings: which of them hold? Pure. Rank 2. */
#ifndef PROFLET_UNWIND_OUTDATED_H
#define PROFLET_UNWIND_OUTDATED_H

#include <stdint.h>

struct proc_maps;
struct unwind_tables;

/*
 * How many of the `n` user frames, leaf first, are as the mappings `right` have them, when `used` were used.
 * A step from a frame that is not leads anywhere. *ret_next is what the first such frame is by `right` (its
 * address is known, a right step led to it), 0 when there is none or `right` has nothing there. < 0: -ENOMEM.
 */
int unwind_outdated_frames(const struct unwind_tables *tables, const struct proc_maps *used,
			   const struct proc_maps *right, const uint64_t *frames, uint16_t n,
			   uint64_t *ret_next);

#endif
