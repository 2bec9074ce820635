// SPDX-License-Identifier: Apache-2.0
/*
 * Threads have slots and are detached, because a stuck thread cannot be joined. A stuck thread does not count
 * as part of the pool, and another one takes its place. When its job returns, it rejoins the pool if a thread
 * is missing, and ends otherwise.
 *
 * Whether a thread is stuck does not depend on how long its job takes, because a thread that waits for a busy
 * CPU may take minutes. worker_check looks at the CPU clock of the thread. A thread that has not used any CPU
 * time since the last look, and sleeps, has slept all the time in between: it would have needed a CPU to wake
 * up and fall asleep again. A job that uses more CPU time than WORKER_CPU_MAX_NS is not waited for either.
 */
#include "agent/base/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/cleanup.h"
#include "agent/base/thread.h"
#include "agent/base/urgency.h"

#define END_WAIT_NS (3 * NS_PER_SEC)   /* longer than any job runs on an idle CPU unless it is stuck */
#define LOOK_AFTER_NS (20 * NS_PER_MS) /* worker_check does not look at jobs that began later than that */
#define COLLECT_MAX 64u		     /* jobs in one call of worker_collect: the caller has other work, too */
#define URGENT_BLOCKED_NS NS_PER_SEC /* a thread that has been blocked for longer is not urgent */
#define DRAIN_STUCK_NS (5 * NS_PER_MS) /* worker_drain waits for so long if all jobs are stuck */

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_FINISHED };

struct queue {
	struct worker_job *head, **tail;
};

struct thread {
	struct worker *worker;
	bool exists;
	pthread_t id; /* as long as it exists */
	pid_t tid;    /* 0: the thread has not begun */
	clockid_t cpu_clock;
	struct worker_job *job; /* the running one, or NULL */
	bool low;		/* the job has low priority */
	uint64_t started_ns;
	uint64_t cpu_began_ns; /* its CPU clock when the job began */
	uint64_t cpu_ns;       /* its CPU clock, */
	uint64_t cpu_seen_ns;  /* and when worker_check first saw that value; 0: never */
	uint64_t blocked_ns;   /* for how long it had slept without a break when worker_check last looked */
	bool stuck, reported;
	bool taken_back; /* blocked, and not urgent any more */
	bool given;	 /* it was made urgent and has not noticed yet, or waits as an urgent one */
	pid_t delegate;	 /* of the process that does its work; 0: it works itself */
};

static _Thread_local struct thread *self;
static void (*on_urge)(pid_t pid);

struct worker {
	pthread_mutex_t lock;
	pthread_cond_t wake, answer;	   /* for the threads; for a caller that waits for one of them */
	struct queue waiting[2], finished; /* all under lock */
	struct worker_job *awaited;
	unsigned n_alive, n_stuck; /* threads; stuck ones among them */
	unsigned n_low, max_low;  /* threads, not stuck, with jobs of low priority; how many may have these */
	bool stopping, abandoned; /* abandoned: the last thread frees it */
	size_t pending, max_jobs; /* pending: only the submitting thread counts */
	int event_fd;
	unsigned n_threads, n_slots;
	char name[16];
	struct thread threads[];
};

static void queue_init(struct queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
}

static void queue_push(struct queue *q, struct worker_job *job)
{
	job->next = NULL;
	*q->tail = job;
	q->tail = &job->next;
}

static struct worker_job *queue_pop(struct queue *q)
{
	struct worker_job *job = q->head;

	if (job) {
		q->head = job->next;
		if (!q->head)
			q->tail = &q->head;
	}
	return job;
}

static void queue_remove(struct queue *q, struct worker_job *job)
{
	struct worker_job **at = &q->head;

	while (*at && *at != job)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = job->next;
	if (!*at)
		q->tail = at;
}

/* Or it would wait for a CPU before it becomes urgent by itself. Under lock. */
static void thread_give(struct thread *t)
{
	if (!t->exists || t->stuck || t->given)
		return;
	urgency_give(t->id);
	if (t->delegate && on_urge && urgency_is_on())
		on_urge(t->delegate);
	t->given = true;
}

static unsigned at_work(const struct worker *w)
{
	return w->n_alive - w->n_stuck;
}

static void thread_notice(struct thread *t)
{
	if (t->given)
		urgency_begin();
	t->given = false;
}

/* Takes the next job; NULL: the thread must end. Under lock. */
static struct worker_job *job_take(struct worker *w, struct thread *t)
{
	struct worker_job *job;

	thread_notice(t); /* it may have been made urgent while it ran a job */
	t->given = urgency_is_on();
	while (!w->stopping && !w->waiting[WORKER_HIGH].head &&
	       (!w->waiting[WORKER_LOW].head || w->n_low >= w->max_low))
		pthread_cond_wait(&w->wake, &w->lock);
	thread_notice(t);
	if (w->stopping)
		return NULL;
	job = queue_pop(&w->waiting[WORKER_HIGH]);
	t->low = !job;
	w->n_low += t->low;
	if (!job)
		job = queue_pop(&w->waiting[WORKER_LOW]);
	job->state = JOB_RUNNING;
	t->job = job;
	t->started_ns = clock_mono_ns();
	t->cpu_seen_ns = t->blocked_ns = 0;
	t->taken_back = false;
	t->cpu_began_ns = clock_thread_cpu_ns();
	return job;
}

/* Without the lock: who reads the event takes it at once. */
static void event_write(struct worker *w)
{
	uint64_t one = 1;

	pthread_mutex_unlock(&w->lock);
	if (write(w->event_fd, &one, sizeof one) < 0)
		errno = 0; /* the counter is full, so the fd is readable already */
	pthread_mutex_lock(&w->lock);
}

/* Ends a job. False: another thread has taken this one's place meanwhile. Under lock. */
static bool job_finish(struct worker *w, struct thread *t)
{
	struct worker_job *job = TAKE_PTR(t->job);
	bool was_stuck = t->stuck;

	job->state = JOB_FINISHED;
	queue_push(&w->finished, job);
	w->n_stuck -= was_stuck;
	w->n_low -= t->low && !was_stuck;
	t->stuck = t->reported = false;
	if (w->awaited == job)
		pthread_cond_signal(&w->answer);
	else
		event_write(w);
	return !was_stuck || at_work(w) <= w->n_threads;
}

static void worker_destroy(struct worker *w)
{
	if (w->event_fd >= 0)
		close(w->event_fd);
	pthread_cond_destroy(&w->wake);
	pthread_cond_destroy(&w->answer);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void *thread_main(void *data)
{
	struct thread *t = data;
	struct worker *w = t->worker;
	struct worker_job *job;
	bool stay = true, last;

	self = t;
	thread_begin(THREAD_READER);
	pthread_mutex_lock(&w->lock);
	t->tid = (pid_t)syscall(SYS_gettid);
	if (pthread_getcpuclockid(pthread_self(), &t->cpu_clock) != 0)
		t->cpu_clock = CLOCK_MONOTONIC; /* always moves: such a thread is never stuck */
	while (stay && (job = job_take(w, t))) {
		pthread_mutex_unlock(&w->lock);
		urgency_job(&job->urgent);
		job->run(job);
		urgency_job(NULL);
		pthread_mutex_lock(&w->lock);
		stay = job_finish(w, t);
	}
	urgency_leave();
	t->exists = false;
	w->n_alive--;
	last = w->abandoned && !w->n_alive;
	pthread_cond_signal(&w->answer);
	pthread_mutex_unlock(&w->lock);
	if (last)
		worker_destroy(w);
	return NULL;
}

/* Threads start with all signals blocked, because the main loop handles signals. Under lock. */
static int thread_start(struct worker *w)
{
	struct thread *t = w->threads;
	pthread_attr_t attr;
	sigset_t all, old;
	int r;

	while (t < w->threads + w->n_slots && t->exists)
		t++;
	if (t == w->threads + w->n_slots)
		return -ENOSPC;
	*t = (struct thread){.worker = w, .exists = true};
	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = -pthread_create(&t->id, &attr, thread_main, t);
	if (r == 0)
		pthread_setname_np(t->id, w->name); /* it waits for the lock, so it exists */
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	t->exists = r == 0;
	w->n_alive += r == 0;
	return r;
}

int worker_new(struct worker **ret, unsigned n_threads, size_t max_jobs, const char *thread_name)
{
	unsigned n_slots = n_threads + WORKER_STUCK_MAX;
	struct worker *w = calloc(1, sizeof *w + n_slots * sizeof(struct thread));
	pthread_condattr_t monotonic;
	int r;

	if (!w)
		return -ENOMEM;
	thread_mutex_init(&w->lock);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wake, NULL);
	pthread_cond_init(&w->answer, &monotonic);
	pthread_condattr_destroy(&monotonic);
	queue_init(&w->waiting[WORKER_HIGH]);
	queue_init(&w->waiting[WORKER_LOW]);
	queue_init(&w->finished);
	w->max_jobs = max_jobs;
	w->n_threads = w->max_low = n_threads;
	w->n_slots = n_slots;
	strncpy(w->name, thread_name, sizeof w->name - 1);
	w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->event_fd < 0 ? -errno : 0;
	pthread_mutex_lock(&w->lock);
	for (unsigned i = 0; i < n_threads && r == 0; i++)
		r = thread_start(w);
	pthread_mutex_unlock(&w->lock);
	if (r < 0) {
		worker_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void worker_reserve(struct worker *w, unsigned n)
{
	pthread_mutex_lock(&w->lock);
	w->max_low = n < w->n_threads ? w->n_threads - n : 1;
	pthread_mutex_unlock(&w->lock);
}

/* Waits until another thread reports a change. False: the deadline has passed. Under lock. */
static bool wait_until(struct worker *w, uint64_t deadline_ns)
{
	struct timespec ts = {.tv_sec = (time_t)(deadline_ns / NS_PER_SEC),
			      .tv_nsec = (long)(deadline_ns % NS_PER_SEC)};

	return pthread_cond_timedwait(&w->answer, &w->lock, &ts) == 0;
}

/* Waits for the threads; returns how many do not end in time. */
static unsigned threads_end(struct worker *w)
{
	uint64_t deadline = clock_mono_ns() + END_WAIT_NS;
	unsigned n_left;

	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	for (struct thread *t = w->threads; t < w->threads + w->n_slots; t++)
		thread_give(t);
	pthread_cond_broadcast(&w->wake);
	while (at_work(w) && wait_until(w, deadline)) /* does not wait for threads that are stuck already */
		;
	n_left = w->n_alive;
	pthread_mutex_unlock(&w->lock);
	return n_left;
}

/* False: no job is left. */
static bool collect_one(struct worker *w)
{
	struct worker_job *job;

	pthread_mutex_lock(&w->lock);
	job = queue_pop(&w->finished);
	pthread_mutex_unlock(&w->lock);
	if (!job)
		return false;
	w->pending--;
	job->done(job, false);
	return true;
}

unsigned worker_free(struct worker *w)
{
	struct worker_job *job;
	unsigned n_left;
	bool abandoned;

	if (!w)
		return 0;
	n_left = threads_end(w);
	while (collect_one(w))
		;
	for (int p = 0; p < 2; p++)
		while ((job = queue_pop(&w->waiting[p])))
			job->done(job, true);
	pthread_mutex_lock(&w->lock);
	w->abandoned = abandoned = w->n_alive;
	pthread_mutex_unlock(&w->lock);
	if (!abandoned)
		worker_destroy(w);
	return n_left;
}

int worker_submit(struct worker *w, struct worker_job *job, enum worker_priority priority)
{
	if (w->pending >= w->max_jobs)
		return -ENOSPC;
	w->pending++;
	pthread_mutex_lock(&w->lock);
	job->state = JOB_QUEUED;
	queue_push(&w->waiting[priority], job);
	if (urgency_of_job(&job->urgent))
		for (struct thread *t = w->threads; t < w->threads + w->n_slots; t++)
			if (!t->job)
				thread_give(t);
	pthread_mutex_unlock(&w->lock);
	pthread_cond_signal(&w->wake); /* without the lock, which the thread takes at once */
	return 0;
}

void worker_urge(struct worker *w, struct worker_job *job)
{
	pthread_mutex_lock(&w->lock);
	__atomic_store_n(&job->urgent, true, __ATOMIC_RELAXED);
	for (struct thread *t = w->threads; urgency_is_on() && t < w->threads + w->n_slots; t++)
		if (t->job == job || (job->state == JOB_QUEUED && !t->job))
			thread_give(t);
	pthread_mutex_unlock(&w->lock);
}

void worker_hurry(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	for (struct thread *t = w->threads; urgency_is_on() && t < w->threads + w->n_slots; t++)
		thread_give(t);
	pthread_mutex_unlock(&w->lock);
}

/* Sleeps, rather than runs or waits for a CPU. Where /proc cannot be read, we assume so. */
static bool is_asleep(const struct thread *t)
{
	char path[48], stat[512];
	const char *state;
	ssize_t n;
	int fd;

	if (t->delegate)
		snprintf(path, sizeof path, "/proc/%d/stat", (int)t->delegate);
	else
		snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)t->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return !t->delegate; /* which has ended: the thread is about to notice */
	n = read(fd, stat, sizeof stat - 1);
	close(fd);
	stat[n > 0 ? n : 0] = '\0';
	state = strrchr(stat, ')'); /* the name of the thread may have parentheses, too */
	return !state || state[1] != ' ' || state[2] == 'S' || state[2] == 'D';
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static uint64_t cpu_ns(const struct thread *t)
{
	clockid_t delegate;

	if (!t->delegate || clock_getcpuclockid(t->delegate, &delegate) != 0)
		return clock_ns(t->cpu_clock);
	return clock_ns(t->cpu_clock) + clock_ns(delegate);
}

/* Brings blocked_ns up to date; takes urgency back. The thread has a job, so it cannot end. Under lock. */
static void thread_look(struct thread *t, uint64_t now_ns)
{
	uint64_t cpu = cpu_ns(t);

	if (!t->cpu_seen_ns || cpu != t->cpu_ns || !is_asleep(t)) {
		t->cpu_ns = cpu;
		t->cpu_seen_ns = now_ns;
	}
	t->blocked_ns = now_ns - t->cpu_seen_ns;
	if (t->blocked_ns > URGENT_BLOCKED_NS && !t->taken_back) {
		urgency_take_back(t->tid);
		t->taken_back = true;
	}
}

static bool is_costly(const struct thread *t)
{
	return t->cpu_seen_ns && t->cpu_ns - t->cpu_began_ns > WORKER_CPU_MAX_NS;
}

static void thread_replace(struct worker *w, struct thread *t)
{
	if (t->stuck)
		return;
	t->stuck = true;
	w->n_stuck++;
	w->n_low -= t->low;
	if (at_work(w) < w->n_threads)
		(void)thread_start(w); /* fails at the maximum: the pool shrinks */
}

bool worker_await(struct worker *w, struct worker_job *job, uint64_t timeout_ns)
{
	uint64_t deadline = clock_mono_ns() + timeout_ns;
	bool finished;

	pthread_mutex_lock(&w->lock);
	w->awaited = job;
	while (job->state != JOB_FINISHED && timeout_ns && wait_until(w, deadline))
		;
	w->awaited = NULL;
	finished = job->state == JOB_FINISHED;
	if (finished)
		queue_remove(&w->finished, job);
	for (struct thread *t = w->threads; !finished && t < w->threads + w->n_slots; t++)
		if (t->job == job && is_asleep(t)) /* another thread would only compete for the same CPUs */
			thread_replace(w, t);
	pthread_mutex_unlock(&w->lock);
	w->pending -= finished;
	return finished;
}

void worker_check(struct worker *w, uint64_t bound_ns)
{
	for (struct thread *t = w->threads; t < w->threads + w->n_slots; t++) {
		uint64_t now = clock_mono_ns();
		struct worker_job *job = NULL;

		pthread_mutex_lock(&w->lock);
		if (t->job && now > t->started_ns + LOOK_AFTER_NS) {
			thread_look(t, now);
			if (!t->reported && (t->blocked_ns > bound_ns || is_costly(t)))
				job = t->job;
		}
		if (job) {
			job->costly = is_costly(t);
			t->reported = true;
			thread_replace(w, t);
		}
		pthread_mutex_unlock(&w->lock);
		if (job && job->overdue)
			job->overdue(job); /* it may have finished by now, but is not collected yet */
	}
}

void worker_delegate(pid_t pid)
{
	if (!self)
		return;
	pthread_mutex_lock(&self->worker->lock);
	self->delegate = pid;
	pthread_mutex_unlock(&self->worker->lock);
}

void worker_on_urge(void (*urge)(pid_t pid))
{
	on_urge = urge;
}

/* How long all threads have been blocked. Under lock. */
static uint64_t all_blocked_ns(const struct worker *w)
{
	uint64_t ns = UINT64_MAX;

	for (const struct thread *t = w->threads; t < w->threads + w->n_slots; t++) {
		uint64_t blocked_ns = t->job ? t->blocked_ns : 0;

		if (t->exists && blocked_ns < ns)
			ns = blocked_ns;
	}
	return ns == UINT64_MAX ? 0 : ns;
}

uint64_t worker_blocked_ns(struct worker *w, const struct worker_job *job)
{
	uint64_t ns = 0;

	pthread_mutex_lock(&w->lock);
	if (job->state == JOB_QUEUED)
		ns = all_blocked_ns(w);
	for (const struct thread *t = w->threads; t < w->threads + w->n_slots; t++)
		if (t->job == job)
			ns = t->blocked_ns;
	pthread_mutex_unlock(&w->lock);
	return ns;
}

unsigned worker_stuck(struct worker *w)
{
	unsigned n;

	pthread_mutex_lock(&w->lock);
	n = w->n_stuck;
	pthread_mutex_unlock(&w->lock);
	return n;
}

int worker_fd(struct worker *w)
{
	return w->event_fd;
}

void worker_collect(struct worker *w)
{
	uint64_t n, one = 1;
	unsigned i = 0;

	if (read(w->event_fd, &n, sizeof n) < 0 && errno != EAGAIN)
		return;
	while (i < COLLECT_MAX && collect_one(w))
		i++;
	if (i == COLLECT_MAX && write(w->event_fd, &one, sizeof one) < 0)
		errno = 0; /* it is readable already */
}

size_t worker_pending(const struct worker *w)
{
	return w->pending;
}

static void collect_until(struct worker *w, uint64_t now_ns, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = w->event_fd, .events = POLLIN};

	poll(&p, 1, (int)((deadline_ns - now_ns) / NS_PER_MS) + 1);
	worker_collect(w);
}

void worker_drain(struct worker *w, unsigned long timeout_ns)
{
	uint64_t now = clock_mono_ns(), deadline = now + timeout_ns;

	if (w->pending && w->pending <= worker_stuck(w)) /* they may return, but a caller must not spin */
		collect_until(w, now, now + (timeout_ns < DRAIN_STUCK_NS ? timeout_ns : DRAIN_STUCK_NS));
	while (w->pending > worker_stuck(w) && (now = clock_mono_ns()) < deadline)
		collect_until(w, now, deadline);
}
