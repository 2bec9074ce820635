// SPDX-License-Identifier: Apache-2.0
/* Fits memory.total and its parts to the memory limit of the agent's control group. */
#ifndef PROFLET_MEMORY_H
#define PROFLET_MEMORY_H

#include <stdint.h>

struct config;

/*
 * Lowers memory.total, memory.tables and queue.memory, where they are not configured, to what fits a control
 * group with this limit, to which the kernel also charges BPF maps. UINT64_MAX: no limit, nothing
 * changes. Pure.
 */
void memory_fit_to(struct config *config, uint64_t limit_bytes);
/* The same for the limit of our own group. Logs changes, and a configured value above the limit. */
void memory_fit(struct config *config);

#endif
