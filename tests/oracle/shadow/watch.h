// SPDX-License-Identifier: Apache-2.0
/* The main loop: executes an instruction, updates the shadow stack, unwinds, compares. */
#ifndef PROFLET_TESTS_SHADOW_WATCH_H
#define PROFLET_TESTS_SHADOW_WATCH_H

#include "tests/oracle/shadow/code.h"
#include "tests/oracle/shadow/judge.h"

struct watch_options {
	uint64_t steps, seconds, places;
	uint64_t from_ns; /* 0: from the start */
	bool from_main;
	uint64_t burst, gap_ns;	      /* burst 0: without gaps */
	uint64_t every, walk;	      /* walk 0: never */
	bool full;		      /* read the stack at every step */
	const char *corrupt;	      /* module, NULL */
	uint64_t part_low, part_high; /* as in tables_set_part */
	bool output;
};

struct watch {
	const struct watch_options *options;
	struct tracee tracee;
	struct tables *tables;
	struct code code;
	struct shadow shadow;
	struct judge judge;
	uint64_t steps;
	uint64_t not_followed; /* processes and threads that the program made */
	const char *stopped;   /* why */
};

/* Starts the program. 0 or -errno; watch_fini in both cases. */
int watch_init(struct watch *w, const struct watch_options *options, char *const argv[]);
void watch_fini(struct watch *w);
/* 0 or -errno. */
int watch_run(struct watch *w);

#endif
