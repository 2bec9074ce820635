// SPDX-License-Identifier: Apache-2.0
#include "mock_collector.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <openssl/ssl.h>

#include "otlp/compress.h"

struct peer {
	int fd;
	SSL *ssl;
};

static ssize_t peer_read(struct peer *p, void *data, size_t size)
{
	return p->ssl ? SSL_read(p->ssl, data, (int)size) : recv(p->fd, data, size, 0);
}

static ssize_t peer_write(struct peer *p, const void *data, size_t size)
{
	return p->ssl ? SSL_write(p->ssl, data, (int)size) : send(p->fd, data, size, MSG_NOSIGNAL);
}

/* True when there is something to read, false when the test ends. */
static bool peer_wait(struct mock_collector *m, struct peer *p)
{
	struct pollfd fds[2] = {{.fd = p->fd, .events = POLLIN}, {.fd = m->stop_fd, .events = POLLIN}};

	if (p->ssl && SSL_pending(p->ssl))
		return true;
	return poll(fds, 2, -1) > 0 && !fds[1].revents;
}

static void keep_body(struct mock_collector *m, const struct buf *headers, const uint8_t *data, size_t len)
{
	_cleanup_buf_ struct buf plain = {0};
	const char *text = buf_str((struct buf *)headers);
	enum otlp_coding coding = strstr(text, "encoding: gzip\n") || strstr(text, "encoding: gzip\r\n")
					  ? OTLP_GZIP
				  : strstr(text, "encoding: zstd\n") ? OTLP_ZSTD
								     : OTLP_IDENTITY;

	if (coding != OTLP_IDENTITY && otlp_decompress(coding, data, len, &plain) >= 0) {
		data = plain.data;
		len = plain.len;
	}
	pthread_mutex_lock(&m->lock);
	buf_append(&m->bodies, data, len);
	buf_clear(&m->headers);
	buf_append(&m->headers, headers->data, headers->len);
	pthread_mutex_unlock(&m->lock);
}

static struct h2_reply decide(void *data, unsigned request)
{
	struct mock_collector *m = data;

	(void)request;
	return m->decide(m->data, atomic_load(&m->n_requests));
}

static void serve_h2(struct mock_collector *m, struct peer *p)
{
	struct h2_server s = {.decide = decide, .data = m};
	uint8_t bytes[16384];
	const uint8_t *out;
	unsigned seen = 0;
	ssize_t n;
	size_t len;

	h2_server_open(&s);
	for (;;) {
		while ((len = h2_server_take(&s, &out)))
			if (peer_write(p, out, len) != (ssize_t)len)
				goto end;
		if (!nghttp2_session_want_read(s.h2) || !peer_wait(m, p))
			break;
		n = peer_read(p, bytes, sizeof bytes);
		if (n <= 0 || h2_server_feed(&s, bytes, (size_t)n) < 0)
			break;
		if (s.n_requests > seen && (s.body.len >= 5 || s.reply.early)) {
			const uint8_t *b = s.body.data;
			uint32_t want = s.body.len < 5 ? 0
						       : (uint32_t)b[1] << 24 | (uint32_t)b[2] << 16 |
								 (uint32_t)b[3] << 8 | b[4];

			if (s.body.len == want + 5u) {
				if (!s.reply.reset && !s.reply.goaway_unprocessed && !s.cut)
					keep_body(m, &s.headers, b + 5, want);
				atomic_fetch_add(&m->n_requests, 1);
				seen = s.n_requests;
			}
		}
		if (s.cut)
			break;
	}
end:
	h2_server_close(&s);
}

static void serve_http(struct mock_collector *m, struct peer *p)
{
	_cleanup_buf_ struct buf in = {0};
	uint8_t bytes[16384];

	while (peer_wait(m, p)) {
		ssize_t n = peer_read(p, bytes, sizeof bytes);
		const char *end, *length;
		size_t body;

		if (n <= 0 || buf_append(&in, bytes, (size_t)n) < 0)
			return;
		end = strstr(buf_str(&in), "\r\n\r\n");
		length = end ? strcasestr(buf_str(&in), "content-length:") : NULL;
		if (!length)
			continue;
		body = (size_t)(end + 4 - (const char *)in.data);
		if (in.len - body < strtoul(length + 15, NULL, 10))
			continue;
		const struct buf headers = {.data = in.data, .len = body, .cap = in.cap};
		_cleanup_buf_ struct buf copy = {0};
		buf_append(&copy, headers.data, headers.len);
		keep_body(m, &copy, in.data + body, in.len - body);
		atomic_fetch_add(&m->n_requests, 1);
		peer_write(p, m->http_reply, strlen(m->http_reply));
		buf_clear(&in);
	}
}

static int choose_h2(SSL *ssl, const unsigned char **out, unsigned char *len, const unsigned char *in,
		     unsigned in_len, void *data)
{
	(void)ssl;
	(void)data;
	return SSL_select_next_proto((unsigned char **)out, len, (const unsigned char *)"\2h2", 3, in,
				     in_len) == OPENSSL_NPN_NEGOTIATED
		       ? SSL_TLSEXT_ERR_OK
		       : SSL_TLSEXT_ERR_NOACK;
}

static void serve(struct mock_collector *m, int fd)
{
	struct peer p = {.fd = fd};
	char rest[4096];

	atomic_fetch_add(&m->n_connections, 1);
	if (m->tls) {
		p.ssl = SSL_new(m->tls);
		SSL_set_fd(p.ssl, fd);
		if (SSL_accept(p.ssl) != 1) {
			SSL_free(p.ssl);
			return;
		}
	}
	if (m->http_reply)
		serve_http(m, &p);
	else
		serve_h2(m, &p);
	/*
	 * Closing with unread bytes would reset the connection, and the client would lose what was sent last.
	 */
	shutdown(fd, SHUT_WR);
	SSL_free(p.ssl);
	p.ssl = NULL;
	while (peer_wait(m, &p) && recv(fd, rest, sizeof rest, 0) > 0)
		;
}

static void *run(void *data)
{
	struct mock_collector *m = data;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL); /* OpenSSL writes to sockets that the client has closed */
	for (;;) {
		struct peer listening = {.fd = m->listen_fd};
		int fd;

		if (!peer_wait(m, &listening))
			return NULL;
		fd = accept(m->listen_fd, NULL, NULL);
		if (fd < 0)
			continue;
		serve(m, fd);
		close(fd);
	}
}

static int listen_on(uint16_t *port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons(*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	cr_assert_geq(fd, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

uint16_t mock_free_port(void)
{
	uint16_t port = 0;

	close(listen_on(&port));
	return port;
}

static int bind_unix(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
	return fd;
}

void mock_collector_start(struct mock_collector *m)
{
	m->listen_fd = m->socket ? bind_unix(m->socket) : listen_on(&m->port);
	cr_assert_eq(listen(m->listen_fd, 8), 0);
	m->stop_fd = eventfd(0, EFD_CLOEXEC);
	cr_assert_geq(m->stop_fd, 0);
	pthread_mutex_init(&m->lock, NULL);
	if (m->tls)
		SSL_CTX_set_alpn_select_cb(m->tls, m->http_reply ? NULL : choose_h2, NULL);
	cr_assert_eq(pthread_create(&m->thread, NULL, run, m), 0);
}

void mock_collector_stop(struct mock_collector *m)
{
	eventfd_write(m->stop_fd, 1);
	pthread_join(m->thread, NULL);
	close(m->listen_fd);
	close(m->stop_fd);
	pthread_mutex_destroy(&m->lock);
	buf_fini(&m->bodies);
	buf_fini(&m->headers);
}
