// SPDX-License-Identifier: Apache-2.0
/*
 * Language runtimes, for the agent: what the BPF program reports of them beside samples, and their frames in
 * samples. Main loop only.
 */
#ifndef PROFLET_RUNTIMES_H
#define PROFLET_RUNTIMES_H

#include <stdbool.h>

#include "agent/elf/runtime/facts.h"
#include "agent/runtime/code_names.h"
#include "agent/runtime/vm_code.h"
#include "agent/sample/splice.h"
#include "agent/unwind/vm.h"
#include "bpf/abi.h"

struct buf;
struct generated_request;
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

/* Samples with functions whose frames are on the native stack. */
struct runtimes_native_stats {
	uint64_t by_ending[ENDINGS];
	uint64_t
		unnamed; /* of V8: with code, but no function; of others: with code of which nothing was known */
};

struct runtimes_stats {
	struct code_names_stats names;
	struct splice_stats splice;
	struct vm_code_stats vm_code;
	struct runtimes_native_stats v8, vm[VM_KINDS];
	uint64_t bad_reports;
	uint64_t unknown;      /* reports of a file that is gone by now */
	uint64_t bad_tasks;    /* tasks whose name was not all there, or is neither text nor number */
	uint64_t lines_missed; /* of functions of V8: where they begin was not found, or not in time */
	uint64_t refused;      /* processes whose objects have another layout than their file's version */
};

#define RUNTIMES_VERSIONS_MAX 64u

/* Live processes by the runtimes in their files. */
struct runtimes_processes {
	struct runtimes_version {
		const char *runtime;		    /* as frames have it: "cpython"; static */
		char version[RUNTIME_VERSION_TEXT]; /* "3.11.2"; "" if it is not known yet */
		bool shown;			    /* their functions are */
		uint64_t processes;
	} v[RUNTIMES_VERSIONS_MAX];
	size_t n;
	uint64_t others; /* processes for whose version there was no room */
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
 * What leads to the tables of the process's virtual machine, which knows the code that it has compiled: `vm`
 * of *ret. 0; -ENOENT: it has none, or its functions are not wanted; -ENOTSUP: what it compiles has no rows;
 * -EAGAIN: that is not known yet.
 */
int runtimes_find_vm(const struct runtimes *r, const struct process *p, struct generated_request *ret);
/*
 * Whether the names of methods in the sample are settled, as vm_code_settled; those that are not are
 * looked at soon.
 */
bool runtimes_named(struct runtimes *r, const struct sampled_task *task, const struct sample_view *v);
/* Whether names of methods, frames of which have occurred, are on their way. */
bool runtimes_expects(const struct runtimes *r);
/* The index of a file is about to be given to another one. */
void runtimes_forget_file(struct runtimes *r, uint32_t index);
/* As sample_splice, of a sample of that task. Frames of Java and V8 get the words of their functions, too. */
void runtimes_splice(struct runtimes *r, const struct sampled_task *task, const struct sample_view *v,
		     struct sample_view *ret);
/* Looks at every process and its mappings. */
void runtimes_count(const struct runtimes *r, struct runtimes_processes *ret);
void runtimes_stats(const struct runtimes *r, struct runtimes_stats *ret);

#endif
