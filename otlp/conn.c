// SPDX-License-Identifier: Apache-2.0
#include "otlp/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/base/clock.h"
#include "otlp/resolve.h"
#include "otlp/wait.h"

#define USER_TIMEOUT_MS 20000u /* a peer that acknowledges nothing for this long is regarded as dead */
#define KEEPALIVE_IDLE_S 30
#define KEEPALIVE_INTERVAL_S 10
#define KEEPALIVE_PROBES 3
#define ADDRESS_MIN_NS (1 * NS_PER_SEC) /* minimum time for an address before the next one is tried */

#define LOST_TEXT_MAX 160

/* The arguments of otlp_conn_open. */
struct attempt {
	const struct otlp_endpoint *endpoint;
	const struct otlp_tls_options *tls;
	uint64_t deadline; /* monotonic */
	int cancel_fd;
	char *why;
	size_t why_size;
};

struct otlp_conn {
	int fd;
	struct ssl_st *ssl; /* NULL: without TLS */
	short read_events, write_events;
	char lost[LOST_TEXT_MAX]; /* why TLS failed; "" while it has not */
};

static void disconnect(struct otlp_conn *c)
{
	otlp_tls_free(c->ssl);
	c->ssl = NULL;
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

void otlp_conn_free(struct otlp_conn *c)
{
	if (!c)
		return;
	disconnect(c);
	free(c);
}

/*
 * Socket options by which the kernel notices a dead peer; they replace pings in HTTP/2. If the kernel refuses
 * one of them, the connection works without.
 */
static void set_options(int fd)
{
	const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, (int)USER_TIMEOUT_MS},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
	};

	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
				 sizeof options[i].value);
}

static int connect_one(const struct sockaddr *address, socklen_t address_len, uint64_t deadline,
		       int cancel_fd, int *ret_fd)
{
	_cleanup_close_ int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(int);
	int r, error = 0;

	if (fd < 0)
		return -errno;
	if (address->sa_family != AF_UNIX)
		set_options(fd);
	if (connect(fd, address, address_len) < 0) {
		if (errno != EINPROGRESS)
			return -errno;
		r = otlp_wait_fd(fd, POLLOUT, deadline, cancel_fd);
		if (r < 0)
			return r;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
			return -errno;
		if (error)
			return -error;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* The deadline for one address: an equal share of the time that is left. */
static uint64_t share_of(uint64_t deadline, const struct addrinfo *address)
{
	uint64_t now = clock_mono_ns(), n = 0, share;

	for (; address; address = address->ai_next)
		n++;
	share = deadline > now ? (deadline - now) / n : 0;
	if (share < ADDRESS_MIN_NS)
		share = ADDRESS_MIN_NS;
	return now + share < deadline ? now + share : deadline;
}

static int handshake(struct otlp_conn *c, const struct attempt *a, uint64_t deadline)
{
	short events = 0;
	int r;

	for (;;) {
		r = otlp_tls_handshake(c->ssl, &events, a->why, a->why_size);
		if (r != -EAGAIN)
			return r;
		r = otlp_wait_fd(c->fd, events, deadline, a->cancel_fd);
		if (r < 0) {
			snprintf(a->why, a->why_size, "TLS handshake: %s", strerror(-r));
			return r;
		}
	}
}

/* Prepares a connected socket for the first call: proxy tunnel, TLS handshake. */
static int greet(struct otlp_conn *c, const struct attempt *a, const struct otlp_proxy *proxy,
		 uint64_t deadline)
{
	int r = 0;

	if (proxy)
		r = otlp_proxy_tunnel(c->fd, proxy, a->endpoint, deadline, a->cancel_fd, a->why, a->why_size);
	if (r < 0 || !a->endpoint->tls)
		return r;
	r = otlp_tls_new(&c->ssl, c->fd, a->endpoint, a->tls, a->why, a->why_size);
	return r < 0 ? r : handshake(c, a, deadline);
}

static int open_unix(struct otlp_conn *c, const struct attempt *a)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int r;

	memcpy(address.sun_path, a->endpoint->socket, strlen(a->endpoint->socket) + 1);
	r = connect_one((const struct sockaddr *)&address, sizeof address, a->deadline, a->cancel_fd, &c->fd);
	if (r < 0)
		snprintf(a->why, a->why_size, "connect to %s: %s", a->endpoint->socket, strerror(-r));
	return r;
}

_Static_assert(sizeof((struct sockaddr_un *)0)->sun_path >= sizeof((struct otlp_endpoint *)0)->socket,
	       "sun_path");

static int resolve(const struct otlp_endpoint *e, const struct attempt *a, struct addrinfo **ret)
{
	const char *text = NULL;
	int r = otlp_resolve(e->host, e->port, a->deadline, a->cancel_fd, ret, &text);

	if (r < 0)
		snprintf(a->why, a->why_size, "resolve %s: %s", e->host, text ? text : strerror(-r));
	return r;
}

/*
 * One name may stand for several servers: one that does not listen, one with a wrong certificate, and the one
 * that works. If all fail, the error of a server that answered is reported.
 */
static int open_tcp(struct otlp_conn *c, const struct attempt *a, const struct otlp_proxy *proxy)
{
	const struct otlp_endpoint *peer = proxy ? &proxy->address : a->endpoint;
	_cleanup_addrinfo_ struct addrinfo *addresses = NULL;
	bool answered = false;
	int r = resolve(peer, a, &addresses);

	if (r < 0)
		return r;
	r = -EHOSTUNREACH;
	for (const struct addrinfo *i = addresses; i; i = i->ai_next) {
		uint64_t deadline = share_of(a->deadline, i);

		r = connect_one(i->ai_addr, i->ai_addrlen, deadline, a->cancel_fd, &c->fd);
		if (r < 0 && !answered)
			snprintf(a->why, a->why_size, "connect to %s: %s", peer->authority, strerror(-r));
		if (r >= 0) {
			answered = true;
			r = greet(c, a, proxy, deadline);
		}
		if (r >= 0 || r == -ECANCELED || r == -ENOMEM)
			break;
		disconnect(c);
	}
	return r;
}

int otlp_conn_open(struct otlp_conn **ret, const struct otlp_endpoint *endpoint,
		   const struct otlp_proxy *proxy, const struct otlp_tls_options *tls,
		   uint64_t deadline_mono_ns, int cancel_fd, char *why, size_t why_size)
{
	const struct attempt a = {endpoint, tls, deadline_mono_ns, cancel_fd, why, why_size};
	_cleanup_conn_ struct otlp_conn *c = calloc(1, sizeof *c);
	int r;

	snprintf(why, why_size, "%s", strerror(ENOMEM));
	if (!c)
		return -ENOMEM;
	c->fd = -1;
	c->read_events = POLLIN;
	c->write_events = POLLOUT;
	if (endpoint->socket[0])
		r = open_unix(c, &a);
	else
		r = open_tcp(c, &a, proxy);
	if (r < 0)
		return r == -ETIMEDOUT || r == -ECANCELED || r == -ENOMEM ? r : -ECONNREFUSED;
	*ret = TAKE_PTR(c);
	return 0;
}

/* Saves the error text now: OpenSSL's next call discards it. */
static int remember(struct otlp_conn *c, int r)
{
	if (r == -ECONNRESET)
		otlp_tls_reason(c->ssl, c->lost, sizeof c->lost);
	return r;
}

int otlp_conn_read(struct otlp_conn *c, void *data, size_t size, size_t *ret_n)
{
	ssize_t n;

	if (c->ssl)
		return remember(c, otlp_tls_read(c->ssl, data, size, ret_n, &c->read_events));
	n = recv(c->fd, data, size, 0);
	if (n > 0) {
		*ret_n = (size_t)n;
		return 0;
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? -EAGAIN : -ECONNRESET;
}

int otlp_conn_write(struct otlp_conn *c, const void *data, size_t size, size_t *ret_n)
{
	ssize_t n;

	if (c->ssl)
		return remember(c, otlp_tls_write(c->ssl, data, size, ret_n, &c->write_events));
	n = send(c->fd, data, size, MSG_NOSIGNAL);
	if (n >= 0) {
		*ret_n = (size_t)n;
		return 0;
	}
	return errno == EAGAIN || errno == EINTR ? -EAGAIN : -ECONNRESET;
}

const char *otlp_conn_lost(const struct otlp_conn *c)
{
	return c->lost[0] ? c->lost : "the connection was lost";
}

int otlp_conn_fd(const struct otlp_conn *c)
{
	return c->fd;
}

short otlp_conn_events(const struct otlp_conn *c, int writing)
{
	return (short)(c->read_events | (writing ? c->write_events : 0));
}
