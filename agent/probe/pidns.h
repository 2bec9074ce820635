// SPDX-License-Identifier: Apache-2.0
/* The agent's own PID namespace: the BPF program translates pids to it, so that they match /proc here. */
#ifndef PROFLET_PROBE_PIDNS_H
#define PROFLET_PROBE_PIDNS_H

#include <stdint.h>

/* *ret: the inode of our PID namespace, 0 for the initial one, which needs no translation. 0 or -errno. */
int pidns_inode(uint32_t *ret);

#endif
