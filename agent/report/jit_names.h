// SPDX-License-Identifier: Apache-2.0
/*
 * Names of code that processes make at run time: which processes have such code, which of their files list
 * it, what runtime made it. Over agent/symbol/jit.h; for names.c alone. Main loop only.
 */
#ifndef PROFLET_REPORT_JIT_NAMES_H
#define PROFLET_REPORT_JIT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/sample/frames.h"
#include "agent/symbol/jit.h"

_Static_assert(SYMBOL_JIT_PROCESSES_MAX <= FRAME_PROCESS_SLOTS, "each process has a tag");

struct binary_registry;
struct frame;
struct jit_names;
struct process;
struct stack_frame;
struct worker_job;

/* `binaries` is borrowed. 0 or -errno. */
int jit_names_new(struct jit_names **ret, struct binary_registry *binaries);
/* All jobs must be done. NULL is fine. */
void jit_names_free(struct jit_names *n);
/* May this user frame be of such code? Else no name of it is known here. */
bool jit_names_wants(struct jit_names *n, const struct stack_frame *f);
/* A sample of `p` has such a frame. A job when it is the first one: its files may be gone soon. NULL: none.
 */
struct worker_job *jit_names_note(struct jit_names *n, struct process *p, uint64_t now_ns);
/* A job that reads on what p's files have got. NULL: none is needed, or possible. */
struct worker_job *jit_names_job(struct jit_names *n, struct process *p);
/*
 * A number for a user frame of p's: `frame` itself, or where its code may have a name here, one of its own in
 * each process. It is good until the next jit_names_note or jit_names_sweep.
 */
uint64_t jit_names_id(struct jit_names *n, const struct process *p, const struct stack_frame *f);
/* What such a number means; false: it is a frame. Borrowed until a job is done. */
bool jit_names_frame(struct jit_names *n, uint64_t id, struct frame *ret);
/* Now and then: forgets processes that have ended. */
void jit_names_sweep(struct jit_names *n, uint64_t before_ns);
size_t jit_names_bytes(const struct jit_names *n);

#endif
