// SPDX-License-Identifier: Apache-2.0
/*
 * Looks at code and methods of a HotSpot in a process's memory (agent/elf/runtime/hotspot_*.h), where the
 * bytes can do no harm (agent/parser): which piece of code an address is in, its rows, the names of its
 * methods.
 */
#ifndef PROFLET_UNWIND_HOTSPOT_JOB_H
#define PROFLET_UNWIND_HOTSPOT_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/runtime/hotspot_layout.h"
#include "agent/unwind/vm_job.h"

extern const struct parser_operation hotspot_operation;

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
 * Runs the wishes. Appends records to `answer`, in their order, for vm_record_next (vm_job.h). 0; -EAGAIN:
 * the virtual machine is not ready; -ENOTSUP: it is none that we know; also -errno of parser_call; -EBADMSG.
 */
int hotspot_job_run(struct parser_session *session, struct hotspot_process *p, const struct vm_wanted *wanted,
		    size_t n, struct buf *answer);

#endif
