// SPDX-License-Identifier: Apache-2.0
/*
 * Parser processes. Whoever may run programs on the node chooses the bytes of binaries, debug files and
 * symbol tables, and a mistake in what reads them must not be worth anything. So these bytes are
 * interpreted in processes that may do nothing: they have no capabilities, another user id, no file system
 * (Landlock) and a dozen system calls (seccomp). A process gets descriptors of regular files, does one job,
 * and returns flat bytes, which the agent checks before it uses them. A bad file ends its own process only.
 *
 * One process, the nursery, is forked before there are threads, secrets or a BPF program; it forks one
 * process for each job, so that no job can have prepared anything for the next one. Only jobs about files
 * that root of the host has written share processes, among themselves: such files are of one origin.
 *
 *	agent's thread → nursery: a socket         nursery → thread: pid of the new process; how it ended
 *	thread → process: the job, descriptors     process → thread: queries, then the answer
 *
 * The nursery kills a process when the thread closes the socket. Operations that open files have a nursery of
 * their own, whose processes may do that and nothing else.
 *
 * Where there is no nursery (unit tests, `proflet tables`), a job is run by its caller.
 *
 * Ways to forbid: seccomp(2), landlock(7), prctl(2) PR_SET_NO_NEW_PRIVS and PR_SET_DUMPABLE.
 */
#ifndef PROFLET_PARSER_H
#define PROFLET_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/parser/operation.h"
#include "agent/parser/session.h"

struct parser_call {
	const struct parser_operation *operation;
	struct buf request;	 /* the caller's */
	int fds[PARSER_FDS_MAX]; /* of regular files, open for reading; borrowed */
	unsigned n_fds;
	/*
	 * Answers a query with a descriptor that is open for reading, owned by parser_call, or -errno. What
	 * is queried comes from the parser process and may be anything. NULL: there is nothing to open.
	 */
	int (*query)(const void *query, size_t len, void *data);
	void *data;
	/*
	 * The files are the system's own (proc_is_system_file): the process may do such jobs before and after
	 * this one, until a query is answered with a descriptor.
	 */
	bool of_system;
	/*
	 * For how long its process may sleep while it is waited for, in milliseconds: a file system may not
	 * answer, and then not even SIGKILL ends who reads from it. 0: for ever.
	 */
	unsigned patience_ms;
	/*
	 * How much its process may compute follows from what its files, and those of its queries, take on
	 * their disks: PARSER_CPU_OF, at most PARSER_CPU_MAX_S. Not for the system's own files.
	 */
	bool in_proportion;
	uint64_t cpu_ns; /* set by parser_call: what its process computed */
};

/* In nanoseconds: some 25 times what native code needs, for processors that are emulated or sanitized. */
#define PARSER_CPU_OF(file_bytes) (500000000u + (uint64_t)(file_bytes) * 250)

enum parser_failure {
	PARSER_CRASHED,	    /* ended by a signal: a bad access, or a forbidden system call */
	PARSER_OUT_OF_TIME, /* used more CPU time than PARSER_CPU_MAX_S, or than its files are worth */
	PARSER_KILLED,	    /* by someone else: the kernel, because memory is short */
	PARSER_REFUSED,	    /* what it sent is no answer */
	PARSER_NOT_STARTED, /* no process could be forked */
	PARSER_NO_ANSWER,   /* its process slept for longer than it may, and was given up */
	PARSER_FAILURES
};

struct parser_stats {
	uint64_t jobs;	/* handed to parser processes */
	uint64_t again; /* of them, about the system's files, to a process that had done one before */
	uint64_t failed[PARSER_FAILURES];
	uint64_t cpu_ns;    /* of parser processes that have ended */
	uint64_t wasted_ns; /* of calls that failed by their process's fault, or whose answers were no use */
	unsigned large, waiting; /* files that take much memory: read now, and such that wait for that */
	uint64_t replaced;	 /* times that the nursery was forked again */
};

/*
 * Forks the nursery. Call it once, while there is one thread, before secrets are read. `operations` are those
 * that parser_call may be called with; they stay as they are. 0 or -errno.
 */
int parser_start(const struct parser_operation *const *operations, size_t n);
/*
 * Ends the nursery and all parser processes: calls on their way fail, and so do those that come (-EAGAIN).
 * Any thread.
 */
void parser_cancel(void);
/* The same, and from now on a job is run by its caller. Call it when no other thread calls anything here. */
void parser_stop(void);
/*
 * Makes the nursery urgent if the calling thread is (base/urgency.h), and then the processes that work for
 * urgent threads: these would else wait for a CPU.
 */
void parser_be_urgent(void);
/*
 * The most memory that a parser process may take for its data, in bytes: files that need more cannot be read,
 * -ENOMEM. And what those that read large files may take together, judged by the sizes of the files: a call
 * for which there is no room waits.
 */
void parser_limit_memory(uint64_t each, uint64_t together);
/* The pid of the nursery; 0: there is none. */
int parser_pid(void);
/* The pid of the nursery whose processes open files (struct parser_operation); 0: there is none. */
int parser_opener_pid(void);

/*
 * Runs an operation in a parser process, and waits for it. Any thread. Appends to `answer`. 0; what the
 * operation returned; -ENOTRECOVERABLE: the process has crashed or was refused; -ETIME: it took too much CPU
 * time; -ETIMEDOUT: it slept for too long; -EAGAIN: no process could be forked, or it was killed: it may
 * succeed later; -ENOMEM; -EMFILE.
 */
int parser_call(struct parser_call *call, struct buf *answer);

/*
 * `r` is what became of an answer when it was read. -EBADMSG: it is no use, and the call's CPU time counts as
 * wasted. Any thread. Returns `r`.
 */
int parser_judge(const struct parser_call *call, int r);
/* As parser_call. After a failure of its process, the session gets another one. */
int parser_session_call(struct parser_session *s, struct parser_call *call, struct buf *answer);
/* Ends processes that wait for a job about the system's files: `all`, or those that have for a second. */
void parser_trim(bool all);
void parser_stats(struct parser_stats *ret);

#endif
