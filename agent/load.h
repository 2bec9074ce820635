// SPDX-License-Identifier: Apache-2.0
/* Loads the BPF program as configured, and explains to the operator why it cannot be loaded. */
#ifndef PROFLET_LOAD_H
#define PROFLET_LOAD_H

#include <stdint.h>

struct config;
struct probe;

/* How many segments of the arena fit into memory.tables, at least one. */
uint32_t load_segments(const struct config *c);
/*
 * If sampling will use the timer tick, limits sampling.frequency to the number of ticks per second
 * (CONFIG_HZ), and logs that: a sample stands for the time between two samples.
 */
void load_fit_frequency(struct config *c);
/* Starts loading (probe_new). 0, or -errno with *ret_why (owned, may be NULL). */
int load_begin(struct probe **ret, const struct config *c, char **ret_why);
/* Waits until it is loaded (probe_loaded). As load_begin. */
int load_end(struct probe *p, char **ret_why);

#endif
