// SPDX-License-Identifier: Apache-2.0
/*
 * Looks at functions that .NET's runtime has compiled, in a process's memory
 * (agent/elf/runtime/dotnet_code.h), where the bytes can do no harm (agent/parser): which function an address
 * is in, its rows, its name, its lines if there is a file of them (pdb_search.h). The answer has the form of
 * HotSpot's (hotspot_job.h): each function is one method at no address.
 */
#ifndef PROFLET_UNWIND_DOTNET_JOB_H
#define PROFLET_UNWIND_DOTNET_JOB_H

#include <stddef.h>

#include "agent/elf/runtime/dotnet_code.h"
#include "agent/unwind/pdb_search.h"
#include "agent/unwind/vm_job.h"

extern const struct parser_operation dotnet_operation;

/* The job's view of a process. */
struct dotnet_process {
	struct dotnet_vm vm;
	uint32_t pid;
	int mem; /* /proc/PID/mem, borrowed */
	struct pdb_absent
		absent; /* assemblies without lines that were found by jobs; zeroed before the first one */
};

/*
 * Runs the wishes, of VM_WANT_CODE and VM_WANT_CHECK. Appends records to `answer` as
 * hotspot_job_run does (hotspot_job.h), and has its errors.
 */
int dotnet_job_run(struct parser_session *session, struct dotnet_process *p, const struct vm_wanted *wanted,
		   size_t n, struct buf *answer);

#endif
