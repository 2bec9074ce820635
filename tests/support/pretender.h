/* SPDX-License-Identifier: Apache-2.0 */
/* What programs share that call themselves an interpreter (pretender_ruby.c and others). */
#ifndef PROFLET_TESTS_PRETENDER_H
#define PROFLET_TESTS_PRETENDER_H

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

#define HANGING_BYTES (1u << 20)

static const char *hanging_file; /* on a file system that stops; NULL: of a userfaultfd that nobody serves */

/*
 * HANGING_BYTES, at `wanted` or anywhere (NULL), whose pages never arrive: whoever touches them waits. Ends
 * the program where the kernel refuses.
 */
static inline void *hanging_at(void *wanted)
{
	const int fd = hanging_file ? open(hanging_file, O_RDONLY | O_CLOEXEC)
				    : (int)syscall(SYS_userfaultfd, O_CLOEXEC),
		  flags = MAP_PRIVATE | (hanging_file ? 0 : MAP_ANONYMOUS) |
			  (wanted ? MAP_FIXED_NOREPLACE : 0);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	void *at = mmap(wanted, HANGING_BYTES, PROT_READ, flags, hanging_file ? fd : -1, 0);

	range.range.start = (uintptr_t)at;
	range.range.len = HANGING_BYTES;
	if (fd < 0 || at == MAP_FAILED ||
	    (!hanging_file && (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range)))) {
		perror("hanging");
		exit(1);
	}
	return at;
}

static inline void *hanging(void)
{
	return hanging_at(NULL);
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

/*
 * Makes what the mode is about, and prints "ready". 0; 2: there is no such mode. With a file for hanging()
 * the program says "mapped" and goes on when it gets a line: the file's server is to be stopped by then.
 */
static inline int pretend(const struct pretender_mode *modes, size_t n, int argc, char **argv)
{
	for (size_t i = 0; (argc == 2 || argc == 3) && i < n; i++) {
		if (strcmp(modes[i].name, argv[1]) != 0)
			continue;
		hanging_file = argc == 3 ? argv[2] : NULL;
		if (modes[i].prepare)
			modes[i].prepare();
		if (hanging_file) {
			printf("mapped\n");
			fflush(stdout);
			(void)getchar();
		}
		printf("ready\n");
		fflush(stdout);
		return 0;
	}
	fprintf(stderr, "usage: %s MODE [FILE]\n", argv[0]);
	return 2;
}

#endif
