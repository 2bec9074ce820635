// SPDX-License-Identifier: Apache-2.0
/*
 * Looks at code and methods of a HotSpot in a process's memory (agent/elf/runtime/hotspot_*.h), where the
 * bytes can do no harm (agent/parser): which piece of code an address is in, its rows, the names of its
 * methods. Checks the result. What is of the names is carried on as bytes, for agent/runtime/jvm_code.h,
 * which reads them.
 */
#ifndef PROFLET_UNWIND_HOTSPOT_JOB_H
#define PROFLET_UNWIND_HOTSPOT_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/flat.h"
#include "agent/elf/code/memory_rows.h"
#include "agent/elf/runtime/hotspot_answer.h"
#include "agent/elf/runtime/hotspot_layout.h"

struct parser_operation;
struct parser_session;

extern const struct parser_operation hotspot_operation;

#define HOTSPOT_WANTED_MAX 1024u /* in one job */

/* Process addresses of what struct hotspot_facts names; `structs` 0: there is no HotSpot. */
struct hotspot_vm {
	uint64_t structs, types;
};

/* The job's view of a process. */
struct hotspot_process {
	struct hotspot_vm vm;
	struct hotspot_layout layout; /* of version 0: not read yet */
	int mem;		      /* /proc/PID/mem, borrowed */
};

/*
 * Runs the wishes. Appends records to `answer`, in their order, for hotspot_record_next. 0; -EAGAIN: the
 * virtual machine is not ready; -ENOTSUP: it is none that we know; also -errno of parser_call; -EBADMSG.
 */
int hotspot_job_run(struct parser_session *session, struct hotspot_process *p,
		    const struct hotspot_wanted *wanted, size_t n, struct buf *answer);

/* A record of an answer; pointers are borrowed from it. */
struct hotspot_record {
	struct hotspot_found found;
	struct memory_rows rows; /* owned */
	const uint8_t *names;	 /* found.name_bytes */
};

/* 1: *ret is the next record; 0: there are no more; -EBADMSG: it is not valid; -ENOMEM. */
int hotspot_record_next(struct flat_reader *from, struct hotspot_record *ret);

#endif
