// SPDX-License-Identifier: Apache-2.0
/*
 * Builds the unwind table of a binary where the binary can do no harm (agent/parser): ELF image → rows →
 * blocks. The result is checked before it is returned: whatever the process was made to send, the blocks have
 * the form that the BPF program expects.
 */
#ifndef PROFLET_UNWIND_TABLE_JOB_H
#define PROFLET_UNWIND_TABLE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/file/version.h"
#include "agent/unwind/block.h"

struct runtime_facts;
struct debug_search;
struct parser_operation;

struct table_request {
	int fd;				   /* of the binary, open for reading */
	int debug_fd;			   /* of the debug file that an earlier build used, or -1 */
	const struct elf_version *version; /* of the content whose table is wanted; NULL: any */
	struct debug_search *search;	   /* where its debug files may be */
	bool of_system;			   /* as parser_call's: the binary; there is no debug file */
	/*
	 * Gets what is known of the language runtime before there is a table, once at most, on the worker
	 * thread: of V8, whose functions can be found without one. Borrowed. NULL: it is not wanted.
	 */
	void (*early)(const struct runtime_facts *facts, void *data);
	void *data;
};

/* A debug file that was found. */
struct table_debug {
	bool found;
	unsigned number; /* of `search`, or DEBUG_FILE_GIVEN */
	uint64_t delta;	 /* add it to an address of the debug file to get the binary's */
	struct elf_version version;
};

struct table_result {
	struct unwind_blocks blocks; /* owned */
	uint64_t n_rows, n_skipped, build_ns;
	struct table_debug debug;      /* has rows of the table */
	struct table_debug names;      /* has names that the binary lacks */
	struct runtime_facts *runtime; /* owned; NULL: the binary has no language runtime */
};

extern const struct parser_operation table_operation;

/*
 * On a worker thread. 0; -ENODATA: the file has no call-frame information; -ESTALE: it has other content;
 * -errno, also of parser_call. `ret->debug`, `ret->names` and `ret->runtime` are filled in on failure, too
 * (the last one not with -ESTALE): call table_result_fini then, too.
 */
int table_job_run(const struct table_request *request, struct table_result *ret);
void table_result_fini(struct table_result *r);
/*
 * Reads and checks what a parser process has answered with `result`. 0; `result` if that is negative;
 * -EBADMSG: the bytes are no answer; -ENOMEM. On failure there are no blocks.
 */
int table_answer_read(struct table_result *ret, const void *bytes, size_t len, int result);

#endif
