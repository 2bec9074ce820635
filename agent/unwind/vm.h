// SPDX-License-Identifier: Apache-2.0
/*
 * The virtual machine of a process that compiles code and knows it: one of several kinds, each with a job
 * that looks at it. One program has one at most that is looked at.
 */
#ifndef PROFLET_UNWIND_VM_H
#define PROFLET_UNWIND_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/unwind/beam_job.h"
#include "agent/unwind/dotnet_job.h"
#include "agent/unwind/hotspot_job.h"
#include "agent/unwind/v8_rows_job.h"

/* Of V8, the rows of its code are made here; what it is called, others know (v8_code_job.h). */
enum vm_kind { VM_NONE, VM_HOTSPOT, VM_BEAM, VM_DOTNET, VM_V8, VM_KINDS };

/* What leads to its tables: process addresses. */
struct vm {
	enum vm_kind kind;
	union {
		struct hotspot_vm hotspot;
		struct beam_vm beam;
		struct dotnet_vm dotnet;
		struct v8_layout v8;
	};
};

/* What jobs have found out about it; with all zero but `vm`: nothing yet. */
struct vm_process {
	struct vm vm;
	bool known;  /* a job has found its tables */
	int refused; /* -errno: it is none that we know, or it cannot be read; 0: not so */
	union {
		struct hotspot_layout hotspot;
		struct beam_layout beam;
		struct pdb_absent dotnet;
	};
};

/* The process: its pid, and the descriptor of its /proc/PID/mem, borrowed. */
struct vm_target {
	uint32_t pid;
	int mem;
};

/*
 * Runs wishes by the job of its kind; sets `known`, `refused`. Appends records for vm_record_next. 0;
 * -EAGAIN: the machine is not ready; -ENOMEM; other errors of jobs.
 */
int vm_process_run(struct vm_process *p, struct parser_session *session, const struct vm_target *target,
		   const struct vm_wanted *wanted, size_t n, struct buf *answer);
/* Of a HotSpot, the version of the JDK; 0: it is another machine, or not known yet. */
uint32_t vm_process_java_version(const struct vm_process *p);
/* The same of its heaps of code; NULL: they are not known yet, or it is another machine. Borrowed. */
const struct code_heaps *vm_process_heaps(const struct vm_process *p);
/* The same of how many classes it had unloaded, and one more, before and after the last job; 0: not known. */
void vm_process_unloaded(const struct vm_process *p, uint64_t *ret_before, uint64_t *ret_after);

#endif
