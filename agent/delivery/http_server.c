// SPDX-License-Identifier: Apache-2.0
#include "agent/delivery/http_server.h"

#include <curl/curl.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
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

/* Closed connections count for the library until it has run. */
#define LIBRARY_CONNECTIONS_MAX HTTP_SERVER_REQUESTS_MAX
#define BACKLOG 64
#define CONNECTION_MEMORY (16u << 10)
/* What a peer does not take is ours, and ends at the deadline; the kernel would keep it for longer. */
#define SEND_BUFFER (16 << 10)
#define TICK_NS (NS_PER_SEC / 4)
#define PER_TICK_MAX (HTTP_SERVER_PER_SECOND_MAX * TICK_NS / NS_PER_SEC)
#define HOST_MAX 256u
#define PROBE_BYTES 4096u
#define PROBE_MS 1000L

DEFINE_CLEANUP(struct addrinfo *, freeaddrinfo)

/* Who is at the other end: the whole address, but of IPv6 only the network, which one host may have. */
struct peer {
	sa_family_t family;
	uint8_t bytes[8];
};

struct connection {
	int fd;		   /* of the library; -1: the slot is free */
	uint64_t since_ns; /* when it was accepted, its request was complete, or its answer was made */
	bool closing;	   /* shut down, but not yet closed by the library */
	struct peer peer;
	uint64_t id;		       /* of its request; 0: not complete */
	uint64_t answer_ns;	       /* that its answer may take */
	bool held;		       /* is not closed for a new one */
	struct MHD_Connection *waits;  /* suspended by us until the answer is made; else NULL */
	struct MHD_Response *response; /* made, and not yet queued; owned */
	unsigned status;
};

struct http_server {
	struct MHD_Daemon *daemon;
	struct loop *loop;
	struct loop_source *ready, *timer, *listening;
	int listen_fd;
	struct connection connections[LIBRARY_CONNECTIONS_MAX];
	bool ticking;	       /* the timer runs: while there are connections */
	unsigned accepted_now; /* in this tick */
	uint64_t n_requests;
	struct http_server_stats stats;
	struct http_server_callbacks callbacks;
};

_Static_assert(HTTP_SERVER_HELD_MAX < HTTP_SERVER_PER_ADDRESS_MAX, "one of an address can always be closed");

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
	if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
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

/* --- connections */

static struct peer peer_of(const struct sockaddr_storage *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:a.b.c.d */
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
	struct peer p = {.family = a->ss_family};

	if (a->ss_family == AF_INET) {
		memcpy(p.bytes, &((const struct sockaddr_in *)a)->sin_addr, 4);
	} else if (a->ss_family == AF_INET6 && memcmp(&six->sin6_addr, mapped, sizeof mapped) == 0) {
		p.family = AF_INET;
		memcpy(p.bytes, six->sin6_addr.s6_addr + sizeof mapped, 4);
	} else if (a->ss_family == AF_INET6) {
		memcpy(p.bytes, &six->sin6_addr, sizeof p.bytes);
	}
	return p;
}

static bool is_loopback(const struct peer *p)
{
	static const uint8_t none[sizeof p->bytes];

	/* of IPv6, ::1 is the only address of its network that a peer can have */
	return p->family == AF_INET    ? p->bytes[0] == 127
	       : p->family == AF_INET6 ? memcmp(p->bytes, none, sizeof none) == 0
				       : false;
}

static bool is_same_peer(const struct peer *a, const struct peer *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static unsigned count_of(const struct http_server *s, const struct peer *p)
{
	unsigned n = 0;

	for (size_t i = 0; i < LIBRARY_CONNECTIONS_MAX; i++) {
		const struct connection *c = &s->connections[i];

		n += c->fd >= 0 && !c->closing && (!p || is_same_peer(&c->peer, p));
	}
	return n;
}

static bool has_connections(const struct http_server *s)
{
	for (size_t i = 0; i < LIBRARY_CONNECTIONS_MAX; i++)
		if (s->connections[i].fd >= 0)
			return true;
	return false;
}

/* The library goes on with the connection when it runs next: it calls on_request again. */
static void resume(struct connection *c)
{
	if (c->waits)
		MHD_resume_connection(c->waits);
	c->waits = NULL;
}

/* The library sees the end of the connection when it runs next, and closes it. */
static void shut(struct connection *c)
{
	c->closing = true;
	(void)shutdown(c->fd, SHUT_RDWR);
	resume(c);
}

/*
 * Closes the connection that has waited longest, of this peer, or of the one with most connections if NULL:
 * one peer cannot push out those of others.
 */
static void evict(struct http_server *s, const struct peer *p)
{
	struct connection *oldest = NULL;
	unsigned most = 0;

	for (size_t i = 0; i < LIBRARY_CONNECTIONS_MAX; i++) {
		struct connection *c = &s->connections[i];
		unsigned n;

		if (c->fd < 0 || c->closing || c->held || (p && !is_same_peer(&c->peer, p)))
			continue;
		n = count_of(s, &c->peer);
		if (n < most || (n == most && oldest && oldest->since_ns <= c->since_ns))
			continue;
		most = n;
		oldest = c;
	}
	if (!oldest)
		return;
	shut(oldest);
	s->stats.evicted++;
}

static struct connection *slot_of(struct http_server *s, int fd)
{
	for (size_t i = 0; i < LIBRARY_CONNECTIONS_MAX; i++)
		if (s->connections[i].fd == fd)
			return &s->connections[i];
	return NULL;
}

static struct connection *connection_of(struct http_server *s, struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? slot_of(s, info->connect_fd) : NULL;
}

/* Called by the library before it closes the descriptor. */
static void on_connection(void *data, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct http_server *s = data;
	struct connection *slot;
	uint64_t id;

	(void)context;
	if (code != MHD_CONNECTION_NOTIFY_CLOSED)
		return;
	slot = connection_of(s, c);
	if (!slot)
		return;
	if (slot->response)
		MHD_destroy_response(slot->response);
	id = slot->id;
	*slot = (struct connection){.fd = -1};
	if (id && s->callbacks.closed)
		s->callbacks.closed(id, s->callbacks.data);
}

/* Makes room, and hands the socket to the library, which owns it then, also when it fails. */
static void take(struct http_server *s, int fd, const struct sockaddr_storage *address, socklen_t len)
{
	const struct peer peer = peer_of(address);
	const int send_buffer = SEND_BUFFER;
	struct connection *slot;

	if (count_of(s, &peer) >= HTTP_SERVER_PER_ADDRESS_MAX)
		evict(s, &peer);
	else if (count_of(s, NULL) >= HTTP_SERVER_CONNECTIONS_MAX)
		evict(s, NULL);
	slot = slot_of(s, -1);
	if (!slot) { /* the library has not run for as many connections as there may be */
		close(fd);
		return;
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
	*slot = (struct connection){.fd = fd, .since_ns = clock_mono_ns(), .peer = peer};
	if (MHD_add_connection(s->daemon, fd, (const struct sockaddr *)address, len) != MHD_YES)
		slot->fd = -1;
	s->stats.accepted++;
}

static void set_ticking(struct http_server *s, bool on)
{
	const uint64_t period_ns = on ? TICK_NS : 0;

	if (s->ticking != on && loop_set_timer(s->timer, period_ns, period_ns) == 0)
		s->ticking = on;
}

static int on_connect(int listen_fd, uint32_t events, void *data)
{
	struct http_server *s = data;

	(void)events;
	set_ticking(s, true);
	for (unsigned i = 0; i < HTTP_SERVER_CONNECTIONS_MAX; i++) {
		struct sockaddr_storage address = {0};
		socklen_t len = sizeof address;
		int fd;

		if (s->accepted_now >= PER_TICK_MAX) { /* the others wait in the backlog */
			(void)loop_set_events(s->listening, 0);
			s->stats.paused++;
			break;
		}
		fd = accept4(listen_fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			break;
		s->accepted_now++;
		take(s, fd, &address, len);
	}
	(void)MHD_run(s->daemon);
	return 0;
}

/* --- requests */

static struct MHD_Response *make_response(const struct buf *body, const char *type)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_MUST_COPY);

	if (!r)
		return NULL;
	(void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	(void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
	return r;
}

static enum MHD_Result refuse_method(struct MHD_Connection *c)
{
	_cleanup_buf_ struct buf body = {0};
	struct MHD_Response *r = NULL;
	enum MHD_Result result = MHD_NO;

	if (buf_puts(&body, "GET and HEAD only\n") == 0)
		r = make_response(&body, HTTP_SERVER_TEXT);
	if (!r)
		return MHD_NO;
	(void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(c, MHD_HTTP_METHOD_NOT_ALLOWED, r);
	MHD_destroy_response(r);
	return result;
}

static enum MHD_Result queue_answer(struct MHD_Connection *c, struct connection *slot)
{
	enum MHD_Result result = MHD_queue_response(c, slot->status, slot->response);

	MHD_destroy_response(slot->response);
	slot->response = NULL;
	return result;
}

static const char *header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static enum MHD_Result add_parameter(void *data, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct http_request *r = data;

	(void)kind;
	r->has_more = r->n_parameters == HTTP_SERVER_PARAMETERS_MAX;
	if (r->has_more)
		return MHD_NO;
	r->parameters[r->n_parameters++] = (struct http_parameter){name, value ? value : ""};
	return MHD_YES;
}

/* Hands the request over, and has the library leave the connection alone until it is answered. */
static void hand_over(struct http_server *s, struct MHD_Connection *c, struct connection *slot,
		      const char *path)
{
	struct http_request r = {
		.id = ++s->n_requests,
		.path = path,
		.accept = header(c, MHD_HTTP_HEADER_ACCEPT) ?: "",
		.host = header(c, MHD_HTTP_HEADER_HOST) ?: "",
		.authorization = header(c, MHD_HTTP_HEADER_AUTHORIZATION),
		.from_loopback = is_loopback(&slot->peer),
	};

	(void)MHD_get_connection_values(c, MHD_GET_ARGUMENT_KIND, add_parameter, &r);
	slot->since_ns = clock_mono_ns();
	slot->id = r.id;
	slot->answer_ns = HTTP_SERVER_ANSWER_NS;
	slot->waits = c;
	MHD_suspend_connection(c);
	s->callbacks.request(&r, s->callbacks.data);
}

/* Called for the headers, when the request is complete, and when a suspended connection is resumed. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *c, const char *path, const char *method,
				  const char *version, const char *upload, size_t *upload_bytes, void **seen)
{
	struct http_server *s = data;
	struct connection *slot = connection_of(s, c);

	(void)version;
	(void)upload;
	if (!slot || slot->closing)
		return MHD_NO;
	if (!*seen || *upload_bytes) {
		*seen = s;
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return refuse_method(c);
	if (slot->response)
		return queue_answer(c, slot);
	if (slot->id)
		return MHD_NO; /* resumed without an answer: there was no memory for it */
	hand_over(s, c, slot, path);
	return MHD_YES;
}

static struct connection *waiting(struct http_server *s, uint64_t id)
{
	for (size_t i = 0; i < LIBRARY_CONNECTIONS_MAX; i++)
		if (s->connections[i].waits && s->connections[i].id == id)
			return &s->connections[i];
	return NULL;
}

bool http_server_hold(struct http_server *s, uint64_t id, uint64_t wait_ns)
{
	struct connection *slot = waiting(s, id);
	unsigned n = 0;

	for (size_t i = 0; i < LIBRARY_CONNECTIONS_MAX; i++)
		n += s->connections[i].held;
	if (!slot || n >= HTTP_SERVER_HELD_MAX)
		return false;
	slot->held = true;
	slot->answer_ns = wait_ns;
	return true;
}

static void answer(struct connection *slot, unsigned status, const struct buf *body, const char *type)
{
	slot->response = make_response(body, type);
	if (slot->response && status == MHD_HTTP_UNAUTHORIZED)
		(void)MHD_add_response_header(slot->response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
	slot->status = status;
	slot->since_ns = clock_mono_ns();
	resume(slot);
}

void http_server_answer(struct http_server *s, uint64_t id, unsigned status, const struct buf *body,
			const char *content_type)
{
	_cleanup_buf_ struct buf not_found = {0};
	struct connection *slot;

	if (status == MHD_HTTP_NOT_FOUND && !body->len && buf_puts(&not_found, "not found\n") == 0)
		body = &not_found;
	slot = waiting(s, id);
	if (slot)
		answer(slot, status, body, content_type);
}

static int on_ready(int fd, uint32_t events, void *data)
{
	struct http_server *s = data;

	(void)fd;
	(void)events;
	(void)MHD_run(s->daemon);
	return 0;
}

static bool is_late(const struct connection *c, uint64_t now_ns)
{
	const uint64_t taking_ns = c->held ? HTTP_SERVER_HELD_DEADLINE_NS : HTTP_SERVER_DEADLINE_NS;

	return now_ns - c->since_ns >= (c->waits ? c->answer_ns : taking_ns);
}

/* The library does not look at a connection that is suspended. */
static bool is_left(const struct connection *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};

	return c->waits && poll(&p, 1, 0) > 0;
}

/* Closes connections at their deadline, whatever arrives on them, and those that the peer has left. */
static int on_timer(uint64_t expirations, void *data)
{
	const uint64_t now = clock_mono_ns();
	struct http_server *s = data;

	(void)expirations;
	for (size_t i = 0; i < LIBRARY_CONNECTIONS_MAX; i++) {
		struct connection *c = &s->connections[i];

		if (c->fd < 0 || c->closing)
			continue;
		if (is_late(c, now))
			s->stats.late++;
		else if (!is_left(c))
			continue;
		shut(c);
	}
	if (s->accepted_now >= PER_TICK_MAX)
		(void)loop_set_events(s->listening, EPOLLIN);
	s->accepted_now = 0;
	(void)on_ready(-1, 0, data);
	set_ticking(s, has_connections(s));
	return 0;
}

static int start(struct http_server *s, const char *listen)
{
	struct MHD_OptionItem options[] = {
		{MHD_OPTION_CONNECTION_LIMIT, LIBRARY_CONNECTIONS_MAX, NULL},
		{MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY, NULL},
		{MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)on_connection, s},
		{MHD_OPTION_END, 0, NULL},
	};
	const union MHD_DaemonInfo *info;
	int r;

	s->listen_fd = listen_at(listen);
	if (s->listen_fd < 0)
		return s->listen_fd;
	s->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0,
				     NULL, NULL, on_request, s, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
	if (!s->daemon)
		return -ENOMEM;
	info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	if (!info)
		return -ENOTSUP;
	r = loop_add_fd(s->loop, info->epoll_fd, EPOLLIN, on_ready, s, &s->ready);
	if (r == 0)
		r = loop_add_fd(s->loop, s->listen_fd, EPOLLIN, on_connect, s, &s->listening);
	if (r == 0)
		r = loop_add_timer(s->loop, 0, 0, on_timer, s, &s->timer);
	return r;
}

int http_server_new(struct http_server **ret, struct loop *loop, const char *listen,
		    const struct http_server_callbacks *callbacks, char **ret_why)
{
	struct http_server *s = malloc(sizeof *s);
	int r;

	*ret_why = NULL;
	if (!s)
		return -ENOMEM;
	*s = (struct http_server){.loop = loop, .listen_fd = -1, .callbacks = *callbacks};
	for (size_t i = 0; i < LIBRARY_CONNECTIONS_MAX; i++)
		s->connections[i].fd = -1;
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

void http_server_stats(const struct http_server *s, struct http_server_stats *ret)
{
	*ret = s->stats;
}

static size_t on_page(char *bytes, size_t size, size_t n, void *data)
{
	return buf_append(data, bytes, size * n) < 0 ? 0 : size * n;
}

int http_page_get(const char *listen, const char *path, struct buf *ret)
{
	_cleanup_buf_ struct buf url = {0};
	CURL *c = curl_easy_init();
	CURLcode r;

	if (!c || buf_printf(&url, "http://%s%s%s", *listen == ':' ? "localhost" : "", listen, path) < 0) {
		curl_easy_cleanup(c);
		return -ENOMEM;
	}
	curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
	curl_easy_setopt(c, CURLOPT_URL, buf_str(&url));
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, PROBE_MS);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_page);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, ret);
	r = curl_easy_perform(c);
	curl_easy_cleanup(c);
	return r == CURLE_OK			? 0
	       : r == CURLE_HTTP_RETURNED_ERROR ? -ENOENT
	       : r == CURLE_COULDNT_CONNECT	? -ECONNREFUSED
	       : r == CURLE_OPERATION_TIMEDOUT	? -ETIMEDOUT
						: -EIO;
}

/* Whether an agent answers there: its root page lists the other pages. */
static bool is_agent(const char *listen)
{
	_cleanup_buf_ struct buf page = {.max = PROBE_BYTES};

	return http_page_get(listen, "/", &page) == 0 && strstr(buf_str(&page), "/debug/state\n");
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
	loop_remove(s->listening);
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	for (size_t i = 0; i < LIBRARY_CONNECTIONS_MAX; i++)
		if (s->connections[i].fd >= 0)
			shut(&s->connections[i]); /* the library does not end with suspended connections */
	if (s->daemon) {
		(void)MHD_run(s->daemon);
		MHD_stop_daemon(s->daemon);
	}
	free(s);
}
