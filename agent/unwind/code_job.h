// SPDX-License-Identifier: Apache-2.0
/*
 * Analyses code that a process has generated (agent/elf/code/memory_rows.h) where its bytes can do no harm
 * (agent/parser), and checks the result.
 */
#ifndef PROFLET_UNWIND_CODE_JOB_H
#define PROFLET_UNWIND_CODE_JOB_H

#include <stddef.h>

#include "agent/elf/code/memory_rows.h"

struct parser_operation;
struct parser_session;

extern const struct parser_operation code_operation;

/* As memory_rows_make, for code of one process in one session. Also -errno of parser_call; -EBADMSG. */
int code_job_run(struct parser_session *session, struct memory_rows *ret, const struct memory_code *code);
/* Reads and checks what a parser process has answered about `n` bytes of code. 0; -EBADMSG; -ENOMEM. */
int code_answer_read(struct memory_rows *ret, uint32_t n, const void *bytes, size_t len);

#endif
