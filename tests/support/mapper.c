// SPDX-License-Identifier: Apache-2.0
/*
 * mapper HOW FILE: a program that does something odd with FILE when SIGUSR1 comes, and works all the time.
 *   code   maps it executable
 *   env    has it in place of its environment, from the start
 *   lock   unmaps what it has written to it: until that is on the file system its mappings are locked
 * Prints "ready", then "done" (lock: when the file system answered).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul

static volatile unsigned long n;

__attribute__((noinline)) static void spin(void)
{
	for (;;)
		n = n * 3 + 1;
}

static void *worker(void *data)
{
	spin();
	return data;
}

static void over_environment(int fd, char **envp)
{
	uintptr_t first = (uintptr_t)envp[0] & ~(PAGE - 1), last = (uintptr_t)envp[0];

	for (; *envp; envp++)
		last = (uintptr_t)*envp + strlen(*envp);
	for (uintptr_t at = first + PAGE; at < last; at += PAGE) /* the first may hold more of the stack */
		if (mmap((void *)at, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
			_exit(1);
}

int main(int argc, char **argv, char **envp)
{
	sigset_t set;
	pthread_t id;
	char *page = NULL;
	int fd, number;

	if (argc != 3 || (fd = open(argv[2], strcmp(argv[1], "lock") == 0 ? O_RDWR : O_RDONLY)) < 0)
		return 2;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&id, NULL, worker, NULL) != 0)
		return 1;
	if (strcmp(argv[1], "env") == 0)
		over_environment(fd, envp);
	if (strcmp(argv[1], "lock") == 0) {
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (page == MAP_FAILED)
			return 1;
		page[0] = page[0];
		*(volatile char *)page = 0x7f;
	}
	puts("ready");
	fflush(stdout);
	sigwait(&set, &number);
	if (strcmp(argv[1], "code") == 0 &&
	    mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		return 1;
	if (page)
		munmap(page, PAGE);
	puts("done");
	fflush(stdout);
	pthread_join(id, NULL);
	return 0;
}
