// SPDX-License-Identifier: Apache-2.0
/*
 * The rows of code that V8 has compiled: where it begins and ends, its object says (v8_inlined.h), and what
 * its instructions do to the stack, their analysis (agent/elf/code/memory_rows.h). Whoever analyses a window
 * of V8's code without knowing its objects takes a loop in the middle of a function for a function now and
 * then. Where the bytes can do no harm (agent/parser).
 */
#ifndef PROFLET_UNWIND_V8_ROWS_JOB_H
#define PROFLET_UNWIND_V8_ROWS_JOB_H

#include <stddef.h>

#include "agent/elf/runtime/v8.h"
#include "agent/elf/runtime/vm_answer.h"

struct buf;
struct parser_operation;
struct parser_session;

extern const struct parser_operation v8_rows_operation;

/*
 * Runs the wishes (VM_WANT_CODE, VM_WANT_CHECK), VM_WANTED_MAX at most, and appends records for
 * vm_record_next, without names. `mem` is /proc/PID/mem, borrowed. 0; -errno of vm_job_call.
 */
int v8_rows_job_run(struct parser_session *session, int mem, const struct v8_layout *layout,
		    const struct vm_wanted *wanted, size_t n, struct buf *answer);

#endif
