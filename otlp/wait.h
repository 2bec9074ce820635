// SPDX-License-Identifier: Apache-2.0
/* Waits for a descriptor, with a deadline and a way to cancel. Rank 1 (otlp). */
#ifndef PROFLET_OTLP_WAIT_H
#define PROFLET_OTLP_WAIT_H

#include <stdint.h>

/*
 * Waits until `fd` has one of the poll events, an error, or a hangup. 0, -ETIMEDOUT (deadline on the
 * monotonic clock), -ECANCELED (cancel_fd is readable; -1: none), or the error of poll. With -1 as fd it
 * waits for the deadline or cancel_fd only.
 */
int otlp_wait_fd(int fd, short events, uint64_t deadline_mono_ns, int cancel_fd);

#endif
