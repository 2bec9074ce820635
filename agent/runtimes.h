// SPDX-License-Identifier: Apache-2.0
/*
 * Language runtimes, for the agent: what the BPF program reports of them beside samples, and their frames in
 * samples. Main loop only.
 */
#ifndef PROFLET_RUNTIMES_H
#define PROFLET_RUNTIMES_H

#include <stdbool.h>

#include "agent/runtime/code_names.h"
#include "agent/runtime/jvm_code.h"
#include "agent/sample/splice.h"

struct buf;
struct hotspot_vm;
struct probe;
struct process;
struct runtimes;
struct sampled_task;
struct track;
struct unwind_tables;

struct runtimes_options {
	struct probe *probe;
	struct track *track;
	bool loop_frames; /* show the native frames of interpreters' loops */
	unsigned kinds;	  /* bit n: those of kind n (enum runtime_kind) are wanted; RUNTIME_WANT_TASKS */
	size_t max_bytes; /* of names; the same again for code of Java virtual machines */
};

struct runtimes_stats {
	struct code_names_stats names;
	struct splice_stats splice;
	struct jvm_code_stats jvm;
	uint64_t bad_reports;
	uint64_t unknown;      /* reports of a file that is gone by now */
	uint64_t bad_tasks;    /* tasks whose name was not all there, or is neither text nor number */
	uint64_t lines_missed; /* of functions of V8: where they begin was not found, or not in time */
	uint64_t refused;      /* processes whose objects have another layout than their file's version */
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int runtimes_new(struct runtimes **ret, const struct runtimes_options *options);
void runtimes_free(struct runtimes *r); /* NULL is fine */
/* The names of functions, for report. Borrowed. */
struct code_names *runtimes_names(struct runtimes *r);
/* Takes what the program has reported. Call it after each drain of samples, whose code objects it names. */
void runtimes_drain(struct runtimes *r);
/* Has code objects reported again if some were missed; logs what is not shown. Call it now and then. */
void runtimes_check(struct runtimes *r);
/* Appends a line for each file with a runtime: whether its functions are shown, of how many processes. */
void runtimes_describe(const struct runtimes *r, struct buf *ret);
/* The same for the runtimes in the process's files, and why functions of each are not shown. */
void runtimes_describe_process(const struct runtimes *r, const struct process *p, struct buf *ret);
/*
 * Where the tables of the process's Java virtual machine are. 0; -ENOENT: it has none, or its methods are
 * not wanted;
 * -EAGAIN: that is not known yet.
 */
int runtimes_find_hotspot(const struct runtimes *r, const struct process *p, struct hotspot_vm *ret);
/* Whether names of methods, frames of which have occurred, are on their way. */
bool runtimes_expects(const struct runtimes *r);
/* The index of a file is about to be given to another one. */
void runtimes_forget_file(struct runtimes *r, uint32_t index);
/* As sample_splice, of a sample of that task. Frames of Java and V8 get the words of their functions, too. */
void runtimes_splice(struct runtimes *r, const struct sampled_task *task, const struct sample_view *v,
		     struct sample_view *ret);
void runtimes_stats(const struct runtimes *r, struct runtimes_stats *ret);

#endif
