// SPDX-License-Identifier: Apache-2.0
/*
 * As chain.c, through a signal: main → f1 → f2 → f3 → fault, a leaf without a frame that writes to address 0
 * → the kernel's signal frame → on_fault → h1 → h2, in which all time is spent.
 * usage: chain_signal [SECONDS], default 30
 */
#include <stdio.h>

#include "spin.h"

DEFINE_LEAF(h2)
DEFINE_LINK(h1, h2(x + 1), 72)

static void on_fault(int signo)
{
	unsigned char frame[200];

	USE_FRAME(frame);
	frame[0] = (unsigned char)h1((unsigned long)signo);
	USE_FRAME(frame);
	_exit(0);
}

LINK unsigned long fault(unsigned long x)
{
	__asm__ volatile("" ::: "memory");
	*(volatile unsigned long *)(x & 0) = x;
	return x + 1;
}

DEFINE_LINK(f3, fault(x + 1), 24)
DEFINE_LINK(f2, f3(x + 1), 5000)
DEFINE_LINK(f1, f2(x + 1), 152)

int main(int argc, char **argv)
{
	stop_after(argc > 1 ? argv[1] : "30");
	signal(SIGSEGV, on_fault);
	printf("%lu\n", f1((unsigned long)argc));
	return 0;
}
