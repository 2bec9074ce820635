// SPDX-License-Identifier: Apache-2.0
/*
 * Programs of short and of many lives:
 *
 *	lives spin MS
 *		uses MS milliseconds of CPU in leaf < middle < outer < main, and ends
 *	lives runs MS FIRST COUNT FOLDER
 *		at SIGUSR1 runs FOLDER/life-FIRST … one after the other with `spin MS`; writes
 *		FOLDER/runs-FIRST, a line each: pid, begin and end in Unix ns, CPU in us; then waits
 *	lives execs RATE SECONDS FILE
 *		at SIGUSR1 runs FILE so often a second, prints how often it did, and ends
 *	lives many COUNT FILE ARG…
 *		runs so many of FILE, prints "ready", and waits; they end with it
 *
 * The functions' names carry a number of five digits, so that each copy of the file can be given names of its
 * own. A run's CPU is what wait4(2) says of it: from the vfork on, its execve and its end are in it.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINK static __attribute__((noipa))
#define NS 1000000000ll

extern char **environ;

static long long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * NS + t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* About a millisecond without a call. */
LINK unsigned long leaf_N00000(unsigned long x)
{
	for (unsigned i = 0; i < 400000; i++) {
		x = x * 6364136223846793005ul + 1442695040888963407ul;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

LINK unsigned long middle_N00000(unsigned long x)
{
	volatile unsigned char frame[56];

	frame[0] = (unsigned char)x;
	return leaf_N00000(x) + frame[0];
}

LINK unsigned long outer_N00000(long long until)
{
	volatile unsigned long x = 1;

	while (now(CLOCK_PROCESS_CPUTIME_ID) < until)
		x += middle_N00000(x);
	return x;
}

/* Blocked from the start: it may come before it is waited for. */
static void await_go(void)
{
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	if (sigwait(&set, &got))
		fail("sigwait");
}

static void run_one(char *const argv[], FILE *out)
{
	long long begin = now(CLOCK_REALTIME);
	struct rusage use;
	posix_spawnattr_t attr;
	sigset_t none;
	int status;
	pid_t pid;

	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attr, &none);
	errno = posix_spawn(&pid, argv[0], NULL, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	if (errno)
		fail(argv[0]);
	if (wait4(pid, &status, 0, &use) != pid || status)
		fail("wait4");
	if (out)
		fprintf(out, "%d %lld %lld %lld\n", pid, begin, now(CLOCK_REALTIME),
			(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000ll + use.ru_utime.tv_usec +
				use.ru_stime.tv_usec);
}

static void runs(char *ms, unsigned first, unsigned count, const char *folder)
{
	char path[4096], part[4096], *argv[] = {path, (char *)"spin", ms, NULL};
	FILE *out;

	snprintf(part, sizeof part, "%s/runs-%u.part", folder, first);
	out = fopen(part, "w");
	if (!out)
		fail(part);
	await_go();
	for (unsigned i = first; i < first + count; i++) {
		snprintf(path, sizeof path, "%s/life-%05u", folder, i);
		run_one(argv, out);
	}
	fclose(out);
	snprintf(path, sizeof path, "%s/runs-%u", folder, first);
	if (rename(part, path) < 0)
		fail(path);
	pause();
}

static void execs(unsigned rate, unsigned seconds, char *file)
{
	char *argv[] = {file, NULL};
	unsigned n = 0, total = rate * seconds;
	long long begin, end, due;

	await_go();
	begin = now(CLOCK_MONOTONIC);
	for (end = begin; n < total && end < begin + seconds * NS; n++) {
		due = begin + n * NS / rate;
		if (end < due)
			nanosleep(&(struct timespec){.tv_nsec = due - end}, NULL);
		run_one(argv, NULL);
		end = now(CLOCK_MONOTONIC);
	}
	printf("%u in %.3f s\n", n, (double)(end - begin) / NS);
}

/* Its child ends when it does. */
LINK void start_one(char *const argv[])
{
	pid_t pid = vfork();

	if (pid < 0)
		fail("vfork");
	if (pid > 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execv(argv[0], argv);
	_exit(127);
}

static void many(unsigned count, char *const argv[])
{
	for (unsigned i = 0; i < count; i++)
		start_one(argv);
	puts("ready");
	fflush(stdout);
	pause();
}

int main(int argc, char **argv)
{
	sigset_t go;

	if (argc == 3 && !strcmp(argv[1], "spin"))
		return outer_N00000(atoll(argv[2]) * 1000000) == 0;
	sigemptyset(&go);
	sigaddset(&go, SIGUSR1);
	sigprocmask(SIG_BLOCK, &go, NULL);
	if (argc == 6 && !strcmp(argv[1], "runs"))
		runs(argv[2], (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]), argv[5]);
	else if (argc == 5 && !strcmp(argv[1], "execs"))
		execs((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), argv[4]);
	else if (argc >= 4 && !strcmp(argv[1], "many"))
		many((unsigned)atoi(argv[2]), argv + 3);
	else
		return 2;
	return 0;
}
