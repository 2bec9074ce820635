// SPDX-License-Identifier: Apache-2.0
#include "tests/oom/failing_malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_bool counting;
static atomic_ulong seen, failed;
static unsigned long first_failing, n_failing;
static bool others; /* count the allocations of other threads, too */
static _Thread_local bool starter;
static _Thread_local bool ours; /* not set while a thread starts, because AddressSanitizer fails then */

/* The allocators of AddressSanitizer and of libc. */
void *__interceptor_malloc(size_t size) __attribute__((weak));
void *__interceptor_calloc(size_t n, size_t size) __attribute__((weak));
void *__interceptor_realloc(void *old, size_t size) __attribute__((weak));
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

/* What dlopen(3) keeps: LeakSanitizer takes it for lost when the calls come through here. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:_dl_map_object_deps\n";
}

static void start(unsigned long first, unsigned long n, bool all_threads)
{
	others = all_threads;
	first_failing = first;
	n_failing = n;
	atomic_store(&seen, 0);
	atomic_store(&failed, 0);
	ours = starter = true;
	atomic_store(&counting, true);
}

void failing_malloc_start(unsigned long first, unsigned long n)
{
	start(first, n, true);
}

void failing_malloc_start_in_thread(unsigned long first, unsigned long n)
{
	start(first, n, false);
}

unsigned long failing_malloc_stop(unsigned long *ret_failed)
{
	atomic_store(&counting, false);
	*ret_failed = atomic_load(&failed);
	return atomic_load(&seen);
}

static bool fails(void)
{
	unsigned long number;

	if (!ours || !atomic_load_explicit(&counting, memory_order_acquire) || !(others || starter))
		return false;
	number = atomic_fetch_add(&seen, 1) + 1;
	if (!first_failing || number < first_failing || number - first_failing >= n_failing)
		return false;
	atomic_fetch_add(&failed, 1);
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	if (fails())
		return NULL;
	return __interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	if (fails())
		return NULL;
	return __interceptor_calloc ? __interceptor_calloc(n, size) : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	if (fails())
		return NULL;
	return __interceptor_realloc ? __interceptor_realloc(old, size) : __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t n, size_t size)
{
	if (size && n > SIZE_MAX / size) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, n * size);
}

/* The sanitizer's functions would not call malloc. */
char *strdup(const char *s)
{
	size_t size = strlen(s) + 1;
	char *copy = malloc(size);

	return copy ? memcpy(copy, s, size) : NULL;
}

struct start {
	void *(*run)(void *data);
	void *data;
};

static void *run_ours(void *data)
{
	struct start s = *(struct start *)data;

	free(data);
	ours = true;
	return s.run(s.data);
}

int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *data)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		dlsym(RTLD_NEXT, "pthread_create");
	struct start *s = malloc(sizeof *s);
	int r = EAGAIN;

	if (s) {
		*s = (struct start){run, data};
		r = next(ret, attr, run_ours, s);
		if (r)
			free(s);
	}
	return r;
}
