// SPDX-License-Identifier: Apache-2.0
/*
 * The code that one process has generated, as far as samples have hit it: parts of its memory with the rows
 * that the analysis of their bytes gave (agent/elf/code/memory_rows.h). A worker thread reads the memory
 * and analyses; the table of all parts then goes the way of every table (tables.h). Code is replaced while
 * the process runs, so parts that are used are compared with the memory now and then, and dropped if they
 * differ.
 *
 * One thread at a time: a job has it while it runs, and the main loop adds requests between jobs. All sizes
 * are bounded, because the process chooses every byte.
 */
#ifndef PROFLET_UNWIND_GENERATED_H
#define PROFLET_UNWIND_GENERATED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/runtime/v8.h"
#include "agent/unwind/code_times.h"
#include "agent/unwind/v8_code_job.h"
#include "agent/unwind/v8_job.h"
#include "agent/unwind/vm.h"

struct buf;
struct generated;
struct unwind_blocks;

#define GENERATED_REQUESTS_MAX 256u
#define GENERATED_LINES_MAX 512u /* of functions of V8, for the next job */
#define GENERATED_PARTS_MAX 65536u
#define GENERATED_BYTES_MAX (4u << 20)	 /* of rows; beyond, the analysis begins anew */
#define GENERATED_CHECK_BYTES (1u << 20) /* of code that a job compares with the memory; at least a part's */

/* What is wanted of an address. */
enum generated_wish {
	GENERATED_CODE,	  /* code that ran and has no rows */
	GENERATED_OTHER,  /* the same: whatever is known there, it was other code */
	GENERATED_METHOD, /* the name of the method whose object is there */
	GENERATED_LOOK,	  /* a look at known code of the machine */
};

struct generated_request {
	uint64_t address;    /* process address of an instruction */
	uint64_t start, end; /* of its function, as the runtime lists it; both 0: not listed */
	/* where the search for a function may look: the mapping */
	uint64_t low, high;
	bool frame_pointer; /* the runtime vouches for the frame pointer in all of the function */
	struct vm vm;	    /* the process's virtual machine, which knows the code at the address */
	enum generated_wish wish;
};

struct generated_stats {
	uint64_t analysed, replaced,
		refused;	/* parts; that had changed; addresses without rows after the analysis */
	uint64_t unloads;	/* looks before which a HotSpot had unloaded classes */
	enum vm_kind vm;	/* the process's virtual machine; VM_NONE: none was looked at yet */
	bool vm_known;		/* its tables were found */
	int vm_refused;		/* vm_process.refused */
	uint32_t java_version;	/* of the JDK, if it is a HotSpot whose tables were found */
	uint64_t wait_until_ns; /* its virtual machine was not ready, and is not looked at before; or 0 */
};

/* 0 or -ENOMEM. */
int generated_new(struct generated **ret, uint32_t pid);
void generated_free(struct generated *g); /* NULL is fine */
/* Adds a request for the next job. False: there are too many, and a later sample will request it again. */
bool generated_request(struct generated *g, const struct generated_request *request);
/*
 * The same of a line where a function of V8 begins, in objects of that layout. A line that was requested
 * already is not requested again.
 */
bool generated_request_line(struct generated *g, const struct v8_layout *layout,
			    const struct v8_line_wish *wish);
/*
 * The same of code that V8 has compiled, in that process: which functions are inlined where, or whether it is
 * still the same.
 */
bool generated_request_v8_code(struct generated *g, const struct v8_process *process,
			       const struct vm_wanted *wanted);
/*
 * Moves the requests to the job that is about to run. Returns their number; `check`: parts are compared with
 * the memory, too, and if nothing is new there is no new table.
 */
size_t generated_begin(struct generated *g, bool check);
bool generated_requested(const struct generated *g); /* requests wait for the next job */
/*
 * What the last job has found of a virtual machine's code: records for vm_record_next without rows; of
 * code that may be freed at any time also whether it was still the same. Between jobs; borrowed until the
 * next one begins. NULL: nothing.
 */
const struct buf *generated_found(const struct generated *g);
/* The lines that the last job was to find; borrowed as above. 0 of them: nothing. */
size_t generated_lines(const struct generated *g, const struct v8_line_wish **ret);
/* What the last job has found of V8's code, as v8_code_job_run gives it; borrowed as above. */
void generated_v8_code(const struct generated *g, const struct buf **records, const struct buf **reports);
enum vm_kind generated_vm(const struct generated *g); /* whose it is */
uint64_t
generated_began_ns(const struct generated *g); /* CLOCK_MONOTONIC, before the last job looked at anything */
uint32_t generated_pid(const struct generated *g); /* of its process */
/*
 * The parts as the last job has left them, if they are those of a virtual machine that gives the memory of
 * code to other code. Between jobs; borrowed until the next one begins. NULL: they are not.
 */
const struct code_span *generated_spans(const struct generated *g, size_t *ret_n);
/* vm_process_heaps() of the last job. */
const struct code_heaps *generated_heaps(const struct generated *g);
/* Of a HotSpot: vm_process_unloaded() of the last job. */
void generated_unloaded(const struct generated *g, uint64_t *ret_before, uint64_t *ret_after);
uint64_t generated_look(const struct generated *g); /* number of the last job */
/*
 * Addresses that were requested, where the virtual machine has no code now, though it may have had some.
 * Borrowed as above.
 */
const uint64_t *generated_empty(const struct generated *g, size_t *ret_n);
/*
 * On a worker thread: reads the process's memory, which may block for as long as the process likes,
 * analyses, and encodes all parts. 0; -EALREADY: the table is as it was; -ENODATA: there is no part;
 * -ESRCH: the process has no memory any more; -ENOMEM.
 */
int generated_build(struct generated *g, struct unwind_blocks *ret, uint64_t *ret_rows);
void generated_stats(const struct generated *g, struct generated_stats *ret);

#endif
