// SPDX-License-Identifier: Apache-2.0
/*
 * How many classes a HotSpot has unloaded. While that stays the same, no object of its metadata has
 * given its memory to another one. The count is among the performance counters (hsperfdata, format
 * 2.0), which are there unless the machine runs with -XX:-UsePerfData. Pure but for the memory that it
 * is given. Rank 1.
 */
#ifndef PROFLET_ELF_HOTSPOT_UNLOADS_H
#define PROFLET_ELF_HOTSPOT_UNLOADS_H

#include <stdint.h>

struct vm_memory;

/* Process addresses of the counters; 0: not there. */
struct hotspot_unloads {
	uint64_t own, shared;
};

/*
 * Finds them, where `start` is the process address of the pointer to the counters. Leaves 0 what is not
 * found.
 */
void hotspot_unloads_find(struct hotspot_unloads *ret, struct vm_memory *m, uint64_t start);
#define HOTSPOT_UNLOADS_NONE 1u /* of hotspot_unloads_read(): no class was ever unloaded */
/* The count and one more, read anew at each call; 0: it is not known. */
uint64_t hotspot_unloads_read(const struct hotspot_unloads *u, struct vm_memory *m);

#endif
