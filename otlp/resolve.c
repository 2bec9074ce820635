// SPDX-License-Identifier: Apache-2.0
#include "otlp/resolve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "otlp/wait.h"

static atomic_int n_pending;

/* Shared by the caller and the thread; the one that uses it last frees it. */
struct lookup {
	pthread_mutex_t lock;
	bool done, abandoned;
	int event_fd;
	char host[256], port[8];
	struct addrinfo *result; /* owned until the caller takes it */
	int error;		 /* EAI_* */
};

static void lookup_free(struct lookup *l)
{
	if (l->result)
		freeaddrinfo(l->result);
	if (l->event_fd >= 0)
		close(l->event_fd);
	pthread_mutex_destroy(&l->lock);
	free(l);
	atomic_fetch_sub(&n_pending, 1);
}

static int query(const char *host, const char *port, int flags, struct addrinfo **ret)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};

	return getaddrinfo(host, port, &hints, ret);
}

static void *lookup_run(void *data)
{
	struct lookup *l = data;
	struct addrinfo *result = NULL;
	uint64_t one = 1;
	bool abandoned;
	int error;

	error = query(l->host, l->port, 0, &result);
	pthread_mutex_lock(&l->lock);
	l->result = error ? NULL : result;
	l->error = error;
	l->done = true;
	abandoned = l->abandoned;
	if (!abandoned && write(l->event_fd, &one, sizeof one) < 0)
		l->error = EAI_SYSTEM;
	pthread_mutex_unlock(&l->lock);
	if (abandoned)
		lookup_free(l);
	return NULL;
}

/* The thread inherits a mask of all signals, because the main loop handles them. */
static int start_thread(struct lookup *l)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int r;

	if (pthread_attr_init(&attr))
		return -ENOMEM;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, &attr, lookup_run, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -r;
}

static int lookup_start(const char *host, const char *port, struct lookup **ret)
{
	struct lookup *l;
	int r;

	if (atomic_fetch_add(&n_pending, 1) >= RESOLVE_MAX_PENDING) {
		atomic_fetch_sub(&n_pending, 1);
		return -EBUSY;
	}
	l = calloc(1, sizeof *l);
	if (!l) {
		atomic_fetch_sub(&n_pending, 1);
		return -ENOMEM;
	}
	pthread_mutex_init(&l->lock, NULL);
	snprintf(l->host, sizeof l->host, "%s", host);
	snprintf(l->port, sizeof l->port, "%s", port);
	l->event_fd = eventfd(0, EFD_CLOEXEC);
	r = l->event_fd < 0 ? -errno : start_thread(l);
	if (r < 0) {
		lookup_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

int otlp_resolve(const char *host, uint16_t port, uint64_t deadline_mono_ns, int cancel_fd,
		 struct addrinfo **ret, const char **ret_why)
{
	struct lookup *l;
	char service[8];
	int r, error;

	snprintf(service, sizeof service, "%u", port);
	if (!query(host, service, AI_NUMERICHOST, ret))
		return 0;
	r = lookup_start(host, service, &l);
	if (r < 0)
		return r;
	r = otlp_wait_fd(l->event_fd, POLLIN, deadline_mono_ns, cancel_fd);
	pthread_mutex_lock(&l->lock);
	if (!l->done) {
		l->abandoned = true;
		pthread_mutex_unlock(&l->lock);
		return r < 0 ? r : -ETIMEDOUT;
	}
	error = l->error;
	if (!error)
		*ret = TAKE_PTR(l->result);
	pthread_mutex_unlock(&l->lock);
	lookup_free(l);
	if (!error)
		return 0;
	*ret_why = gai_strerror(error);
	return -ENOENT;
}
