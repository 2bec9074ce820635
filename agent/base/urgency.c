// SPDX-License-Identifier: Apache-2.0
/*
 * The state is global, because limits and policies are those of the process and of its threads. A thread made
 * urgent has SCHED_RESET_ON_FORK set, so its children begin as ordinary ones.
 *
 * SIGXCPU comes when an urgent thread has run for longer than RLIMIT_RTTIME without a wait. The kernel may
 * deliver it to any thread, so the handler makes all urgent ones ordinary.
 */
#include "agent/base/urgency.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/priority.h"
#include "agent/base/thread.h"

#define PRIORITY_EVENTS 2
#define PRIORITY_READING 1
#define NICE_LIMIT 25		  /* in the unit of RLIMIT_NICE: nice -5 */
#define THREADS_MAX 64u		  /* that are urgent at a time; the first place is kept for URGENCY_EVENTS */
#define CHECK_NS (4 * NS_PER_MS)  /* checks that follow sooner do nothing */
#define BURST_NS (20 * NS_PER_MS) /* most that a budget holds after urgency_started */
/* Before that; and the part of the share. */
static const uint64_t start_ns[URGENCY_KINDS] = {1000 * NS_PER_MS, 1500 * NS_PER_MS};
static const double share_part[URGENCY_KINDS] = {0.7, 0.3};
#define START_RUN_US 1000000u
#define RUN_US 50000u /* without a wait */
/*
 * Where the policy is SCHED_DEADLINE: parts of each PERIOD_NS, in percent. For all threads of the host
 * together, kernels have given as little as 85 % of one CPU. The main thread leaves room for those that it
 * waits for.
 */
#define PERIOD_NS (100 * NS_PER_MS)
static const unsigned start_percent[URGENCY_KINDS] = {25, 20}, percent[URGENCY_KINDS] = {20, 10};
#define PERCENT_MIN 5u

struct budget {
	double share;
	int64_t left_ns; /* may be negative: a thread checks after it has run */
	int64_t max_ns;
	uint64_t at_ns; /* when left_ns was brought up to date */
	uint64_t used_ns;
};

static struct {
	pthread_mutex_t lock; /* of the budgets */
	bool allowed, started, ending;
	bool deadline; /* the policy is SCHED_DEADLINE */
	struct budget budgets[URGENCY_KINDS];
	uint64_t ended;
	rlim_t run_us;
	pid_t urgent[THREADS_MAX]; /* 0: free; atomic, since the signal handler reads them */
	struct rlimit rtprio, nice, rttime;
} state;

static _Thread_local struct {
	pid_t tid;
	unsigned slot;
	bool urgent;
	uint64_t cpu_ns, checked_ns; /* at the last check */
	const bool *job;	     /* whether its job is urgent; NULL: it has none */
} self;

/* --- policies */

static void set_run_limit(rlim_t us)
{
	struct rlimit now;

	if (getrlimit(RLIMIT_RTTIME, &now) < 0)
		return;
	now.rlim_cur = us < now.rlim_max ? us : now.rlim_max;
	(void)setrlimit(RLIMIT_RTTIME, &now);
}

/* Only calls of the kernel, which a handler may make. The kernel has raised the limit by a second. */
static void on_run_limit(int signo)
{
	int e = errno;

	(void)signo;
	for (unsigned i = 0; i < THREADS_MAX; i++) {
		pid_t tid = __atomic_exchange_n(&state.urgent[i], 0, __ATOMIC_ACQ_REL);

		if (tid)
			priority_set_ordinary(tid);
	}
	set_run_limit(__atomic_load_n(&state.run_us, __ATOMIC_ACQUIRE));
	errno = e;
}

static int set_policy(pid_t tid, enum urgency_kind kind)
{
	unsigned part = (__atomic_load_n(&state.started, __ATOMIC_ACQUIRE) ? percent : start_percent)[kind];
	int r;

	if (!state.deadline)
		return priority_set_urgent(tid, kind == URGENCY_EVENTS ? PRIORITY_EVENTS : PRIORITY_READING);
	do
		r = priority_set_deadline(tid, PERIOD_NS / 100 * part, PERIOD_NS);
	while (r == -EBUSY && (part /= 2) >= PERCENT_MIN); /* other threads have what the CPUs can give */
	return r;
}

/* False: there are too many urgent threads. */
static bool take_slot(enum urgency_kind kind)
{
	if (!self.tid)
		self.tid = (pid_t)syscall(SYS_gettid);
	for (self.slot = kind == URGENCY_EVENTS ? 0 : 1; self.slot < THREADS_MAX; self.slot++) {
		pid_t none = 0;

		if (__atomic_compare_exchange_n(&state.urgent[self.slot], &none, self.tid, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

/* Makes the calling thread urgent. -EAGAIN, -EBUSY: there are too many; -EPERM. */
static int become_urgent(enum urgency_kind kind)
{
	int r;

	if (!take_slot(kind))
		return -EAGAIN;
	r = set_policy(0, kind);
	if (r < 0)
		__atomic_store_n(&state.urgent[self.slot], 0, __ATOMIC_RELEASE);
	self.urgent = r == 0;
	return r;
}

/* Whether the calling thread has an urgent policy, which another one may have given it. */
static bool has_policy(void)
{
	return (sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER;
}

static void become_ordinary(void)
{
	pid_t tid = self.tid;

	priority_set_ordinary(0); /* also after the handler, which does not know our time slice */
	(void)__atomic_compare_exchange_n(&state.urgent[self.slot], &tid, 0, false, __ATOMIC_ACQ_REL,
					  __ATOMIC_RELAXED);
	self.urgent = false;
}

/* The handler, or urgency_take_back, has made the calling thread ordinary. */
static bool was_interrupted(void)
{
	return self.urgent && __atomic_load_n(&state.urgent[self.slot], __ATOMIC_ACQUIRE) != self.tid;
}

/* --- limits */

/* Raises a limit to what is needed. */
static bool raise_limit(__rlimit_resource_t which, rlim_t needed, struct rlimit *before)
{
	struct rlimit l;

	if (getrlimit(which, before) < 0)
		return false;
	l = *before;
	if (l.rlim_cur >= needed)
		return true;
	l.rlim_cur = needed;
	if (l.rlim_max < needed)
		l.rlim_max = needed;
	return setrlimit(which, &l) == 0;
}

/*
 * Makes the calling thread urgent for the first time. proflet-start may have done that: then all of its CPU
 * time counts.
 */
static int begin(void)
{
	bool was_urgent = has_policy();
	int r = become_urgent(URGENCY_EVENTS);

	if (r == -EPERM) {
		state.deadline = true;
		r = become_urgent(URGENCY_EVENTS);
	}
	self.cpu_ns = was_urgent ? 0 : clock_thread_cpu_ns();
	if (r < 0 && was_urgent)
		priority_set_ordinary(0);
	return r;
}

int urgency_allow(double share)
{
	struct sigaction action = {.sa_handler = on_run_limit, .sa_flags = SA_RESTART};
	uint64_t now = clock_mono_ns();
	int r;

	if (getrlimit(RLIMIT_RTTIME, &state.rttime) < 0)
		return -errno;
	thread_mutex_init(&state.lock);
	(void)raise_limit(RLIMIT_NICE, NICE_LIMIT, &state.nice);
	(void)raise_limit(RLIMIT_RTPRIO, PRIORITY_EVENTS, &state.rtprio);
	__atomic_store_n(&state.run_us, START_RUN_US, __ATOMIC_RELEASE);
	if (sigaction(SIGXCPU, &action, NULL) < 0)
		return -errno;
	set_run_limit(START_RUN_US);
	r = begin();
	if (r < 0)
		return r;
	for (int kind = 0; kind < URGENCY_KINDS; kind++)
		state.budgets[kind] = (struct budget){
			.share = share * share_part[kind],
			.left_ns = (int64_t)start_ns[kind],
			.max_ns = (int64_t)start_ns[kind],
			.at_ns = now,
		};
	if (share > 0)
		__atomic_store_n(&state.allowed, true, __ATOMIC_RELEASE);
	else
		become_ordinary();
	return 0;
}

void urgency_set_share(double share)
{
	if (!__atomic_load_n(&state.allowed, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&state.lock);
	for (int kind = 0; kind < URGENCY_KINDS; kind++)
		state.budgets[kind].share = share * share_part[kind];
	pthread_mutex_unlock(&state.lock);
}

void urgency_started(void)
{
	if (!__atomic_load_n(&state.allowed, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&state.lock);
	for (int kind = 0; kind < URGENCY_KINDS; kind++)
		state.budgets[kind].max_ns = BURST_NS;
	pthread_mutex_unlock(&state.lock);
	__atomic_store_n(&state.started, true, __ATOMIC_RELEASE);
	__atomic_store_n(&state.run_us, RUN_US, __ATOMIC_RELEASE);
	set_run_limit(RUN_US);
}

bool urgency_needs_nice(void)
{
	return __atomic_load_n(&state.allowed, __ATOMIC_ACQUIRE) && state.deadline;
}

bool urgency_is_on(void)
{
	return self.urgent;
}

void urgency_ending(void)
{
	if (!__atomic_load_n(&state.allowed, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&state.lock);
	for (int kind = 0; kind < URGENCY_KINDS; kind++)
		state.budgets[kind].left_ns = state.budgets[kind].max_ns = (int64_t)start_ns[kind];
	pthread_mutex_unlock(&state.lock);
	__atomic_store_n(&state.started, false, __ATOMIC_RELEASE);
	__atomic_store_n(&state.run_us, START_RUN_US, __ATOMIC_RELEASE);
	set_run_limit(START_RUN_US);
	__atomic_store_n(&state.ending, true, __ATOMIC_RELEASE);
}

void urgency_restore_limits(void)
{
	if (!__atomic_load_n(&state.run_us, __ATOMIC_ACQUIRE))
		return;
	(void)setrlimit(RLIMIT_RTTIME, &state.rttime);
	(void)setrlimit(RLIMIT_RTPRIO, &state.rtprio);
	(void)setrlimit(RLIMIT_NICE, &state.nice);
}

/* --- budgets */

/* Takes what a thread has used, and adds what the time has brought. Returns what is left. */
static int64_t budget_take(struct budget *b, uint64_t used_ns, uint64_t now)
{
	int64_t left;

	pthread_mutex_lock(&state.lock);
	if (now > b->at_ns) { /* else another thread was here before, with a later time */
		b->left_ns += (int64_t)((double)(now - b->at_ns) * b->share);
		b->at_ns = now;
	}
	b->left_ns -= (int64_t)used_ns;
	if (b->left_ns > b->max_ns)
		b->left_ns = b->max_ns;
	b->used_ns += used_ns;
	left = b->left_ns;
	pthread_mutex_unlock(&state.lock);
	return left;
}

void urgency_check(enum urgency_kind kind)
{
	uint64_t now, cpu, used;
	int64_t left;

	if (!__atomic_load_n(&state.allowed, __ATOMIC_ACQUIRE))
		return;
	now = clock_mono_ns();
	if (now - self.checked_ns < CHECK_NS)
		return;
	self.checked_ns = now;
	cpu = clock_thread_cpu_ns();
	used = self.urgent ? cpu - self.cpu_ns : 0;
	self.cpu_ns = cpu;
	left = budget_take(&state.budgets[kind], used, now);
	if (was_interrupted() || (self.urgent && left <= 0)) {
		become_ordinary();
		__atomic_add_fetch(&state.ended, 1, __ATOMIC_RELAXED);
	} else if (!self.urgent && left > (int64_t)(BURST_NS / 2)) {
		(void)become_urgent(kind);
	}
}

uint32_t urgency_allowance_us(void)
{
	uint32_t most = __atomic_load_n(&state.started, __ATOMIC_ACQUIRE) ? RUN_US : START_RUN_US;
	int64_t left;

	if (!self.urgent)
		return 0;
	left = budget_take(&state.budgets[URGENCY_READING], 0, clock_mono_ns()) / 1000;
	return left <= 0 ? 0 : left < most ? (uint32_t)left : most;
}

void urgency_give_process(pid_t pid)
{
	if (urgency_allowance_us())
		(void)set_policy(pid, URGENCY_READING);
}

void urgency_charge(uint64_t cpu_ns)
{
	const uint64_t most = START_RUN_US * 1000ull;

	if (self.urgent)
		(void)budget_take(&state.budgets[URGENCY_READING], cpu_ns < most ? cpu_ns : most,
				  clock_mono_ns());
}

void urgency_give(pthread_t thread)
{
	clockid_t clock;

	/* without a budget, the thread would give the policy back at once */
	if (self.urgent && budget_take(&state.budgets[URGENCY_READING], 0, clock_mono_ns()) > 0 &&
	    pthread_getcpuclockid(thread, &clock) == 0)
		(void)set_policy(~(pid_t)(clock >> 3),
				 URGENCY_READING); /* the clock's number has the thread's */
}

void urgency_begin(void)
{
	bool given;

	if (!__atomic_load_n(&state.allowed, __ATOMIC_ACQUIRE))
		return;
	given = !self.urgent && has_policy();
	if (given && !take_slot(URGENCY_READING)) {
		priority_set_ordinary(0);
		return;
	}
	if (given) {
		self.urgent = true;
		self.cpu_ns = clock_thread_cpu_ns();
	}
	urgency_check(URGENCY_READING);
}

static bool job_is_urgent(const bool *urgent)
{
	return __atomic_load_n(urgent, __ATOMIC_RELAXED) || __atomic_load_n(&state.ending, __ATOMIC_RELAXED);
}

bool urgency_of_job(const bool *urgent)
{
	return self.urgent && job_is_urgent(urgent);
}

void urgency_job(const bool *urgent)
{
	self.job = urgent;
	if (urgent && !job_is_urgent(urgent))
		urgency_end();
	else if (urgent || self.urgent)
		urgency_check(URGENCY_READING);
}

void urgency_point(void)
{
	if (self.job && job_is_urgent(self.job))
		urgency_check(URGENCY_READING);
}

void urgency_take_back(pid_t tid)
{
	for (unsigned i = 0; i < THREADS_MAX; i++) {
		pid_t expected = tid;

		if (__atomic_compare_exchange_n(&state.urgent[i], &expected, 0, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			priority_set_ordinary(tid);
	}
}

void urgency_leave(void)
{
	pid_t tid = self.tid;

	if (self.urgent)
		(void)__atomic_compare_exchange_n(&state.urgent[self.slot], &tid, 0, false, __ATOMIC_ACQ_REL,
						  __ATOMIC_RELAXED);
	self.urgent = false;
}

void urgency_end(void)
{
	self.checked_ns = 0; /* the next check counts, however soon */
	if (self.urgent)
		become_ordinary();
}

void urgency_stats(struct urgency_stats *ret)
{
	*ret = (struct urgency_stats){.ended = __atomic_load_n(&state.ended, __ATOMIC_RELAXED)};
	if (!__atomic_load_n(&state.allowed, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&state.lock);
	for (int kind = 0; kind < URGENCY_KINDS; kind++)
		ret->cpu_ns[kind] = state.budgets[kind].used_ns;
	pthread_mutex_unlock(&state.lock);
}

void urgency_forked(void)
{
	self.tid = 0;
	self.urgent = false;
	for (unsigned i = 0; i < THREADS_MAX; i++)
		__atomic_store_n(&state.urgent[i], 0, __ATOMIC_RELEASE);
}
