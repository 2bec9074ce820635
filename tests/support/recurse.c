// SPDX-License-Identifier: Apache-2.0
/*
 * A recursion of exactly DEPTH frames named `step` below main, all time spent in `bottom`. usage: recurse
 *DEPTH [SECONDS]
 *
 *	gcc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -o recurse recurse.c
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__GNUC__) && !defined(__clang__)
#define LINK static __attribute__((noipa))
#else
#define LINK static __attribute__((noinline))
#endif

static volatile sig_atomic_t stop;

static void on_signal(int signo)
{
	(void)signo;
	stop = 1;
}

LINK unsigned long bottom(unsigned long x)
{
	while (!stop) {
		for (unsigned i = 0; i < 4096; i++) {
			x = x * 6364136223846793005ul + 1442695040888963407ul;
			__asm__ volatile("" : "+r"(x));
		}
	}
	return x;
}

LINK unsigned long step(unsigned left)
{
	unsigned char frame[24];
	unsigned long x;

	__asm__ volatile("" : : "r"(frame) : "memory");
	x = left > 1 ? step(left - 1) : bottom(left);
	__asm__ volatile("" : : "r"(frame) : "memory");
	return x + frame[x % sizeof(frame)];
}

int main(int argc, char **argv)
{
	unsigned depth = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	unsigned seconds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 30;

	if (depth < 1 || depth > 100000) {
		fprintf(stderr, "usage: recurse DEPTH [SECONDS], depth from 1 to 100000\n");
		return 2;
	}
	signal(SIGALRM, on_signal);
	signal(SIGTERM, on_signal);
	alarm(seconds ? seconds : 1);
	printf("%lu\n", step(depth));
	return 0;
}
