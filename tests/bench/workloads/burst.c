// SPDX-License-Identifier: Apache-2.0
/* A short process: uses the CPU for MS milliseconds and ends. usage: burst MS */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	double until = argc > 1 ? strtod(argv[1], NULL) : 0;
	volatile unsigned long x = 1;

	while (cpu_ms() < until)
		for (unsigned i = 0; i < 10000; i++)
			x = x * 6364136223846793005ul + 1;
	return 0;
}
