// SPDX-License-Identifier: Apache-2.0
#include "agent/follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/probe/probe.h"
#include "agent/probe/sideband.h"
#include "agent/report/report.h"
#include "agent/track/track.h"

#define CPUS_NS (1 * NS_PER_SEC)

struct follow {
	struct follow_options options;
	struct loop_source *cpus_timer, *clock_source;
	int clock_fd; /* readable after the wall clock was set; -1: it cannot be watched */
	bool sampling;
	bool cpus_failed; /* and it was logged */
};

DEFINE_CLEANUP(struct follow *, follow_free)

/*
 * Side-band first, as at the start: processes on a new CPU are known before they are sampled. It knew the
 * CPUs before sampling began, so where it sees no change, sampling has none to follow.
 */
static int on_cpus(uint64_t expirations, void *data)
{
	struct follow *f = data;
	int events = sideband_follow(f->options.sideband),
	    samples = f->sampling && (events != 0 || f->cpus_failed) ? probe_follow(f->options.probe) : 0;
	int failed = events < 0 ? events : samples < 0 ? samples : 0;

	(void)expirations;
	if (events != 0)
		track_events_missed(f->options.track);
	if (events > 0 || samples > 0)
		log_info("CPUs came or went: sampling follows them");
	if (failed < 0 && !f->cpus_failed)
		log_warn("a CPU that came online cannot be sampled yet: %s", strerror(-failed));
	f->cpus_failed = failed < 0;
	return 0;
}

/* The records in the rings were taken before the step. */
static int on_clock(int fd, uint32_t events, void *data)
{
	struct follow *f = data;
	int r = clock_watch_again(fd);
	int64_t step = report_clock_set(f->options.report);

	(void)events;
	if (step)
		log_info("the wall clock stepped by %.3f s", (double)step / (double)NS_PER_SEC);
	if (r < 0) { /* from now on it is only compared when a window begins */
		log_warn("the wall clock can no longer be watched: %s", strerror(-r));
		loop_remove(TAKE_PTR(f->clock_source));
	}
	return 0;
}

int follow_new(struct follow **ret, const struct follow_options *options)
{
	_cleanup_(follow_free_p) struct follow *f = calloc(1, sizeof *f);
	int r;

	if (!f)
		return -ENOMEM;
	f->options = *options;
	f->clock_fd = clock_watch_open(); /* on failure, it is only compared when a window begins */
	r = loop_add_timer(options->loop, CPUS_NS, CPUS_NS, on_cpus, f, &f->cpus_timer);
	if (r == 0 && f->clock_fd >= 0)
		r = loop_add_fd(options->loop, f->clock_fd, EPOLLIN, on_clock, f, &f->clock_source);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(f);
	return 0;
}

void follow_free(struct follow *f)
{
	if (!f)
		return;
	loop_remove(f->cpus_timer);
	loop_remove(f->clock_source);
	if (f->clock_fd >= 0)
		close(f->clock_fd);
	free(f);
}

void follow_sampling(struct follow *f, bool on)
{
	f->sampling = on;
}
