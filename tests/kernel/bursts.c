// SPDX-License-Identifier: Apache-2.0
/* Runs for BUSY milliseconds and sleeps for IDLE, again and again. usage: bursts BUSY IDLE */
#include <stdlib.h>
#include <time.h>

static long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	long busy_us = argc > 2 ? atol(argv[1]) * 1000 : 3000,
	     idle_us = argc > 2 ? atol(argv[2]) * 1000 : 7000;

	for (;;) {
		long end = now_us() + busy_us;
		struct timespec idle = {.tv_nsec = idle_us * 1000};

		while (now_us() < end)
			for (volatile int i = 0; i < 2000; i++)
				;
		nanosleep(&idle, NULL);
	}
}
