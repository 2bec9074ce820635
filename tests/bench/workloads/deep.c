// SPDX-License-Identifier: Apache-2.0
/*
 * Spins at the bottom of DEPTH frames below main, until it is killed. usage: deep DEPTH
 *
 * Eight functions call each other in turn, each with a frame of its own size, so that an unwinder needs
 *different rows; above main are libc's two frames and _start.
 *
 *	gcc -O2 -fomit-frame-pointer -fno-optimize-sibling-calls -o deep deep.c
 */
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long level_fn(unsigned left);

static level_fn level1, level2, level3, level4, level5, level6, level7, level8;

/* Counted as the last of the DEPTH frames. */
static __attribute__((noinline)) unsigned long spin(unsigned long x)
{
	for (;;) {
		x = x * 6364136223846793005ul + 1442695040888963407ul;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

/* The barriers keep the frame, the addition after the call keeps it a call. */
#define DEFINE_LEVEL(name, next, size)                                     \
	static __attribute__((noinline)) unsigned long name(unsigned left) \
	{                                                                  \
		unsigned char frame[size];                                 \
		unsigned long x;                                           \
                                                                           \
		__asm__ volatile("" : : "r"(frame) : "memory");            \
		x = left > 1 ? next(left - 1) : spin(left);                \
		__asm__ volatile("" : : "r"(frame) : "memory");            \
		return x + frame[x % sizeof(frame)];                       \
	}

DEFINE_LEVEL(level1, level2, 24)
DEFINE_LEVEL(level2, level3, 72)
DEFINE_LEVEL(level3, level4, 40)
DEFINE_LEVEL(level4, level5, 136)
DEFINE_LEVEL(level5, level6, 56)
DEFINE_LEVEL(level6, level7, 104)
DEFINE_LEVEL(level7, level8, 24)
DEFINE_LEVEL(level8, level1, 88)

int main(int argc, char **argv)
{
	unsigned depth = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;

	if (depth < 2) {
		fprintf(stderr, "usage: deep DEPTH, at least 2\n");
		return 2;
	}
	return (int)level1(depth - 1);
}
