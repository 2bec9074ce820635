// SPDX-License-Identifier: Apache-2.0
/* Waiting for one descriptor with a deadline and a way out. Rank 1 (otlp). */
#ifndef PROFLET_OTLP_WAIT_H
#define PROFLET_OTLP_WAIT_H

#include <stdint.h>

/*
 * Waits until `fd` has one of the poll events (error and hangup count). 0, -ETIMEDOUT (deadline on the
 * monotonic clock), -ECANCELED (cancel_fd is readable; -1: none), or the error of poll. -1 as fd waits for
 * the other two.
 */
int otlp_wait_fd(int fd, short events, uint64_t deadline_mono_ns, int cancel_fd);

#endif
