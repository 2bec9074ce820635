// SPDX-License-Identifier: Apache-2.0
/*
 * A program whose call chain is known: main → f1 → … → f8, all time spent in f8. usage: chain [SECONDS],
 *default 30.
 *
 *	gcc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -o chain chain.c
 *
 * The functions are static, so their names are in .symtab only; each frame has its own size, so that an
 *unwinder that guesses goes wrong. The end comes by a signal: a clock read in the loop would put other leaves
 *on the stack.
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

/* Keeps `bytes` in the frame: the compiler must assume that the assembly reads and writes them. */
#define USE_FRAME(bytes) __asm__ volatile("" : : "r"(bytes) : "memory")

LINK unsigned long f8(unsigned long x)
{
	unsigned char frame[424];

	USE_FRAME(frame);
	while (!stop) {
		for (unsigned i = 0; i < 4096; i++) {
			x = x * 6364136223846793005ul + 1442695040888963407ul;
			__asm__ volatile("" : "+r"(x));
		}
	}
	return x + frame[x % sizeof(frame)];
}

/* The addition after the call keeps it a call; the barriers keep the frame alive across it. */
#define DEFINE_LINK(name, next, size)                \
	LINK unsigned long name(unsigned long x)     \
	{                                            \
		unsigned char frame[size];           \
                                                     \
		USE_FRAME(frame);                    \
		x = next(x + 1) + 1;                 \
		USE_FRAME(frame);                    \
		return x + frame[x % sizeof(frame)]; \
	}

DEFINE_LINK(f7, f8, 40)
DEFINE_LINK(f6, f7, 1304)
DEFINE_LINK(f5, f6, 88)
DEFINE_LINK(f4, f5, 5128)
DEFINE_LINK(f3, f4, 24)
DEFINE_LINK(f2, f3, 264)
DEFINE_LINK(f1, f2, 152)

int main(int argc, char **argv)
{
	unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 30;

	signal(SIGALRM, on_signal);
	signal(SIGTERM, on_signal);
	alarm(seconds ? seconds : 1);
	printf("%lu\n", f1((unsigned long)argc));
	return 0;
}
