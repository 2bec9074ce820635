// SPDX-License-Identifier: Apache-2.0
/*
 * A hostile server on a loopback port for the tests: for each connection it sends a greeting, waits for the
 * client's first bytes, sends the opening, and then the same bytes again and again until the client has gone.
 */
#ifndef TEST_FLOOD_SERVER_H
#define TEST_FLOOD_SERVER_H

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "agent/base/buf.h"

/* A piece of the conversation, with its length, because it may contain zeros. */
struct flood_bytes {
	const char *data;
	size_t len;
};

#define BYTES(text) {text, sizeof(text) - 1}

struct flood_server {
	/* Set by the test. */
	struct flood_bytes greeting, opening, repeated;
	bool drip;  /* send the repeated bytes one at a time, 20 ms apart */
	bool reads; /* read what the client sends meanwhile */

	uint16_t port;
	int listen_fd, stop_fd;
	pthread_t thread;
	atomic_uint n_connections;
	atomic_ullong n_sent; /* bytes */
};

/* Waits for the events; false when the test ends or the time (ms, -1: none) has passed. */
static inline bool flood_wait(struct flood_server *s, int fd, short events, int ms)
{
	struct pollfd fds[2] = {{.fd = fd, .events = events}, {.fd = s->stop_fd, .events = POLLIN}};

	return poll(fds, 2, ms) > 0 && !fds[1].revents;
}

static inline bool flood_send(struct flood_server *s, int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n;

		if (!flood_wait(s, fd, POLLOUT, -1))
			return false;
		n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n <= 0)
			return false;
		atomic_fetch_add(&s->n_sent, (unsigned long long)n);
		data += n;
		len -= (size_t)n;
	}
	return true;
}

static inline void flood_serve(struct flood_server *s, int fd)
{
	_cleanup_buf_ struct buf block = {0};
	char ignored[65536];

	if (!flood_send(s, fd, s->greeting.data, s->greeting.len) || !flood_wait(s, fd, POLLIN, -1))
		return;
	if (recv(fd, ignored, sizeof ignored, 0) <= 0 || !flood_send(s, fd, s->opening.data, s->opening.len))
		return;
	while (!s->drip && s->repeated.len && block.len < 32768)
		cr_assert_eq(buf_append(&block, s->repeated.data, s->repeated.len), 0);
	for (size_t i = 0; s->repeated.len; i++) {
		if (s->reads)
			while (recv(fd, ignored, sizeof ignored, MSG_DONTWAIT) > 0)
				;
		if (!s->drip) {
			if (!flood_send(s, fd, (const char *)block.data, block.len))
				return;
		} else if (!flood_send(s, fd, s->repeated.data + i % s->repeated.len, 1) ||
			   flood_wait(s, -1, 0, 20)) {
			return;
		}
	}
	(void)flood_wait(s, -1, 0, -1);
}

static inline void *flood_run(void *data)
{
	struct flood_server *s = data;

	while (flood_wait(s, s->listen_fd, POLLIN, -1)) {
		int fd = accept(s->listen_fd, NULL, NULL);

		if (fd < 0)
			continue;
		atomic_fetch_add(&s->n_connections, 1);
		flood_serve(s, fd);
		close(fd);
	}
	return NULL;
}

static inline void flood_server_start(struct flood_server *s)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof a;

	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	s->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert(s->stop_fd >= 0 && s->listen_fd >= 0);
	cr_assert_eq(bind(s->listen_fd, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(s->listen_fd, 8), 0);
	cr_assert_eq(getsockname(s->listen_fd, (struct sockaddr *)&a, &len), 0);
	s->port = ntohs(a.sin_port);
	cr_assert_eq(pthread_create(&s->thread, NULL, flood_run, s), 0);
}

static inline void flood_server_stop(struct flood_server *s)
{
	cr_assert_eq(eventfd_write(s->stop_fd, 1), 0);
	cr_assert_eq(pthread_join(s->thread, NULL), 0);
	close(s->listen_fd);
	close(s->stop_fd);
}

#endif
