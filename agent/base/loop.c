// SPDX-License-Identifier: Apache-2.0
/*
 * A source removed inside a callback may still have an event further down in the same epoll batch, so removal
 * only marks it; the loop frees marked sources between batches.
 */
#include "agent/base/loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "agent/base/clock.h"
#include "agent/base/cleanup.h"

enum source_kind { SOURCE_FD, SOURCE_TIMER, SOURCE_SIGNAL };

struct loop_source {
	struct loop *loop;
	struct loop_source *next;
	enum source_kind kind;
	int fd;
	bool removed;
	union {
		loop_fd_fn fd_fn;
		loop_timer_fn timer_fn;
		loop_signal_fn signal_fn;
	};
	void *data;
};

struct loop {
	int epoll_fd;
	bool stopped, has_removed;
	struct loop_source *sources;
	void (*after)(void *data);
	void *after_data;
};

int loop_new(struct loop **ret)
{
	struct loop *l = calloc(1, sizeof *l);

	if (!l)
		return -ENOMEM;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0) {
		int r = -errno;

		free(l);
		return r;
	}
	*ret = l;
	return 0;
}

static void source_free(struct loop_source *s)
{
	if (s->kind != SOURCE_FD && s->fd >= 0)
		close(s->fd);
	free(s);
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	for (struct loop_source *s = l->sources, *next; s; s = next) {
		next = s->next;
		source_free(s);
	}
	close(l->epoll_fd);
	free(l);
}

/* Takes ownership of `fd` for timers and signals, also on failure. */
static int source_new(struct loop *l, enum source_kind kind, int fd, uint32_t events, void *data,
		      struct loop_source **ret)
{
	struct loop_source *s = calloc(1, sizeof *s);
	struct epoll_event ev = {.events = events, .data.ptr = s};
	int r;

	if (!s) {
		if (kind != SOURCE_FD)
			close(fd);
		return -ENOMEM;
	}
	*s = (struct loop_source){.loop = l, .kind = kind, .fd = fd, .data = data};
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		r = -errno;
		source_free(s);
		return r;
	}
	s->next = l->sources;
	l->sources = s;
	*ret = s;
	return 0;
}

int loop_add_fd(struct loop *l, int fd, uint32_t events, loop_fd_fn fn, void *data, struct loop_source **ret)
{
	struct loop_source *s;
	int r = source_new(l, SOURCE_FD, fd, events, data, &s);

	if (r < 0)
		return r;
	s->fd_fn = fn;
	if (ret)
		*ret = s;
	return 0;
}

int loop_set_events(struct loop_source *s, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = s};

	return epoll_ctl(s->loop->epoll_fd, EPOLL_CTL_MOD, s->fd, &ev) < 0 ? -errno : 0;
}

int loop_set_timer(struct loop_source *s, uint64_t first_ns, uint64_t period_ns)
{
	struct itimerspec spec = {
		.it_value = {(time_t)(first_ns / NS_PER_SEC), (long)(first_ns % NS_PER_SEC)},
		.it_interval = {(time_t)(period_ns / NS_PER_SEC), (long)(period_ns % NS_PER_SEC)},
	};

	if (!first_ns)
		spec.it_value.tv_nsec = 1; /* zero would disarm it */
	return timerfd_settime(s->fd, 0, &spec, NULL) < 0 ? -errno : 0;
}

int loop_add_timer(struct loop *l, uint64_t first_ns, uint64_t period_ns, loop_timer_fn fn, void *data,
		   struct loop_source **ret)
{
	struct loop_source *s;
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	int r;

	if (fd < 0)
		return -errno;
	r = source_new(l, SOURCE_TIMER, fd, EPOLLIN, data, &s);
	if (r < 0)
		return r;
	s->timer_fn = fn;
	if (ret)
		*ret = s;
	return loop_set_timer(s, first_ns, period_ns);
}

int loop_add_signals(struct loop *l, const sigset_t *set, loop_signal_fn fn, void *data)
{
	struct loop_source *s;
	int fd, r;

	if (sigprocmask(SIG_BLOCK, set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	r = source_new(l, SOURCE_SIGNAL, fd, EPOLLIN, data, &s);
	if (r < 0)
		return r;
	s->signal_fn = fn;
	return 0;
}

void loop_remove(struct loop_source *s)
{
	if (!s || s->removed)
		return;
	epoll_ctl(s->loop->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
	s->removed = true;
	s->loop->has_removed = true;
}

static void sweep(struct loop *l)
{
	struct loop_source **p = &l->sources;

	if (!l->has_removed)
		return;
	while (*p) {
		struct loop_source *s = *p;

		if (s->removed) {
			*p = s->next;
			source_free(s);
		} else {
			p = &s->next;
		}
	}
	l->has_removed = false;
}

static int dispatch(struct loop_source *s, uint32_t events)
{
	struct signalfd_siginfo info;
	uint64_t n;

	switch (s->kind) {
	case SOURCE_FD:
		return s->fd_fn(s->fd, events, s->data);
	case SOURCE_TIMER:
		if (read(s->fd, &n, sizeof n) != sizeof n)
			return 0;
		return s->timer_fn(n, s->data);
	case SOURCE_SIGNAL:
		if (read(s->fd, &info, sizeof info) != sizeof info)
			return 0;
		return s->signal_fn((int)info.ssi_signo, s->data);
	}
	return -EINVAL;
}

int loop_run(struct loop *l)
{
	struct epoll_event events[32];

	l->stopped = false;
	while (!l->stopped) {
		int n = epoll_wait(l->epoll_fd, events, ARRAY_SIZE(events), -1);

		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n && !l->stopped; i++) {
			struct loop_source *s = events[i].data.ptr;
			int r = s->removed ? 0 : dispatch(s, events[i].events);

			if (r < 0)
				return r;
		}
		sweep(l);
		if (l->after)
			l->after(l->after_data);
	}
	return 0;
}

void loop_set_after(struct loop *l, void (*fn)(void *data), void *data)
{
	l->after = fn;
	l->after_data = data;
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}
