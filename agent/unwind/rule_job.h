// SPDX-License-Identifier: Apache-2.0
/*
 * Finds complete rules of addresses of a file (agent/elf/rule_lookup.h) where the file can do no harm
 * (agent/parser). The rules are checked before they are returned; their expressions are evaluated by the
 * agent, within bounds (agent/elf/cfi/evaluate.h).
 */
#ifndef PROFLET_UNWIND_RULE_JOB_H
#define PROFLET_UNWIND_RULE_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/elf/cfi/frame_rule.h"

struct elf_version;
struct parser_operation;

#define RULE_JOB_MAX 64u /* addresses */

extern const struct parser_operation rule_operation;

/*
 * `fd` may have O_PATH. `version`: of the content whose rules are wanted; NULL: any. `of_system`: as
 * parser_call's. 0: the result for each address is in query[].error; -ESTALE; -errno as frame_rules_find and
 * parser_call; -EBADMSG: no answer.
 */
int rule_job_run(int fd, const struct elf_version *version, bool of_system, struct frame_query *query,
		 size_t n);
/* Reads and checks what a parser process has answered. 0 or -EBADMSG. */
int rule_answer_read(struct frame_query *query, size_t n, const void *bytes, size_t len);

#endif
