// SPDX-License-Identifier: Apache-2.0
/*
 * Looks at code that V8 has compiled, in a process's memory (agent/elf/runtime/v8_inlined.h), where the bytes
 * can do no harm (agent/parser): which functions are inlined where, and what they are called. A function has
 * the number that the BPF program gives it, and its name comes as that program reports it; both are computed
 * by the same code (bpf/v8.h, bpf/v8_reports.h).
 */
#ifndef PROFLET_UNWIND_V8_CODE_JOB_H
#define PROFLET_UNWIND_V8_CODE_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/runtime/v8.h"
#include "agent/elf/runtime/vm_answer.h"
#include "bpf/abi.h"

struct buf;
struct parser_operation;
struct parser_session;

extern const struct parser_operation v8_code_operation;

#define V8_CODE_WISHES_MAX 256u /* in one job */

/* The job's view of a process: how the BPF program finds functions in it, and what V8's code looks like. */
struct v8_process {
	struct runtime_walk walk;
	struct v8_layout layout;
};

/*
 * Runs the wishes (VM_WANT_CODE, VM_WANT_CHECK). Appends to `records` what vm_code_add takes: methods of V8
 * are functions, whose address is their number, without a name; the first one is that of the code itself, 0
 * if it has none. Appends to `reports` the functions that are inlined, each an u64 of the bytes that follow
 * and a struct runtime_code without pid. `mem` is /proc/PID/mem, borrowed. 0; -EINVAL: too many; also -errno
 * of parser_call; -EBADMSG.
 */
int v8_code_job_run(struct parser_session *session, int mem, const struct v8_process *process,
		    const struct vm_wanted *wanted, size_t n, struct buf *records, struct buf *reports);

#endif
