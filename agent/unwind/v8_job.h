// SPDX-License-Identifier: Apache-2.0
/*
 * Has the lines at which functions of V8 begin counted (agent/elf/runtime/v8_lines.h), where the bytes of the
 * process can do no harm (agent/parser). Checks the result.
 */
#ifndef PROFLET_UNWIND_V8_JOB_H
#define PROFLET_UNWIND_V8_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/runtime/v8_lines.h"

struct parser_operation;
struct parser_session;
struct v8_layout;

extern const struct parser_operation v8_operation;

#define V8_WISHES_MAX 1024u /* in one job */

/* The line of a place in a script. */
struct v8_line_wish {
	uint64_t number; /* of the function (struct runtime_code) */
	struct v8_script script;
	uint32_t place;		 /* in characters */
	uint32_t line;		 /* the result; 0: not known */
	struct v8_member member; /* another result: whose method it is */
};

/*
 * Fills in the lines. `mem` is /proc/PID/mem, borrowed. 0; -EINVAL: too many; also -errno of parser_call;
 * -EBADMSG; without success, no line is changed.
 */
int v8_job_run(struct parser_session *session, int mem, const struct v8_layout *layout,
	       struct v8_line_wish *wishes, size_t n);

#endif
