// SPDX-License-Identifier: Apache-2.0
/*
 * What the known-chain programs share: functions that the compiler neither inlines nor merges, each with a
 * frame of a size of its own, and a leaf that spins until a signal ends it. Compile with
 * -fno-optimize-sibling-calls.
 */
#ifndef SPIN_H
#define SPIN_H

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__GNUC__) && !defined(__clang__)
#define LINK static __attribute__((noipa))
#else
#define LINK static __attribute__((noinline))
#endif

/* Keeps `frame` on the stack: the compiler must assume that the assembly reads and writes it. */
#define USE_FRAME(frame) __asm__ volatile("" : : "r"(frame) : "memory")

static volatile sig_atomic_t stop;

/* The leaf. Its frame is larger than the red zone: with frame pointers it has one, too. The end comes by a
 * signal: a clock read in the loop would put other leaves on the stack. */
#define DEFINE_LEAF(name)                                                              \
	LINK unsigned long name(unsigned long x)                                       \
	{                                                                              \
		unsigned char frame[424];                                              \
                                                                                       \
		USE_FRAME(frame);                                                      \
		while (!stop) {                                                        \
			for (unsigned i = 0; i < 4096; i++) {                          \
				x = x * 6364136223846793005ul + 1442695040888963407ul; \
				__asm__ volatile("" : "+r"(x));                        \
			}                                                              \
		}                                                                      \
		return x + frame[x % sizeof(frame)];                                   \
	}

/* A function of `x` that makes `call`. The addition keeps it a call, the barriers keep the frame alive across
 * it. */
#define DEFINE_LINK(name, call, bytes)               \
	LINK unsigned long name(unsigned long x)     \
	{                                            \
		unsigned char frame[bytes];          \
                                                     \
		USE_FRAME(frame);                    \
		x = (call) + 1;                      \
		USE_FRAME(frame);                    \
		return x + frame[x % sizeof(frame)]; \
	}

static void on_signal(int signo)
{
	(void)signo;
	stop = 1;
}

/* Ends the leaf after so many seconds; 0: when SIGTERM comes. */
static inline void stop_after(const char *seconds)
{
	signal(SIGALRM, on_signal);
	signal(SIGTERM, on_signal);
	alarm((unsigned)strtoul(seconds, NULL, 10));
}

#endif
