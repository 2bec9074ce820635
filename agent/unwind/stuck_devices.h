// SPDX-License-Identifier: Apache-2.0
/*
 * File systems on which jobs are stuck. Other jobs that would read from one of them are put off, or it would
 * block a thread for each of its files. Now and then one of these is tried, because the stuck job may never
 * return although the file system answers again.
 */
#ifndef PROFLET_UNWIND_STUCK_DEVICES_H
#define PROFLET_UNWIND_STUCK_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/clock.h"

#define STUCK_RETRY_NS (1 * NS_PER_SEC) /* before a job is tried; doubles each time that it is stuck, too */
#define STUCK_RETRY_MAX_NS (60 * NS_PER_SEC)
#define STUCK_MAX 4u /* jobs that are stuck on one file system: no more are tried */

/* Embedded; zeroed: none. */
struct stuck_devices {
	struct stuck_device *devices; /* owned */
	size_t n, cap;
};

void stuck_devices_fini(struct stuck_devices *s);
/* A job is stuck on the file system. Without memory, it is not remembered. */
void stuck_devices_add(struct stuck_devices *s, dev_t dev, uint64_t now_ns);
/* A stuck job has returned. */
void stuck_devices_remove(struct stuck_devices *s, dev_t dev);
/* Whether a job is stuck on the file system. */
bool stuck_devices_has(const struct stuck_devices *s, dev_t dev);
/* Whether one job may be tried all the same. */
bool stuck_devices_may_try(const struct stuck_devices *s, dev_t dev, uint64_t now_ns);
/* Such a job is queued; it has ended, or is stuck (then call stuck_devices_add as well) or was not made. */
void stuck_devices_try_begin(struct stuck_devices *s, dev_t dev);
void stuck_devices_try_end(struct stuck_devices *s, dev_t dev, bool failed);

#endif
