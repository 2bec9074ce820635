// SPDX-License-Identifier: Apache-2.0
/*
 * Names of code that processes generate at run time: which processes have such code, which of their mapped
 * files list it, and which runtime generated it. Built on agent/symbol/jit.h; only names.c uses it. Main loop
 * only.
 *
 * Such code has a name within its process only. So a frame in it gets a number of its own for each process
 * (jit_names_id), which jit_names_frame translates back.
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
struct symbol_jit_code;
struct stack_frame;
struct worker_job;

/* `binaries` is borrowed. 0 or -errno. */
int jit_names_new(struct jit_names **ret, struct binary_registry *binaries);
/* All jobs must have been done before: free the workers first. NULL is fine. */
void jit_names_free(struct jit_names *n);
/* As symbol_jit_stop. */
void jit_names_stop(struct jit_names *n);
/* Whether a user frame may be in generated code: in no file, or in a file that is not ELF. */
bool jit_names_wants(struct jit_names *n, const struct stack_frame *f);
/*
 * Call for each sample of `p` that has such a frame. For the first one it returns a job that reads the
 * process's files, which may be gone soon; the caller submits it. Else NULL.
 */
struct worker_job *jit_names_note(struct jit_names *n, struct process *p, uint64_t now_ns);
/*
 * A job that reads what the process's files have grown by, for the caller to submit. NULL when the process is
 * not known, when a job of it is running, or without memory.
 */
struct worker_job *jit_names_job(struct jit_names *n, struct process *p);
/*
 * The function at a process address, as the process's runtime lists it. 0; -EAGAIN: a job is running;
 * -ESTALE: the list was last read before `since_ns`, and a job must be started; -ENOENT: it is not listed.
 */
int jit_names_code(struct jit_names *n, const struct process *p, uint64_t address, uint64_t since_ns,
		   struct symbol_jit_code *ret);
/*
 * The number of a user frame of p's: frame->word, or, if its code may have a name here, a number that is p's
 * alone. Valid until the next jit_names_note or jit_names_sweep.
 */
uint64_t jit_names_id(struct jit_names *n, const struct process *p, const struct stack_frame *f);
/*
 * Writes the frame of a number that belongs to one process; its strings are borrowed until a job is done.
 * False for any other number: it is the word of a frame, and *ret is not written.
 */
bool jit_names_frame(struct jit_names *n, uint64_t id, struct frame *ret);
/* Forgets processes that ended and had no sample since `before_ns`. Call once for each window. */
void jit_names_sweep(struct jit_names *n, uint64_t before_ns);
void jit_names_stats(const struct jit_names *n, struct symbol_jit_stats *ret);

#endif
