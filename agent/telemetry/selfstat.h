// SPDX-License-Identifier: Apache-2.0
/* CPU time, memory and open files of the agent itself. */
#ifndef PROFLET_SELFSTAT_H
#define PROFLET_SELFSTAT_H

#include <stdint.h>

struct selfstat {
	uint64_t cpu_ns;    /* CPU time of the process and of its parser processes that have ended */
	uint64_t wasted_ns; /* of it, wasted by parser processes (struct parser_stats) */
	uint64_t resident_bytes, open_files; /* 0: could not be read */
};

void selfstat_read(struct selfstat *ret);

#endif
