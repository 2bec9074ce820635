// SPDX-License-Identifier: Apache-2.0
/*
 * Code that is in no ELF file: what processes generate, unpack or load by means of their own. When samples
 * hit it, the process gets a binary that stands for all such code of its memory (binary_new_generated), and
 * the function around each address that is not known yet is analysed: the one that the runtime lists for
 * profilers, or what the bytes show. Main loop only.
 */
#ifndef PROFLET_TRACK_GENERATED_CODE_H
#define PROFLET_TRACK_GENERATED_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/unwind/generated.h"

struct binary_registry;
struct generated_code;
struct process;
struct publication;
struct unwind_tables;

#define GENERATED_PROCESSES_MAX 512u
#define GENERATED_WORKLOAD_MAX 128u  /* of these, processes of one control group */
#define GENERATED_ADDRESSES_MAX 256u /* that wait, of one process, until the runtime's list was read */

struct generated_code_options {
	struct binary_registry *binaries;
	struct unwind_tables *tables;
	struct publication *publication;
	uint64_t (*mono_ns)(void);
	/*
	 * Finds the function at request->address as the runtime lists it, by a list that is not older than
	 * `since_ns`: fills start, end and frame_pointer. 0; -EAGAIN: not read yet; -ENOENT: not listed;
	 * -ENOTSUP: the process's generated code is not to be analysed. NULL: nothing is listed.
	 */
	int (*function)(struct process *p, uint64_t since_ns, struct generated_request *request, void *data);
	/* Whether a virtual machine of the process is known by now: fills request->vm. NULL: none ever is. */
	bool (*machine)(struct process *p, struct generated_request *request, void *data);
	void *data;
};

struct generated_code_stats {
	size_t processes;
	uint64_t full; /* processes whose code is not analysed because there are too many */
};

/* Everything in `options` is borrowed. 0 or -ENOMEM. */
int generated_code_new(struct generated_code **ret, const struct generated_code_options *options);
void generated_code_free(struct generated_code *g); /* NULL is fine */
/*
 * A sample of the process has met code at this address, which is in no ELF file, and could not be walked past
 * it, or wants to know more of it: GENERATED_CODE, GENERATED_OTHER, GENERATED_LOOK.
 */
void generated_code_hit(struct generated_code *g, struct process *p, uint64_t address,
			enum generated_wish wish);
/* The memory of the process is going to be looked at (unwind_tables_request_line): it gets its binary. */
void generated_code_begin(struct generated_code *g, struct process *p);
/* Whether an address of the process still waits for the runtime's list. */
bool generated_code_waits(const struct generated_code *g, const struct process *p);
/* Requests the analysis of what could be looked up meanwhile. Call after worker_collect. */
void generated_code_run(struct generated_code *g);
/* Whether the memory of code is given to other code now: what is not looked at soon is lost. */
bool generated_code_changes(const struct generated_code *g);
/* Forgets processes that have ended. */
void generated_code_sweep(struct generated_code *g);
void generated_code_stats(const struct generated_code *g, struct generated_code_stats *ret);

#endif
