// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the functions of the C library, each from a function of its own with a known caller: allocation,
 * sorting with a callback, copying, printing, signals, threads. For C libraries without call-frame
 * information. An argument limits the rounds.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FN __attribute__((noinline, noclone))
#define N 600

static volatile uint64_t sink;

FN static void do_malloc(void)
{
	void *v[64];

	for (int k = 0; k < 200; k++) {
		for (size_t i = 0; i < 64; i++)
			v[i] = malloc(1 + (i * 7919 + (size_t)k) % 3000);
		for (size_t i = 0; i < 64; i++)
			free(v[i]);
	}
	sink++;
}

FN static int do_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	for (int i = 0; i < 10; i++)
		sink++;
	return (*x > *y) - (*x < *y);
}

FN static void do_sort(void)
{
	static uint64_t v[N];

	for (size_t i = 0; i < N; i++)
		v[i] = i * 7919 % 1013;
	qsort(v, N, sizeof *v, do_compare);
	sink += v[3];
}

FN static void do_copy(void)
{
	static char a[1 << 16], b[1 << 16];

	for (size_t n = 1; n < sizeof a; n += 97)
		memcpy(a, b, n);
	memset(b, a[5], sizeof b);
	sink += (uint64_t)memchr(a, 7, sizeof a);
}

FN static void do_print(void)
{
	char text[200];

	for (int i = 0; i < 200; i++)
		sink += (uint64_t)snprintf(text, sizeof text, "%d %s %.17g %08lx", i, "text", i / 7.0, sink);
}

FN static void on_signal(int n)
{
	for (int i = 0; i < 2000; i++)
		sink += (uint64_t)n;
}

FN static void do_signal(void)
{
	for (int i = 0; i < 50; i++)
		raise(SIGUSR1);
}

FN static void *in_thread(void *data)
{
	do_sort();
	do_print();
	return data;
}

FN static void do_thread(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, in_thread, NULL) == 0)
		pthread_join(t, NULL);
}

FN static int do_all(void)
{
	do_malloc();
	do_sort();
	do_copy();
	do_print();
	do_signal();
	do_thread();
	return (int)sink;
}

FN static long do_start(int argc, char **argv)
{
	alarm(300);
	signal(SIGUSR1, on_signal);
	return argc > 1 ? atol(argv[1]) : -1;
}

int main(int argc, char **argv)
{
	long rounds = do_start(argc, argv);

	for (; rounds; rounds--)
		do_all();
	return 0;
}
