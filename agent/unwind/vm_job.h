// SPDX-License-Identifier: Apache-2.0
/*
 * What the jobs share that look at the code of virtual machines (hotspot_job.h, beam_job.h, dotnet_job.h):
 * the records of the answer, made in a parser process, and the call of such a process.
 */
#ifndef PROFLET_UNWIND_VM_JOB_H
#define PROFLET_UNWIND_VM_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/flat.h"
#include "agent/elf/code/memory_code.h"
#include "agent/elf/runtime/vm_answer.h"

struct parser_operation;
struct parser_session;

/* --- in a parser process */

struct vm_records {
	struct buf names; /* of the record that is being made; owned */
	struct buf *to;	  /* the answer; borrowed */
};

/* Appends a record: what was found, the rows (NULL: none), the names. 0; -ENOMEM; -E2BIG. */
int vm_records_put(struct vm_records *v, struct vm_found *f, const struct memory_rows *rows);
/*
 * Reads `n` wishes, and has each looked at, by a function that gets a record with nothing but the address in
 * it, and puts it. If it fails, that record is put. 0; -EINVAL: there are fewer wishes; -ENOMEM; -E2BIG.
 */
int vm_records_make(struct vm_records *v, struct flat_reader *wishes, uint64_t n,
		    int (*look)(const struct vm_wanted *w, struct vm_found *f, void *data), void *data);
/* Adds to the names of the record that is being made: all of its code is one method, at no address. */
int vm_records_name(struct vm_records *v, const char *name);
/*
 * The same with lines: the code up to each place is that of the scope of the same index, of which there are
 * `n` of both.
 */
int vm_records_lines(struct vm_records *v, const char *name, const char *file,
		     const struct hotspot_scope *scopes, const struct hotspot_place *places, size_t n);
void vm_records_fini(struct vm_records *v);

/* --- in the agent */

#define VM_WANTED_MAX 4096u /* in one job */

struct vm_job {
	const struct parser_operation *operation;
	int mem; /* /proc/PID/mem; borrowed */
	/* As in struct parser_call; NULL: the job opens nothing. */
	int (*query)(const void *query, size_t len, void *data);
	void *data;
	const void *head; /* of the request; the wishes follow */
	size_t head_bytes;
	const struct vm_wanted *wanted;
	size_t n;
	/* What a machine's objects look like stands in front of the records, to be kept; NULL: nothing. */
	void *layout;
	size_t layout_bytes;
	bool (*valid)(const void *layout);
};

/*
 * Appends the operation's records to `answer`, and sets the layout. 0, or -errno of parser_session_call;
 * -EBADMSG: the layout is not valid.
 */
int vm_job_call(struct parser_session *session, const struct vm_job *job, struct buf *answer);

/* A record of an answer; pointers are borrowed from it. */
struct vm_record {
	struct vm_found found;
	struct memory_rows rows; /* owned */
	const uint8_t *names;	 /* found.name_bytes */
};

/* 1: *ret is the next record; 0: there are no more; -EBADMSG: it is not valid; -ENOMEM. */
int vm_record_next(struct flat_reader *from, struct vm_record *ret);

#endif
