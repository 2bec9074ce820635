// SPDX-License-Identifier: Apache-2.0
/*
 * Opens the files in which a process lists its generated code. A perf map has a fixed name in a folder where
 * everyone can create files, and whoever runs a process in namespaces of its own decides what is at that
 * name. So a file is taken only if the process itself could have written it, and could read it:
 *
 *	- It is a regular file with one name, and neither a symbolic link nor a mount of another file.
 *	- It belongs to the one user that the process has, as our user namespace shows it: a file of root is
 *	  for processes of root alone, and a process that changes between users (setuid) has no such file.
 *	- It was written since the process started.
 *
 * All of it is done in another process: a file system may not answer.
 * /tmp itself may be a mount or a link, anywhere below the process's root. Private to symbol/. Rank 2.
 */
#ifndef PROFLET_SYMBOL_JITOPEN_H
#define PROFLET_SYMBOL_JITOPEN_H

#include <stdint.h>

#include "agent/parser/parser.h"
#include "agent/proc/status.h"

/* Why a file was not taken; the name is for metrics, the text for the log. */
#define JIT_REFUSALS(X)                                                                  \
	X(JIT_NOT_REGULAR, "not_regular", "it is a symbolic link, a folder or a device") \
	X(JIT_MOUNTED, "mounted", "another file is mounted on it")                       \
	X(JIT_LINKED, "linked", "it has several hard links")                             \
	X(JIT_FOREIGN, "foreign", "it does not belong to the user of the process")       \
	X(JIT_OLD, "old", "it is older than the process")

enum jit_refusal {
#define X(name, label, text) name,
	JIT_REFUSALS(X)
#undef X
		JIT_REFUSALS_N
};

struct jit_owner {
	struct proc_status status;
	uint64_t started_unix_ns; /* a perf map last written before this belongs to an earlier process */
};

/* For how long a file system may not answer. */
#define JIT_PATIENCE_MS 1000u

/* What it was when it was opened. */
struct jit_file {
	uint64_t dev, ino, bytes, mtime_ns, ctime_ns;
};

extern const struct parser_operation jit_open_operation;

/*
 * Opens a list in another process (agent/parser) and has that send it to the other end of the socket `to`.
 * `session` is for calls of this function only. jit_open_perfmap: the perf map below the root of a process;
 * jit_open_dump: the jitdump file that the process has mapped, by a descriptor (borrowed). 0; -EPERM: it was
 * refused, and *ret_why is written; -ETIMEDOUT: a file system does not answer; or another -errno.
 */
int jit_open_perfmap(struct parser_session *session, int root_fd, const struct jit_owner *owner, int to,
		     struct jit_file *ret, enum jit_refusal *ret_why);
int jit_open_dump(struct parser_session *session, int mapped_fd, const struct jit_owner *owner, int to,
		  struct jit_file *ret, enum jit_refusal *ret_why);
/* Static. */
const char *jit_refusal_name(enum jit_refusal r);
const char *jit_refusal_text(enum jit_refusal r);

#endif
