// SPDX-License-Identifier: Apache-2.0
/* Limits of the process's own resources: heap and open files. */
#ifndef PROFLET_RESOURCES_H
#define PROFLET_RESOURCES_H

#include <stdint.h>

#define RESOURCES_FILES_MAX 16384u

/*
 * Makes malloc return large freed pieces to the system. The agent allocates such pieces when it builds
 * tables; by default, malloc would retain them, for every thread. Call before the first thread is created.
 */
void resources_bound_heap(void);
/* Raises the limit of open files to the hard limit, because every binary stays open while it is mapped. */
void resources_raise_files(void);
/* Maximum number of binaries that may be open at a time; the BPF program, its maps and other files need
 * descriptors, too. At most RESOURCES_FILES_MAX. */
uint32_t resources_files_max(void);

#endif
