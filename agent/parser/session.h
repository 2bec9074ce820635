// SPDX-License-Identifier: Apache-2.0
/* The process that several jobs share (parser.h), as the agent knows it. */
#ifndef PROFLET_PARSER_SESSION_H
#define PROFLET_PARSER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Several jobs for one process, about bytes of one origin: what one of them does to the process, it does to
 * itself. They share its CPU time. Zeroed, it has no process yet. Used by one thread at a time.
 */
struct parser_session {
	int socket; /* + 1; 0: there is none */
	int pid;
	bool urgent;	 /* the process is, or was */
	bool spent;	 /* it has what further jobs must not be done beside */
	unsigned jobs;	 /* that it has done */
	uint64_t cpu_ns; /* that it says it has used */
};

/* Ends the process. */
void parser_session_end(struct parser_session *s);

#endif
