// SPDX-License-Identifier: Apache-2.0
/* The figures above the table of `proflet top`, from the agent's counters. */
#ifndef PROFLET_TOP_ACCOUNT_H
#define PROFLET_TOP_ACCOUNT_H

#include <stdint.h>
#include <sys/utsname.h>

#include "agent/base/buf.h"
#include "agent/output/screen.h"

struct agent;
struct config;

struct top_account {
	struct output_screen_head head;	  /* points into this struct */
	uint64_t begin_ns, last_ns;	  /* CLOCK_MONOTONIC */
	uint64_t taken, arrived, dropped; /* at the last update */
	struct utsname host;
	char time[16];
	struct buf drops;
};

/* To call when sampling has begun. */
void top_account_begin(struct top_account *a, struct agent *agent, const struct config *config);
/* Ends an interval. Returns its length in ns, and the number of samples that arrived in it. */
uint64_t top_account_update(struct top_account *a, struct agent *agent, uint64_t *ret_arrived);
void top_account_fini(struct top_account *a);

#endif
