// SPDX-License-Identifier: Apache-2.0
/*
 * A program that maps executable memory all the time. usage:
 *
 *	mappings hold COUNT RATE
 *		has COUNT executable mappings side by side, in turn of this program's file and of no file, so
 *		that the kernel does not merge them; prints "ready", replaces RATE of them a second, computes
 *	mappings loop
 *		prints "ready", maps a page of this program's file and unmaps it as fast as it can
 *	mappings fork COUNT
 *		has so many executable mappings, prints "ready", and forks children that end at once
 *
 * At SIGTERM it prints how many mappings or children it has made since "ready", and ends.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "spin.h"

#define PAGE 4096ul
#define LIFE "3600" /* s, should nobody end it */

static uint8_t *area; /* of `hold` */
static int file;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static unsigned long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long)t.tv_sec * 1000000 + (unsigned long)t.tv_nsec / 1000;
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* The mapping at the place `i`: the first or the second page of the file in its turn, or anonymous memory. */
static void place(unsigned long i, unsigned long turn)
{
	int flags = MAP_PRIVATE | MAP_FIXED | (i % 2 ? MAP_ANONYMOUS : 0);
	long offset = i % 2 ? 0 : (long)(turn % 2 * PAGE);

	if (mmap(area + i * PAGE, PAGE, PROT_READ | PROT_EXEC, flags, i % 2 ? -1 : file, offset) ==
	    MAP_FAILED)
		fail("mmap");
}

/* About a quarter of a millisecond. */
LINK unsigned long work(unsigned long x)
{
	for (unsigned i = 0; i < 200000; i++) {
		x = x * 5 + 1;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

static void make(unsigned long count)
{
	area = mmap(NULL, count * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		fail("mmap");
	for (unsigned long i = 0; i < count; i++)
		place(i, 0);
	ready();
}

LINK unsigned long fork_on(unsigned long count)
{
	unsigned long done = 0;

	make(count);
	for (; !stop; done++) {
		pid_t pid = fork();

		if (pid < 0)
			fail("fork");
		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	return done;
}

LINK unsigned long hold(unsigned long count, unsigned long rate)
{
	unsigned long done = 0, begin, x = 1;

	make(count);
	begin = now_us();
	while (!stop) {
		for (unsigned long due = (now_us() - begin) * rate / 1000000; done < due; done++)
			place(done % count, 1 + done / count);
		x = work(x);
	}
	return x ? done : 0;
}

LINK unsigned long loop(void)
{
	unsigned long done = 0;

	ready();
	for (; !stop; done++) {
		void *at = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);

		if (at == MAP_FAILED || munmap(at, PAGE) < 0)
			fail("mmap");
	}
	return done;
}

int main(int argc, char **argv)
{
	file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (file < 0)
		fail("/proc/self/exe");
	stop_after(LIFE);
	if (argc == 4 && strcmp(argv[1], "hold") == 0)
		printf("%lu\n", hold(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10)));
	else if (argc == 3 && strcmp(argv[1], "fork") == 0)
		printf("%lu\n", fork_on(strtoul(argv[2], NULL, 10)));
	else if (argc == 2 && strcmp(argv[1], "loop") == 0)
		printf("%lu\n", loop());
	else
		return 2;
	return 0;
}
