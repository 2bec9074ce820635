// SPDX-License-Identifier: Apache-2.0
/* From the configuration to a loaded BPF program, and in the operator's words why it cannot be. Rank 3. */
#ifndef PROFLET_LOAD_H
#define PROFLET_LOAD_H

#include <stdint.h>

struct config;
struct probe;

/* Segments of the arena that memory.tables has room for, at least one. */
uint32_t load_segments(const struct config *c);
/*
 * Where the tick will be sampled, sampling.frequency becomes no more than there are ticks (CONFIG_HZ), and
 * the log says so: each sample stands for the time between two.
 */
void load_fit_frequency(struct config *c);
/* probe_new. 0, or -errno with *ret_why (owned, may be NULL). */
int load_begin(struct probe **ret, const struct config *c, char **ret_why);
/* probe_loaded. As load_begin. */
int load_end(struct probe *p, char **ret_why);

#endif
