// SPDX-License-Identifier: Apache-2.0
/* Limits of the process's own resources: heap and open files. */
#ifndef PROFLET_RESOURCES_H
#define PROFLET_RESOURCES_H

#include <stdbool.h>
#include <stdint.h>

#define RESOURCES_FILES_MAX 16384u

/*
 * Makes malloc return large freed pieces to the system. The agent allocates such pieces when it builds
 * tables; by default, malloc would retain them, for every thread. Call before the first thread is created.
 */
void resources_bound_heap(void);
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
 * Whether the agent can do without this descriptor, which was opened last: those that are left are enough for
 * itself. For files of which there is one for each process.
 */
bool resources_file_spare(int fd);

#endif
