// SPDX-License-Identifier: Apache-2.0
/*
 * Three functions that take shares of the CPU which are known. usage: load CPU_SECONDS [SLOWER]; `medium` is
 * so many times slower
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/*
 * Steps, of which `slow` has six, `medium` three and `fast` one; on average, as rounds of one length would
 * meet a sampler of a fixed rate at the same places again and again
 */
#define PART 100000

#define STEPS(name, factor)                                                 \
	__attribute__((noinline, noclone)) static unsigned name(unsigned n) \
	{                                                                   \
		unsigned x = n;                                             \
		for (unsigned i = 0; i < n; i++)                            \
			__asm__ volatile("" : "+r"(x) : "r"(factor));       \
		return x;                                                   \
	}

STEPS(slow, 3)
STEPS(medium, 5)
STEPS(fast, 7)

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	const double end = now() + (argc > 1 ? atof(argv[1]) : 1), slower = argc > 2 ? atof(argv[2]) : 1;
	unsigned sum = 0, part = PART;

	while (now() < end) {
		sum += slow(6 * part);
		sum += medium((unsigned)(3 * part * slower));
		sum += fast(part);
		part = PART / 2 + (unsigned)rand() % PART;
	}
	printf("%u\n", sum);
	return 0;
}
