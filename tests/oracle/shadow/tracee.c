// SPDX-License-Identifier: Apache-2.0
/*
 * Tracer and tracee share a CPU: a stop then costs two context switches and no interrupt of another CPU.
 */
#include "tests/oracle/shadow/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"

#define RUN_SLICE_NS NS_PER_MS /* between looks at whether it has stopped at a signal */

static volatile sig_atomic_t late;

static void on_alarm(int signal)
{
	(void)signal;
	late = 1;
}

void tracee_deadline(unsigned seconds)
{
	/* again and again: one that comes just before waitpid must not be the only one */
	struct itimerval timer = {.it_value.tv_sec = seconds, .it_interval.tv_usec = 100000};

	sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void share_cpu(void)
{
	cpu_set_t set;
	int cpu = sched_getcpu();

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static _Noreturn void child(char *const argv[], bool output)
{
	int null = open("/dev/null", O_RDWR);

	setpgid(0, 0);
	if (null < 0 || dup2(null, 0) < 0)
		_exit(127);
	if (!output && (dup2(null, 1) < 0 || dup2(null, 2) < 0))
		_exit(127);
	personality(ADDR_NO_RANDOMIZE);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(127);
	execvp(argv[0], argv);
	_exit(127);
}

static int registers(struct tracee *t)
{
	return ptrace(PTRACE_GETREGS, t->pid, NULL, &t->regs) < 0 ? -errno : 0;
}

/* Waits for the next stop; takes what ptrace itself causes out of the signals. */
static int wait_stop(struct tracee *t)
{
	int r;

	do
		r = waitpid(t->pid, &t->status, __WALL);
	while (r < 0 && errno == EINTR && !late);
	if (r < 0)
		return errno == EINTR ? TRACEE_LATE : -errno;
	if (WIFEXITED(t->status) || WIFSIGNALED(t->status)) {
		t->pid = 0;
		return TRACEE_ENDED;
	}
	r = registers(t);
	if (r < 0)
		return r == -ESRCH ? TRACEE_LATE : r; /* killed meanwhile */
	if (t->status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8))
		return TRACEE_EXEC;
	t->signal = WSTOPSIG(t->status) == SIGTRAP ? 0 : WSTOPSIG(t->status);
	return TRACEE_STEPPED;
}

int tracee_start(struct tracee *t, char *const argv[], bool output)
{
	int r;

	*t = (struct tracee){0};
	share_cpu();
	t->pid = fork();
	if (t->pid < 0)
		return -errno;
	if (t->pid == 0)
		child(argv, output);
	r = wait_stop(t);
	if (r != TRACEE_STEPPED)
		return r < 0 ? r : -ENOENT;
	if (ptrace(PTRACE_SETOPTIONS, t->pid, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) < 0)
		return -errno;
	return 0;
}

void tracee_end(struct tracee *t)
{
	if (!t->pid)
		return;
	kill(-t->pid, SIGKILL);
	kill(t->pid, SIGKILL);
	while (waitpid(t->pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	t->pid = 0;
}

/* Has the program a handler for it? */
static bool is_caught(const struct tracee *t, int signal)
{
	_cleanup_fclose_ FILE *f = NULL;
	char line[256];
	unsigned long long mask;

	snprintf(line, sizeof line, "/proc/%d/status", t->pid);
	f = fopen(line, "re");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "SigCgt: %llx", &mask) == 1)
			return mask >> (signal - 1) & 1;
	return false;
}

int tracee_step(struct tracee *t)
{
	int signal = t->signal, r;
	uint64_t sp = t->regs.rsp;
	bool caught = signal && is_caught(t, signal);

	if (late)
		return TRACEE_LATE;
	t->signal = 0;
	if (ptrace(PTRACE_SINGLESTEP, t->pid, NULL, (void *)(long)signal) < 0)
		return errno == ESRCH ? TRACEE_LATE : -errno;
	r = wait_stop(t);
	t->caught = caught && r == TRACEE_STEPPED && t->regs.rsp != sp;
	return r;
}

static int resume(struct tracee *t)
{
	int signal = t->signal;

	t->signal = 0;
	if (ptrace(PTRACE_CONT, t->pid, NULL, (void *)(long)signal) < 0)
		return -errno;
	return wait_stop(t);
}

/* Whether it has stopped, or ended, which wait_stop will take note of. */
static bool has_stopped(const struct tracee *t)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)t->pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) == 0 &&
	       info.si_pid;
}

int tracee_run(struct tracee *t, uint64_t ns)
{
	const struct timespec wait = {.tv_nsec = (long)(ns < RUN_SLICE_NS ? ns : RUN_SLICE_NS)};
	const uint64_t end_ns = clock_mono_ns() + ns;
	int signal = t->signal, r = TRACEE_STEPPED;

	t->signal = 0;
	if (ptrace(PTRACE_CONT, t->pid, NULL, (void *)(long)signal) < 0)
		return -errno;
	while (clock_mono_ns() < end_ns) {
		nanosleep(&wait, NULL);
		if (!has_stopped(t))
			continue;
		r = wait_stop(t);
		if (r != TRACEE_STEPPED && r != TRACEE_EXEC)
			return r;
		signal = t->signal;
		t->signal = 0;
		if (ptrace(PTRACE_CONT, t->pid, NULL, (void *)(long)signal) < 0)
			return -errno;
	}
	kill(t->pid, SIGSTOP);
	for (r = wait_stop(t); (r == TRACEE_STEPPED && t->signal != SIGSTOP) || r == TRACEE_EXEC;
	     r = resume(t))
		;
	if (r == TRACEE_STEPPED)
		t->signal = 0;
	return r;
}

int tracee_run_to(struct tracee *t, uint64_t address)
{
	long word, r;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, t->pid, (void *)address, NULL);
	if (errno || ptrace(PTRACE_POKETEXT, t->pid, (void *)address, (void *)((word & ~0xffl) | 0xcc)) < 0)
		return -errno;
	do
		r = resume(t);
	while (r == TRACEE_STEPPED && t->regs.rip != address + 1);
	if (r != TRACEE_STEPPED)
		return (int)r;
	t->regs.rip = address;
	t->signal = 0;
	if (ptrace(PTRACE_SETREGS, t->pid, NULL, &t->regs) < 0 ||
	    ptrace(PTRACE_POKETEXT, t->pid, (void *)address, (void *)word) < 0)
		return -errno;
	return TRACEE_STEPPED;
}

size_t tracee_read(const struct tracee *t, uint64_t address, void *to, size_t len)
{
	struct iovec local = {to, len}, remote = {(void *)address, len};
	ssize_t n = process_vm_readv(t->pid, &local, 1, &remote, 1, 0);

	return n < 0 ? 0 : (size_t)n;
}
