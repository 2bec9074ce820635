// SPDX-License-Identifier: Apache-2.0
/* memory.total and its parts, fitted to the limit of the control group that the agent runs in. Rank 3. */
#ifndef PROFLET_MEMORY_H
#define PROFLET_MEMORY_H

#include <stdint.h>

struct config;

/*
 * Lowers those of memory.total, memory.tables and queue.memory that nobody set to what a group with this
 * limit has room for; the kernel counts BPF maps there, too. UINT64_MAX: no limit, nothing changes. Pure.
 */
void memory_fit_to(struct config *config, uint64_t limit_bytes);
/* To the limit of our own group; says so in the log when it changes something, or when what was set is more.
 */
void memory_fit(struct config *config);

#endif
