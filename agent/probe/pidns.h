// SPDX-License-Identifier: Apache-2.0
/* The agent's own PID namespace, as the program needs it to report pids that /proc here knows. Rank 1. */
#ifndef PROFLET_PROBE_PIDNS_H
#define PROFLET_PROBE_PIDNS_H

#include <stdint.h>

/* The inode of our PID namespace, 0 when it is the initial one, where no translation is needed. 0 or -errno.
 */
int pidns_inode(uint32_t *ret);

#endif
