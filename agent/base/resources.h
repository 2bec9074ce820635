// SPDX-License-Identifier: Apache-2.0
/* Limits of the process's own resources: heap, pages and open files. */
#ifndef PROFLET_RESOURCES_H
#define PROFLET_RESOURCES_H

#include <stdint.h>

#define RESOURCES_FILES_MAX 16384u

/*
 * Makes malloc return large freed pieces to the system. The agent allocates such pieces when it builds
 * tables; by default, malloc would retain them, for every thread. Call before the first thread is created.
 */
void resources_bound_heap(void);
/*
 * Takes the code and the constants of the program and its libraries out of the memory of this process, for
 * one that waits from now on. The kernel has these pages, and maps those that are used again. Any thread.
 */
void resources_release_code(void);
/* Raises the limit of open files to the hard limit, because every binary stays open while it is mapped. */
void resources_raise_files(void);
/*
 * Open files that the agent needs for itself (the BPF program, its maps, events of each CPU, threads,
 * sockets), and for some binaries. Below that it cannot work.
 */
uint32_t resources_files_needed(void);
/* The limit of open files; UINT32_MAX: it is higher. */
uint32_t resources_files_limit(void);
/*
 * Maximum number of binaries that may be open at a time: half of those descriptors that the agent does not
 * need for itself. At most RESOURCES_FILES_MAX.
 */
uint32_t resources_files_max(void);
/*
 * Maximum number of root folders of processes that may be open at a time: half of what is left of the
 * descriptors when the agent has those for itself and for the binaries; jobs and debug files have the rest.
 */
uint32_t resources_roots_max(void);

#endif
