// SPDX-License-Identifier: Apache-2.0
/* What the process asks of the system for itself: heap, open files. Rank 3. */
#ifndef PROFLET_RESOURCES_H
#define PROFLET_RESOURCES_H

#include <stdint.h>

#define RESOURCES_FILES_MAX 16384u

/*
 * Tables are built in large pieces that are freed at once. By default malloc learns to keep such pieces, for
 * every thread; we want them back with the system. Before the first thread.
 */
void resources_bound_heap(void);
/* Every binary stays open while it is mapped: takes what the hard limit gives. */
void resources_raise_files(void);
/* Binaries that may be open at a time: the program, its maps and all else have to be open, too. At most
 * RESOURCES_FILES_MAX. */
uint32_t resources_files_max(void);

#endif
