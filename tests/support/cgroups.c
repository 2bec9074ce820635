// SPDX-License-Identifier: Apache-2.0
/*
 * Containers that come and go, as a runtime makes them: usage: cgroups FOLDER FIRST N PARALLEL MILLISECONDS.
 * Each is a control group below FOLDER named by 64 digits that end in its number, and a process that is born
 * in it, calls itself gNUMBER, and works for so much CPU time. Then the group is removed. Prints how many
 * there were.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PARALLEL_MAX 64

static volatile unsigned long sink;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static long cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((noinline)) static void work(long ms)
{
	while (cpu_ms() < ms)
		for (int i = 0; i < 20000; i++)
			sink += (unsigned long)i;
}

static void be_container(const char *number, const char *ms)
{
	char name[16];

	snprintf(name, sizeof name, "g%s", number);
	prctl(PR_SET_NAME, name);
	work(atol(ms));
}

/* An id whose end is the number; what is before changes, too. */
static void path_of(const char *folder, unsigned number, char ret[512])
{
	snprintf(ret, 512, "%s/%016llx%048u", folder, (number + 1) * 0x9e3779b97f4a7c15ull, number);
}

static pid_t start(const char *folder, unsigned number, const char *ms)
{
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	char path[512], text[16];
	long pid;
	int fd;

	path_of(folder, number, path);
	snprintf(text, sizeof text, "%u", number);
	if (mkdir(path, 0755) < 0)
		fail(path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	args.cgroup = (uint64_t)fd;
	pid = fd < 0 ? -1 : syscall(SYS_clone3, &args, sizeof args);
	if (pid == 0) {
		execl("/proc/self/exe", "container", text, ms, NULL);
		_exit(127);
	}
	if (pid < 0)
		fail("clone3");
	close(fd);
	return (pid_t)pid;
}

/* Waits for one of them and removes its group. */
static void finish(const char *folder, pid_t pids[], unsigned numbers[], unsigned n)
{
	char path[512];
	int status;
	pid_t pid = wait(&status);

	if (pid < 0 || status)
		fail("a container");
	for (unsigned i = 0; i < n; i++)
		if (pids[i] == pid) {
			pids[i] = 0;
			path_of(folder, numbers[i], path);
			if (rmdir(path) < 0)
				fail(path);
		}
}

int main(int argc, char **argv)
{
	unsigned numbers[PARALLEL_MAX], first, n, parallel, done = 0, begun = 0;
	pid_t pids[PARALLEL_MAX] = {0};

	if (argc == 3 && strcmp(argv[0], "container") == 0) {
		be_container(argv[1], argv[2]);
		return 0;
	}
	if (argc != 6 || (parallel = (unsigned)atoi(argv[4])) > PARALLEL_MAX || !parallel) {
		fprintf(stderr, "usage: %s FOLDER FIRST N PARALLEL MILLISECONDS\n", argv[0]);
		return 2;
	}
	first = (unsigned)atoi(argv[2]);
	n = (unsigned)atoi(argv[3]);
	while (done < n) {
		for (unsigned i = 0; i < parallel && begun < n; i++)
			if (!pids[i]) {
				numbers[i] = first + begun++;
				pids[i] = start(argv[1], numbers[i], argv[5]);
			}
		finish(argv[1], pids, numbers, parallel);
		done++;
	}
	printf("%u\n", done);
	return 0;
}
