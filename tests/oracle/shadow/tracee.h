// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a program under ptrace, one instruction at a time. Only the main thread of the first process is
 * traced; its children and other threads run freely.
 */
#ifndef PROFLET_TESTS_SHADOW_TRACEE_H
#define PROFLET_TESTS_SHADOW_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct tracee {
	pid_t pid;
	struct user_regs_struct regs; /* of the stop */
	int signal;		      /* is delivered with the next step, 0 none */
	bool caught;		      /* the last step entered the handler of a signal */
	int status;		      /* of waitpid */
};

enum tracee_event {
	TRACEE_STEPPED, /* or stands where it stood, with a signal to deliver */
	TRACEE_EXEC,
	TRACEE_ENDED,
	TRACEE_LATE, /* tracee_deadline passed; the program is stopped, or runs */
};

/* Starts the program, stopped behind its execve; no address randomisation, standard streams to /dev/null
 * unless `output`. 0 or -errno. */
int tracee_start(struct tracee *t, char *const argv[], bool output);
/* Ends what was started and its process group. */
void tracee_end(struct tracee *t);
/* After this time, waiting functions return TRACEE_LATE. */
void tracee_deadline(unsigned seconds);

/* < 0: -errno, else enum tracee_event. */
int tracee_step(struct tracee *t);
/* Lets it run freely for this time, also through execve. */
int tracee_run(struct tracee *t, uint64_t ns);
/* Lets it run freely until it arrives at `address`, by a temporary breakpoint. */
int tracee_run_to(struct tracee *t, uint64_t address);
/* Reads up to `len` bytes; how many could be read, in whole from `address` on. */
size_t tracee_read(const struct tracee *t, uint64_t address, void *to, size_t len);

#endif
