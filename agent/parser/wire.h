// SPDX-License-Identifier: Apache-2.0
/*
 * Messages between the agent, the nursery and parser processes: one message is one packet (base/packet.h).
 * Private to parser/.
 */
#ifndef PROFLET_PARSER_WIRE_H
#define PROFLET_PARSER_WIRE_H

#include <stdint.h>

#define WIRE_INLINE_MAX 65536u /* bytes of a request in its packet; a longer one is in a memfd */

enum wire_wish { WIRE_SPAWN, WIRE_URGE, WIRE_ALLOW };

/* Agent → nursery. SPAWN: with one descriptor, the socket of the new process. */
struct wire_command {
	uint32_t wish;
	int32_t pid;	       /* URGE, ALLOW: which process is to be urgent, gets other cpu_max_ns */
	uint64_t memory_bytes; /* that the new process may take; 0: no limit */
	uint64_t cpu_max_ns;   /* SPAWN, ALLOW: that it may compute; 0: PARSER_CPU_MAX_S */
	uint64_t room_small;   /* a process that takes more has to wait for room (WIRE_ROOM) */
	uint32_t urgent_us;    /* of CPU time that it may use as an urgent process; 0: it is not urgent */
	uint32_t reserved;
};

/*
 * Agent → process, followed by the request if `in_memfd` is 0. The first descriptor is a memfd for an answer
 * of more than WIRE_INLINE_MAX bytes. If in_memfd is 1, the second has the request.
 */
struct wire_request {
	uint32_t operation;
	uint32_t in_memfd;
	uint64_t len;
};

enum wire_kind {
	WIRE_SPAWNED, /* by the nursery, first; result: the pid or -errno */
	WIRE_QUERY,   /* the bytes follow */
	WIRE_ANSWER,  /* result: the operation's; `len` bytes follow, or are in the memfd */
	WIRE_ENDED,   /* by the nursery; result: the status as of wait(2) */
	WIRE_ROOM,    /* `len` bytes of memory are wanted; answered when there is room for them */
};

/* Nursery or process → agent. */
struct wire_reply {
	uint32_t kind;
	int32_t result;
	uint64_t len;	 /* bytes */
	uint64_t cpu_ns; /* used by the process */
};

/* Agent → process: what a query was answered with, with a descriptor if it is 0; or that there is room. */
struct wire_answer {
	int32_t result;
};

#endif
