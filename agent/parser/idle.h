// SPDX-License-Identifier: Apache-2.0
/*
 * Processes that have done a job about the system's own files and wait for another one (struct parser_call).
 * To fork and end a process costs more than the table of a small file. Any thread. Private to parser/.
 */
#ifndef PROFLET_PARSER_IDLE_H
#define PROFLET_PARSER_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct parser_operation;
struct parser_session;

#define IDLE_MAX 4u	  /* processes that wait at a time */
#define IDLE_JOBS_MAX 64u /* of one process */
#define IDLE_CPU_MAX_NS \
	500000000u /* after which it gets no further job: PARSER_CPU_MAX_S is for all of them */

/* Before there are threads. */
void idle_init(void);
/* A process that has done that operation; *ret is owned by the caller. Not urgent: one that never was. */
bool idle_take(struct parser_session *ret, const struct parser_operation *operation, bool urgent);
/* Keeps the process for another job, or ends it. *s is zeroed. */
void idle_give(struct parser_session *s, const struct parser_operation *operation);
/* Ends those that have waited since before `since_ns` (CLOCK_MONOTONIC). */
void idle_trim(uint64_t since_ns);

#endif
