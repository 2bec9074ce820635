// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/cpu_wait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/fs.h"
#include "agent/base/log.h"

#define TASK "/proc/self/task"
#define SCHEDSTAT_MAX 128
#define WAIT_TO_RUN 4  /* starved: waits more than this many times as long as it runs, */
#define PERIOD_PART 4  /* and for more than this part of the period */
#define AGAIN_FACTOR 2 /* starved before: half of either is enough */

struct cpu_wait_thread {
	pid_t tid;
	unsigned reading; /* number of the last reading that found it */
	struct cpu_time time;
};

void cpu_wait_init(struct cpu_wait *w, pid_t main_tid, uint64_t now_ns)
{
	*w = (struct cpu_wait){.main_tid = main_tid, .ended_ns = now_ns};
}

void cpu_wait_fini(struct cpu_wait *w)
{
	free(TAKE_PTR(w->threads));
	w->n = w->cap = 0;
}

static struct cpu_wait_thread *find_thread(struct cpu_wait *w, pid_t tid)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->threads[i].tid == tid)
			return &w->threads[i];
	return NULL;
}

/* "run wait slices": nanoseconds, nanoseconds, number (Documentation/scheduler/sched-stats.rst). */
static bool read_schedstat(int task_fd, const char *tid, struct cpu_time *ret)
{
	_cleanup_buf_ struct buf b = {0};
	_cleanup_close_ int fd = -1;
	struct cpu_time t;
	char path[64];

	if (snprintf(path, sizeof path, "%s/schedstat", tid) >= (int)sizeof path)
		return false;
	fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fs_read_fd(fd, SCHEDSTAT_MAX, &b) < 0 ||
	    sscanf(buf_str(&b), "%" SCNu64 " %" SCNu64, &t.run_ns, &t.wait_ns) != 2)
		return false;
	*ret = t;
	return true;
}

static void add_since(struct cpu_time *sum, struct cpu_time now, struct cpu_time before)
{
	/* a new thread can have the number of one that ended */
	if (now.run_ns < before.run_ns || now.wait_ns < before.wait_ns)
		before = (struct cpu_time){0};
	sum->run_ns += now.run_ns - before.run_ns;
	sum->wait_ns += now.wait_ns - before.wait_ns;
}

/* Adds what the thread did since the last reading. A known thread stays known if it cannot be read now. */
static int update_thread(struct cpu_wait *w, int task_fd, const char *name)
{
	pid_t tid = (pid_t)atoi(name);
	struct cpu_wait_thread *t = find_thread(w, tid);
	struct cpu_time now;

	if (t)
		t->reading = w->readings;
	if (!read_schedstat(task_fd, name, &now))
		return 0;
	if (!t) {
		if (array_reserve(&w->threads, &w->cap, w->n + 1, sizeof *w->threads) < 0)
			return -ENOMEM;
		t = &w->threads[w->n++];
		*t = (struct cpu_wait_thread){.tid = tid, .reading = w->readings};
	}
	add_since(tid == w->main_tid ? &w->times.main : &w->times.others, now, t->time);
	t->time = now;
	return 0;
}

static void forget_ended(struct cpu_wait *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->n; i++)
		if (w->threads[i].reading == w->readings)
			w->threads[kept++] = w->threads[i];
	w->n = kept;
}

int cpu_wait_read(struct cpu_wait *w, const char *task)
{
	_cleanup_closedir_ DIR *d = opendir(task);
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	w->readings++;
	while (r == 0 && (e = readdir(d)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			r = update_thread(w, dirfd(d), e->d_name);
	if (r < 0)
		return r; /* those behind it were not seen */
	forget_ended(w);
	/* a kernel that does not count writes zeros, although this thread is running */
	w->times.known = w->times.main.run_ns || w->times.others.run_ns;
	return 0;
}

static bool is_starved(struct cpu_time t, uint64_t length_ns, bool before)
{
	uint64_t wait_ns = t.wait_ns * (before ? AGAIN_FACTOR : 1);

	return wait_ns > t.run_ns * WAIT_TO_RUN && wait_ns > length_ns / PERIOD_PART;
}

enum cpu_wait_change cpu_wait_look(struct cpu_wait *w, uint64_t now_ns)
{
	struct cpu_wait_times *times = &w->times;
	const struct cpu_time sum = {times->main.run_ns + times->others.run_ns,
				     times->main.wait_ns + times->others.wait_ns};

	if (now_ns - w->ended_ns < CPU_WAIT_PERIOD_NS)
		return CPU_WAIT_UNCHANGED;
	w->length_ns = now_ns - w->ended_ns;
	w->in_period = (struct cpu_time){sum.run_ns - w->at_end.run_ns, sum.wait_ns - w->at_end.wait_ns};
	w->ended_ns = now_ns;
	w->at_end = sum;
	times->starved = is_starved(w->in_period, w->length_ns, times->starved);
	if (times->starved && !w->warned && (!w->warned_ns || now_ns - w->warned_ns >= CPU_WAIT_QUIET_NS)) {
		w->warned = true;
		w->warned_ns = now_ns;
		return CPU_WAIT_BEGAN;
	}
	if (!times->starved && w->warned) {
		w->warned = false;
		return CPU_WAIT_ENDED;
	}
	return CPU_WAIT_UNCHANGED;
}

static double seconds(uint64_t ns)
{
	return (double)ns / NS_PER_SEC;
}

void cpu_wait_refresh(struct cpu_wait *w)
{
	(void)cpu_wait_read(w, TASK); /* without it, the figures are those of the last reading */
}

void cpu_wait_update(struct cpu_wait *w)
{
	const struct cpu_time *t = &w->in_period;

	cpu_wait_refresh(w);
	switch (cpu_wait_look(w, clock_mono_ns())) {
	case CPU_WAIT_BEGAN:
		log_warn("the agent gets too little CPU time: in the last %.0f s its threads waited %.1f s "
			 "for a CPU and ran for %.1f s, so unwind tables and names come late; raise its CPU "
			 "request (resources.requests.cpu of the chart, CPUWeight= of a systemd unit), or "
			 "its CPU limit if it has one",
			 seconds(w->length_ns), seconds(t->wait_ns), seconds(t->run_ns));
		break;
	case CPU_WAIT_ENDED:
		log_info("the agent gets enough CPU time again: in the last %.0f s its threads waited %.1f s "
			 "for a CPU and ran for %.1f s",
			 seconds(w->length_ns), seconds(t->wait_ns), seconds(t->run_ns));
		break;
	case CPU_WAIT_UNCHANGED:
		break;
	}
}
