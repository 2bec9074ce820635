// SPDX-License-Identifier: Apache-2.0
#include "otlp/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <openssl/evp.h>

#include "agent/base/parse.h"
#include "otlp/wait.h"

static const char why_https[] = "the proxy's address is https, only http:// is supported";
static const char why_credentials[] = "the proxy's user name and password are too long or wrongly encoded";
static const char why_address[] = "the proxy's address is no [http://][USER:PASSWORD@]HOST[:PORT]";

static int refuse(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -EINVAL;
}

/* HOST[:PORT] or [ADDRESS][:PORT] */
static bool has_port(const char *s)
{
	const char *bracket = strchr(s, ']');

	return strchr(bracket ? bracket : s, ':') != NULL;
}

int otlp_proxy_parse(const char *url, struct otlp_proxy *ret, const char **ret_why)
{
	struct otlp_proxy p = {0};
	char text[sizeof p.address.host + 32];
	const char *at, *why;
	size_t len;

	if (!strncasecmp(url, "https://", 8))
		return refuse(ret_why, why_https);
	if (!strncasecmp(url, "http://", 7))
		url += 7;
	len = strcspn(url, "/?#");
	at = memrchr(url, '@', len);
	if (at) {
		if ((size_t)(at - url) >= sizeof p.credentials)
			return refuse(ret_why, why_credentials);
		memcpy(p.credentials, url, (size_t)(at - url));
		if (parse_percent_decode(p.credentials) < 0)
			return refuse(ret_why, why_credentials);
		len -= (size_t)(at + 1 - url);
		url = at + 1;
	}
	if (snprintf(text, sizeof text, "http://%.*s", (int)(len < sizeof text ? len : sizeof text), url) >=
		    (int)sizeof text ||
	    otlp_endpoint_parse(text, OTLP_GRPC, &p.address, &why) < 0)
		return refuse(ret_why, why_address);
	if (!has_port(text + strlen("http://"))) {
		p.address.port = OTLP_PROXY_PORT;
		snprintf(p.address.authority, sizeof p.address.authority,
			 p.address.ipv6 ? "[%s]:%u" : "%s:%u", p.address.host, p.address.port);
	}
	*ret = p;
	return 0;
}

struct address {
	int family; /* AF_UNSPEC: it is a name */
	unsigned bits;
	uint8_t bytes[16];
};

static struct address address_of(const char *text)
{
	struct address a = {.family = AF_INET, .bits = 32};

	if (inet_pton(AF_INET, text, a.bytes) == 1)
		return a;
	a.family = AF_INET6;
	a.bits = 128;
	if (inet_pton(AF_INET6, text, a.bytes) == 1)
		return a;
	return (struct address){.family = AF_UNSPEC};
}

static bool same_prefix(const struct address *a, const struct address *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	return a->family == b->family && bits <= a->bits && !memcmp(a->bytes, b->bytes, whole) &&
	       (!rest || !((a->bytes[whole] ^ b->bytes[whole]) >> (8 - rest)));
}

static bool is_loopback(const struct otlp_endpoint *e, const struct address *a)
{
	static const uint8_t one[16] = {[15] = 1};

	if (a->family == AF_INET)
		return a->bytes[0] == 127;
	if (a->family == AF_INET6)
		return !memcmp(a->bytes, one, sizeof one);
	return !strcasecmp(e->host, "localhost");
}

/* Whether `host` is the name, or a name below it. */
static bool is_below(const char *host, const char *name)
{
	size_t n = strlen(host), m = strlen(name);

	return m && n >= m && !strcasecmp(host + n - m, name) && (n == m || host[n - m - 1] == '.');
}

/* Whether one entry of the list matches; may change the text of the entry. */
static bool entry_has(char *entry, const struct otlp_endpoint *e, const struct address *host)
{
	char *slash = strchr(entry, '/'), *colon, *end;
	struct address a;
	size_t n;

	if (!strcmp(entry, "*"))
		return true;
	if (slash) {
		unsigned long bits = strtoul(slash + 1, &end, 10);

		*slash = '\0';
		a = address_of(entry);
		return a.family && slash[1] >= '0' && slash[1] <= '9' && !*end && bits <= a.bits &&
		       same_prefix(&a, host, (unsigned)bits);
	}
	n = strlen(entry);
	if (entry[0] == '[' && (end = strchr(entry, ']'))) {
		if (end[1] && (end[1] != ':' || strtoul(end + 2, NULL, 10) != e->port))
			return false;
		*end = '\0';
		entry++;
	} else if ((colon = memchr(entry, ':', n)) && colon == memrchr(entry, ':', n)) {
		if (strtoul(colon + 1, NULL, 10) != e->port)
			return false;
		*colon = '\0';
	}
	a = address_of(entry);
	if (a.family || host->family)
		return a.family && host->family && same_prefix(&a, host, a.bits);
	return is_below(e->host, entry + (entry[0] == '*' && entry[1] == '.' ? 2 : entry[0] == '.'));
}

bool otlp_proxy_bypassed(const struct otlp_endpoint *e, const char *no_proxy)
{
	struct address host = address_of(e->host);

	if (e->socket[0] || is_loopback(e, &host))
		return true;
	for (const char *s = no_proxy; s && *s;) {
		size_t len = strcspn(s, ", \t");
		char entry[300];

		if (len && len < sizeof entry) {
			memcpy(entry, s, len);
			entry[len] = '\0';
			if (entry_has(entry, e, &host))
				return true;
		}
		s += len + (s[len] != '\0');
	}
	return false;
}

int otlp_proxy_request(const struct otlp_proxy *p, const struct otlp_endpoint *e, struct buf *out)
{
	char coded[sizeof p->credentials * 4 / 3 + 8];
	int r = buf_printf(out, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", e->authority, e->authority);

	if (r == 0 && p->credentials[0]) {
		EVP_EncodeBlock((unsigned char *)coded, (const unsigned char *)p->credentials,
				(int)strlen(p->credentials));
		r = buf_printf(out, "Proxy-Authorization: Basic %s\r\n", coded);
		explicit_bzero(coded, sizeof coded);
	}
	return r < 0 ? r : buf_puts(out, "\r\n");
}

int otlp_proxy_answer(const char *data, size_t len, size_t *ret_used, char *why, size_t why_size)
{
	static const char start[] = "HTTP/1.";
	const char *end = memmem(data, len, "\r\n\r\n", 4);
	size_t n = len < sizeof start - 1 ? len : sizeof start - 1;

	if (memcmp(data, start, n)) {
		snprintf(why, why_size, "the proxy's answer is no HTTP");
		return -EPROTO;
	}
	if (!end) {
		if (len < OTLP_PROXY_ANSWER_MAX)
			return -EAGAIN;
		snprintf(why, why_size, "the proxy's answer has no end");
		return -EPROTO;
	}
	if (end - data < 12 || data[8] != ' ' || data[9] != '2') {
		snprintf(why, why_size, "the proxy refuses a tunnel: %.*s",
			 (int)(end - data > 9 ? strcspn(data + 9, "\r\n") : 0), data + 9);
		return -EPROTO;
	}
	*ret_used = (size_t)(end - data) + 4;
	return 0;
}

static int send_all(int fd, const struct buf *b, uint64_t deadline, int cancel_fd)
{
	for (size_t sent = 0; sent < b->len;) {
		ssize_t n = send(fd, b->data + sent, b->len - sent, MSG_NOSIGNAL);
		int r;

		if (n > 0) {
			sent += (size_t)n;
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		r = otlp_wait_fd(fd, POLLOUT, deadline, cancel_fd);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Waits until more than `seen` bytes can be read, or the peer has closed the connection. */
static int wait_for_more(int fd, size_t seen, uint64_t deadline, int cancel_fd)
{
	int r = setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &(int){(int)seen + 1}, sizeof(int)) < 0 ? -errno : 0;

	if (r == 0)
		r = otlp_wait_fd(fd, POLLIN, deadline, cancel_fd);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &(int){1}, sizeof(int));
	return r;
}

/* The server may send first once the tunnel exists, so only the bytes of the proxy's answer are consumed. */
static int receive_answer(int fd, uint64_t deadline, int cancel_fd, char *why, size_t why_size)
{
	char data[OTLP_PROXY_ANSWER_MAX];
	size_t used, seen = 0;
	int r;

	for (;;) {
		r = wait_for_more(fd, seen, deadline, cancel_fd);
		if (r < 0)
			return r;
		ssize_t n = recv(fd, data, sizeof data, MSG_PEEK);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n < 0)
			return -errno;
		if ((size_t)n == seen) {
			snprintf(why, why_size, "the proxy closed the connection");
			return -ECONNRESET;
		}
		seen = (size_t)n;
		r = otlp_proxy_answer(data, seen, &used, why, why_size);
		if (r != -EAGAIN)
			break;
	}
	if (r == 0 && recv(fd, data, used, 0) != (ssize_t)used)
		r = -ECONNRESET;
	return r;
}

int otlp_proxy_tunnel(int fd, const struct otlp_proxy *p, const struct otlp_endpoint *e,
		      uint64_t deadline_mono_ns, int cancel_fd, char *why, size_t why_size)
{
	_cleanup_buf_ struct buf request = {0};
	int r = otlp_proxy_request(p, e, &request);

	*why = '\0';
	if (r == 0)
		r = send_all(fd, &request, deadline_mono_ns, cancel_fd);
	if (request.data)
		explicit_bzero(request.data, request.len);
	if (r == 0)
		r = receive_answer(fd, deadline_mono_ns, cancel_fd, why, why_size);
	if (r < 0 && !*why)
		snprintf(why, why_size, "proxy %s: %s", p->address.authority, strerror(-r));
	return r;
}
