// SPDX-License-Identifier: Apache-2.0
#include "agent/base/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "agent/base/clock.h"
#include "agent/base/cleanup.h"

struct queue {
	struct worker_job *head, **tail;
};

struct worker {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct queue waiting[2], finished; /* under lock */
	size_t pending, max_jobs;	   /* pending: only the submitting thread counts */
	bool stopping;
	int event_fd;
	unsigned n_threads;
	pthread_t threads[];
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

static void finish(struct worker *w, struct worker_job *job)
{
	uint64_t one = 1;

	pthread_mutex_lock(&w->lock);
	queue_push(&w->finished, job);
	pthread_mutex_unlock(&w->lock);
	if (write(w->event_fd, &one, sizeof one) < 0)
		return; /* the counter is full, so the fd is readable already */
}

static void *thread_main(void *data)
{
	struct worker *w = data;

	for (;;) {
		struct worker_job *job;

		pthread_mutex_lock(&w->lock);
		while (!w->stopping && !w->waiting[WORKER_HIGH].head && !w->waiting[WORKER_LOW].head)
			pthread_cond_wait(&w->wake, &w->lock);
		if (w->stopping) {
			pthread_mutex_unlock(&w->lock);
			return NULL;
		}
		job = queue_pop(&w->waiting[WORKER_HIGH]);
		if (!job)
			job = queue_pop(&w->waiting[WORKER_LOW]);
		pthread_mutex_unlock(&w->lock);
		job->run(job);
		finish(w, job);
	}
}

/* Signals are the main loop's: the threads are born with all of them blocked. */
static int start_threads(struct worker *w, unsigned n, const char *name)
{
	sigset_t all, old;
	int r = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (; w->n_threads < n && r == 0; w->n_threads += r == 0) {
		r = -pthread_create(&w->threads[w->n_threads], NULL, thread_main, w);
		if (r == 0)
			pthread_setname_np(w->threads[w->n_threads], name);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

int worker_new(struct worker **ret, unsigned n_threads, size_t max_jobs, const char *thread_name)
{
	struct worker *w = calloc(1, sizeof *w + n_threads * sizeof(pthread_t));
	int r;

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	queue_init(&w->waiting[WORKER_HIGH]);
	queue_init(&w->waiting[WORKER_LOW]);
	queue_init(&w->finished);
	w->max_jobs = max_jobs;
	w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = w->event_fd < 0 ? -errno : start_threads(w, n_threads, thread_name);
	if (r < 0) {
		worker_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_broadcast(&w->wake);
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->n_threads; i++)
		pthread_join(w->threads[i], NULL);
	worker_collect(w);
	for (int p = 0; p < 2; p++) {
		struct worker_job *job;

		while ((job = queue_pop(&w->waiting[p])))
			job->done(job, true);
	}
	if (w->event_fd >= 0)
		close(w->event_fd);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int worker_submit(struct worker *w, struct worker_job *job, enum worker_priority priority)
{
	if (w->pending >= w->max_jobs)
		return -ENOSPC;
	w->pending++;
	pthread_mutex_lock(&w->lock);
	queue_push(&w->waiting[priority], job);
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

int worker_fd(struct worker *w)
{
	return w->event_fd;
}

void worker_collect(struct worker *w)
{
	struct worker_job *job, *next;
	uint64_t n;

	if (read(w->event_fd, &n, sizeof n) < 0 && errno != EAGAIN)
		return;
	pthread_mutex_lock(&w->lock);
	job = w->finished.head;
	queue_init(&w->finished);
	pthread_mutex_unlock(&w->lock);
	for (; job; job = next) {
		next = job->next;
		w->pending--;
		job->done(job, false);
	}
}

size_t worker_pending(const struct worker *w)
{
	return w->pending;
}

void worker_drain(struct worker *w, unsigned long timeout_ns)
{
	uint64_t deadline = clock_mono_ns() + timeout_ns, now;

	while (w->pending && (now = clock_mono_ns()) < deadline) {
		struct pollfd p = {.fd = w->event_fd, .events = POLLIN};

		poll(&p, 1, (int)((deadline - now) / NS_PER_MS) + 1);
		worker_collect(w);
	}
}
