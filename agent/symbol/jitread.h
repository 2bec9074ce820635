// SPDX-License-Identifier: Apache-2.0
/*
 * Reads what a list of generated code has grown by. That is done by a parser process (agent/parser), which
 * gets the file from the process that opened it (jitopen.h) and the position that an earlier one has
 * answered; its answer is what the new entries change in the table. Private to symbol/.
 */
#ifndef PROFLET_SYMBOL_JITREAD_H
#define PROFLET_SYMBOL_JITREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/parser/parser.h"
#include "agent/symbol/jittable.h"

#define JIT_FILE_MAX (1ull << 30)	  /* bytes of a file that are read at most */
#define JIT_READ_MAX ((uint64_t)16 << 20) /* bytes that one call reads at most */
#define JIT_TAIL_BYTES 64u

/* Where to continue. Zeroed: at the beginning. */
struct jit_position {
	uint64_t offset; /* may be beyond `seen`, as code is written last */
	uint64_t seen;	 /* length of the file at the last read */
	uint32_t tail_bytes;
	uint8_t skipping, begun, swapped, ended; /* of perfmap.h and jitdump.h */
	uint8_t tail
		[JIT_TAIL_BYTES]; /* the bytes before the position: if they change, the file was rewritten */
};

struct jit_progress {
	uint64_t bytes;	       /* that were read */
	uint64_t n_bad, n_cut; /* malformed entries; entries for which there was no room */
	bool rewritten;	       /* the file was, and it was read from the beginning */
	bool refused;	       /* it is no such list */
	bool more;	       /* there is more to read */
};

extern const struct parser_operation jit_read_operation;

/*
 * Reads at most `max_bytes` of the list that another process sends, or has sent, to the other end of the
 * socket `from`. `table`: NULL, or of the entries before the position (borrowed). *ret_table receives a new
 * table, which the caller owns, or NULL: nothing has changed. Nothing is written on failure: as parser_call,
 * or -EBADMSG.
 */
int jit_read(struct parser_session *session, int from, bool dump, uint64_t max_bytes, struct jit_position *at,
	     const struct jit_table *table, struct jit_table **ret_table, struct jit_progress *ret);
/* The part of jit_read that checks an answer to a call with `max_bytes`. 0, -EBADMSG, -ENOMEM. */
int jit_read_answer(const void *bytes, size_t len, uint64_t max_bytes, struct jit_position *at,
		    const struct jit_table *table, struct jit_table **ret_table, struct jit_progress *ret);

#endif
