// SPDX-License-Identifier: Apache-2.0
/*
 * A process with very many mappings, as a runtime that makes code has them: storm MAPPINGS RATE.
 *
 * Maps so many pieces of executable memory, each apart from the next, then opens a library, prints "ready",
 * and for ever takes RATE of the pieces a second (0: as many as it can) away and puts them back, and computes
 * in work < rounds < main, in code of a piece as well: work calls through it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LINK __attribute__((noipa))
#define PAGE 4096ul
#define NS 1000000000ll

/* push %rbp; mov %rsp,%rbp; mov %rdi,%rax; loop: imul $5,%rax,%rax; inc %rax; dec %esi; jnz loop; pop %rbp;
 * ret */
static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0x6b, 0xc0,
			       0x05, 0x48, 0xff, 0xc0, 0xff, 0xce, 0x75, 0xf5, 0x5d, 0xc3};

typedef unsigned long (*piece_fn)(unsigned long x, unsigned n);

static uint8_t *area;
static unsigned long n_pieces;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS + t.tv_nsec;
}

static void piece_map(unsigned long i)
{
	uint8_t *at = area + 2 * i * PAGE;

	if (mmap(at, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) != at)
		fail("mmap");
}

static void piece_replace(unsigned long i)
{
	if (munmap(area + 2 * i * PAGE, PAGE) < 0)
		fail("munmap");
	piece_map(i);
}

LINK unsigned long work(unsigned long x)
{
	for (unsigned i = 0; i < 10; i++)
		x += ((piece_fn)(uintptr_t)area)(x, 10000);
	return x + 1;
}

/* About a quarter of a millisecond of work between two looks at the clock. */
LINK unsigned long rounds(long rate)
{
	unsigned long x = 1, done = 0;
	long long begin = now();

	for (;;) {
		unsigned long due =
			rate ? (unsigned long)((now() - begin) / 1000 * rate / 1000000) : done + 100;

		for (; done < due; done++)
			piece_replace(1 + done % (n_pieces - 1));
		x += work(x);
	}
	return x;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	alarm(600);
	n_pieces = strtoul(argv[1], NULL, 10) / 2; /* what lies between two of them is a mapping, too */
	area = mmap(NULL, 2 * n_pieces * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED || n_pieces < 2)
		fail("mmap");
	for (unsigned long i = 0; i < n_pieces; i++)
		piece_map(i);
	memcpy(area, code, sizeof code);
	if (!dlopen("libm.so.6", RTLD_NOW))
		fail("dlopen");
	puts("ready");
	fflush(stdout);
	return rounds(atol(argv[2])) == 0;
}
