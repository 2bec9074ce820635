// SPDX-License-Identifier: Apache-2.0
#include "agent/base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"

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

/* It is the resolution of a coarse clock. */
uint64_t clock_tick_ns(void)
{
	struct timespec t;

	return clock_getres(CLOCK_MONOTONIC_COARSE, &t) < 0 || t.tv_sec ? 0 : (uint64_t)t.tv_nsec;
}

/* The fastest of three readings. */
int64_t clock_real_offset_ns(void)
{
	uint64_t best = UINT64_MAX;
	int64_t offset = 0;

	for (int i = 0; i < 3; i++) {
		uint64_t before = clock_mono_ns(), real = clock_real_ns(), took = clock_mono_ns() - before;

		if (took >= best)
			continue;
		best = took;
		offset = (int64_t)(real - (before + took / 2));
	}
	return offset;
}

int64_t clock_steps_note(struct clock_steps *c, uint64_t mono_ns, int64_t offset_ns)
{
	int64_t step = c->n ? offset_ns - c->v[c->n - 1].offset_ns : 0;

	if (c->n && step < CLOCK_STEP_NS && step > -CLOCK_STEP_NS)
		return 0;
	if (c->n == CLOCK_STEPS_MAX) {
		memmove(&c->v[0], &c->v[1], sizeof c->v - sizeof c->v[0]);
		c->n--;
	}
	c->v[c->n].from_ns = mono_ns;
	c->v[c->n].offset_ns = offset_ns;
	c->n++;
	return step;
}

uint64_t clock_steps_unix_ns(const struct clock_steps *c, uint64_t mono_ns)
{
	unsigned i = c->n - 1;

	while (i > 0 && c->v[i].from_ns > mono_ns)
		i--;
	return (uint64_t)((int64_t)mono_ns + c->v[i].offset_ns);
}

int clock_watch_again(int fd)
{
	struct itimerspec never = {.it_value.tv_sec = INT32_MAX * 1000ll};
	uint64_t n;

	if (read(fd, &n, sizeof n) < 0 && errno != ECANCELED && errno != EAGAIN)
		return -errno;
	if (timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) < 0)
		return errno == ECANCELED ? 0 : -errno; /* armed, and the clock was set meanwhile */
	return 0;
}

int clock_watch_open(void)
{
	_cleanup_close_ int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = clock_watch_again(fd);
	return r < 0 ? r : TAKE_FD(fd);
}
