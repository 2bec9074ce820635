// SPDX-License-Identifier: Apache-2.0
#include "agent/base/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t clock_mono_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_real_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t clock_thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t clock_real_offset_ns(void)
{
	uint64_t before = clock_mono_ns(), real = clock_real_ns(), after = clock_mono_ns();

	return (int64_t)(real - (before + (after - before) / 2));
}
