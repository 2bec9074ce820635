// SPDX-License-Identifier: Apache-2.0
/*
 * LD_PRELOAD: the wall clock stands an hour earlier as soon as the file $STEP_BACK exists. The other
 * clocks go on.
 *
 *	gcc -O2 -shared -fPIC -o stepped_clock.so stepped_clock.c
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	const char *file = getenv("STEP_BACK");
	int r = (int)syscall(SYS_clock_gettime, clock, now);

	if (r == 0 && clock == CLOCK_REALTIME && file && access(file, F_OK) == 0)
		now->tv_sec -= 3600;
	return r;
}

time_t time(time_t *ret)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}
