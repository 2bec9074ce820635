/* SPDX-License-Identifier: Apache-2.0 */
/* What programs share that call themselves an interpreter (pretender_ruby.c and others). */
#ifndef PROFLET_TESTS_PRETENDER_H
#define PROFLET_TESTS_PRETENDER_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEPTH 100000
#define PAGE 4096
#define KERNEL 0xffff888000001000ull
#define EXPORTED __attribute__((visibility("default")))

static volatile uint64_t sink;

/* The begin of a page that is not there; the one before it is. */
static inline void *unmapped(void)
{
	char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p + PAGE, PAGE);
	return p + PAGE;
}

static inline void *in_kernel(void)
{
	return (void *)(uintptr_t)KERNEL;
}

static inline void beside(void *(*fn)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, fn, NULL);
}

/* One word of what is looked at. */
static inline void set_word(void *at, uint64_t word)
{
	__atomic_store_n((uint64_t *)at, word, __ATOMIC_RELAXED);
}

struct pretender_mode {
	const char *name;
	void (*prepare)(void);
};

/* Makes what the mode is about, and prints "ready". 0; 2: there is no such mode. */
static inline int pretend(const struct pretender_mode *modes, size_t n, int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < n; i++) {
		if (strcmp(modes[i].name, argv[1]) != 0)
			continue;
		if (modes[i].prepare)
			modes[i].prepare();
		printf("ready\n");
		fflush(stdout);
		return 0;
	}
	fprintf(stderr, "usage: %s MODE\n", argv[0]);
	return 2;
}

#endif
