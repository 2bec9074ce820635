// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/http_server.h"

#include <curl/curl.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/loop.h"

#define CONNECTIONS_MAX 16u
#define CONNECTION_MEMORY (16u << 10)
#define CONNECTION_TIMEOUT_S 10u
#define BODY_MAX (4u << 20)
#define HOST_MAX 256u
#define PROBE_BYTES 4096u
#define PROBE_MS 1000L

DEFINE_CLEANUP(struct addrinfo *, freeaddrinfo)

struct http_server {
	struct MHD_Daemon *daemon;
	struct loop *loop;
	struct loop_source *ready, *timer;
	http_server_fn fn;
	void *data;
};

/* "[::1]:80" → "::1", "80"; ":80" → "", "80" */
static int split(const char *listen, char host[static HOST_MAX], const char **ret_port)
{
	const char *colon = strrchr(listen, ':');
	size_t len = colon ? (size_t)(colon - listen) : HOST_MAX;

	if (len && *listen == '[' && len < HOST_MAX && listen[len - 1] == ']') {
		listen++;
		len -= 2;
	}
	if (len >= HOST_MAX)
		return -EINVAL;
	memcpy(host, listen, len);
	host[len] = '\0';
	*ret_port = colon + 1;
	return 0;
}

static int open_socket(const struct addrinfo *a)
{
	_cleanup_close_ int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, off = 0;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (a->ai_family == AF_INET6) /* [::] is every address, of IPv4 too */
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, CONNECTIONS_MAX) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Listens at the first address that can be bound. IPv6 comes first, because [::] includes IPv4. */
static int listen_at(const char *text)
{
	_cleanup_(freeaddrinfo_p) struct addrinfo *found = NULL;
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	char host[HOST_MAX];
	const char *port;
	int r = split(text, host, &port), fd = -EADDRNOTAVAIL;

	if (r < 0)
		return r;
	r = getaddrinfo(*host ? host : NULL, port, &hints, &found);
	if (r)
		return r == EAI_SYSTEM ? -errno : r == EAI_MEMORY ? -ENOMEM : -EADDRNOTAVAIL;
	for (int six = 1; six >= 0 && fd < 0; six--)
		for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
			if ((a->ai_family == AF_INET6) == six)
				fd = open_socket(a);
	return fd;
}

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, struct buf *body, const char *type)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (!r)
		return MHD_NO;
	(void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return result;
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *c, const char *path, const char *method,
				  const char *version, const char *upload, size_t *upload_bytes, void **seen)
{
	_cleanup_buf_ struct buf body = {.max = BODY_MAX};
	const char *type = HTTP_SERVER_TEXT, *accept;
	struct http_server *s = data;
	unsigned status;

	(void)version;
	(void)upload;
	if (!*seen || *upload_bytes) { /* called again, with no upload, when the request is complete */
		*seen = s;
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
		(void)buf_puts(&body, "GET and HEAD only\n");
		return reply(c, MHD_HTTP_METHOD_NOT_ALLOWED, &body, type);
	}
	accept = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	status = s->fn(path, accept ? accept : "", &body, &type, s->data);
	if (status == MHD_HTTP_NOT_FOUND && !body.len)
		(void)buf_puts(&body, "not found\n");
	return reply(c, status, &body, type);
}

static int on_ready(int fd, uint32_t events, void *data)
{
	struct http_server *s = data;

	(void)fd;
	(void)events;
	(void)MHD_run(s->daemon);
	return 0;
}

/* Lets the daemon close idle connections. */
static int on_timer(uint64_t expirations, void *data)
{
	(void)expirations;
	return on_ready(-1, 0, data);
}

static int start(struct http_server *s, const char *listen)
{
	_cleanup_close_ int fd = listen_at(listen);
	struct MHD_OptionItem options[] = {
		{MHD_OPTION_LISTEN_SOCKET, fd, NULL},
		{MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, NULL},
		{MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, NULL},
		{MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_TIMEOUT_S, NULL},
		{MHD_OPTION_END, 0, NULL},
	};
	const union MHD_DaemonInfo *info;
	int r;

	if (fd < 0)
		return fd;
	s->daemon = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, s, MHD_OPTION_ARRAY, options,
				     MHD_OPTION_END);
	if (!s->daemon)
		return -ENOMEM;
	(void)TAKE_FD(fd); /* the daemon closes it */
	info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOTSUP;
	r = loop_add_fd(s->loop, info->epoll_fd, EPOLLIN, on_ready, s, &s->ready);
	if (r == 0)
		r = loop_add_timer(s->loop, NS_PER_SEC, NS_PER_SEC, on_timer, s, &s->timer);
	return r;
}

int http_server_new(struct http_server **ret, struct loop *loop, const char *listen, http_server_fn fn,
		    void *data, char **ret_why)
{
	struct http_server *s = malloc(sizeof *s);
	int r;

	*ret_why = NULL;
	if (!s)
		return -ENOMEM;
	*s = (struct http_server){.loop = loop, .fn = fn, .data = data};
	r = start(s, listen);
	if (r < 0) {
		http_server_free(s);
		if (asprintf(ret_why, "listen %s: %s", listen, strerror(-r)) < 0)
			*ret_why = NULL;
		return r;
	}
	*ret = s;
	return 0;
}

static size_t on_page(char *bytes, size_t size, size_t n, void *data)
{
	return buf_append(data, bytes, size * n) < 0 ? 0 : size * n;
}

/* Whether an agent answers there: its root page lists the other pages. */
static bool is_agent(const char *listen)
{
	_cleanup_buf_ struct buf page = {.max = PROBE_BYTES}, url = {0};
	CURL *c = curl_easy_init();
	bool got;

	if (!c || buf_printf(&url, "http://%s%s/", *listen == ':' ? "localhost" : "", listen) < 0) {
		curl_easy_cleanup(c);
		return false;
	}
	curl_easy_setopt(c, CURLOPT_URL, buf_str(&url));
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, PROBE_MS);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_page);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, &page);
	got = curl_easy_perform(c) == CURLE_OK && strstr(buf_str(&page), "/debug/state\n");
	curl_easy_cleanup(c);
	return got;
}

int http_server_probe(const char *listen)
{
	_cleanup_close_ int fd = listen_at(listen);

	if (fd >= 0)
		return 0;
	return fd == -EADDRINUSE && is_agent(listen) ? 1 : fd;
}

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	loop_remove(s->ready);
	loop_remove(s->timer);
	if (s->daemon)
		MHD_stop_daemon(s->daemon);
	free(s);
}
