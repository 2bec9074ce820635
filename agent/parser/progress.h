// SPDX-License-Identifier: Apache-2.0
/* Whether another process gets on, as far as the kernel tells without waiting for it. Any thread. */
#ifndef PROFLET_PARSER_PROGRESS_H
#define PROFLET_PARSER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether the process sleeps in the kernel; false: it has ended, too. */
bool progress_is_asleep(pid_t pid);
/* CPU time that the process has used, in nanoseconds; 0: it has ended. */
uint64_t progress_cpu_ns(pid_t pid);

#endif
