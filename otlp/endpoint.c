// SPDX-License-Identifier: Apache-2.0
#include "otlp/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char why_scheme[] = "has no scheme; accepted: http://HOST:PORT, https://HOST:PORT or unix:/PATH";
static const char why_socket[] = "has no absolute path of at most 107 bytes behind unix:";
static const char why_host[] = "has no host or one with characters that no host name has";
static const char why_long[] = "is too long";
static const char why_ipv6[] = "has no IPv6 address between [ and ]";
static const char why_port[] = "has a port that is no number from 1 to 65535";
static const char why_user[] = "has a user name in it; give credentials as a header";
static const char why_query[] = "has a query or fragment, which no OTLP endpoint takes";
static const char why_characters[] = "has spaces or control characters in it";
static const char why_path[] = "has a path, which gRPC does not take; http/protobuf does";

static int refuse(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -EINVAL;
}

static bool is_host_character(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
	       c == '.' || c == '_';
}

/* `s` is the text that follows the host or the brackets: "" or ":PORT". */
static int parse_port(const char *s, size_t len, uint16_t *port)
{
	uint32_t value = 0;

	if (!len)
		return 0;
	if (s[0] != ':' || len < 2 || len > 6)
		return -EINVAL;
	for (size_t i = 1; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -EINVAL;
		value = value * 10 + (uint32_t)(s[i] - '0');
	}
	if (!value || value > UINT16_MAX)
		return -EINVAL;
	*port = (uint16_t)value;
	return 0;
}

static int parse_ipv6(const char *s, size_t len, struct otlp_endpoint *e, size_t *ret_used,
		      const char **ret_why)
{
	const char *end = memchr(s, ']', len);
	struct in6_addr address;
	size_t n;

	if (!end)
		return refuse(ret_why, why_ipv6);
	n = (size_t)(end - s) - 1;
	if (n >= INET6_ADDRSTRLEN)
		return refuse(ret_why, why_ipv6);
	memcpy(e->host, s + 1, n);
	e->host[n] = '\0';
	if (inet_pton(AF_INET6, e->host, &address) != 1)
		return refuse(ret_why, why_ipv6);
	e->ipv6 = true;
	*ret_used = n + 2;
	return 0;
}

static int parse_name(const char *s, size_t len, struct otlp_endpoint *e, size_t *ret_used,
		      const char **ret_why)
{
	size_t n = 0;

	while (n < len && s[n] != ':') {
		if (!is_host_character(s[n]))
			return refuse(ret_why, why_host);
		n++;
	}
	if (!n)
		return refuse(ret_why, why_host);
	if (n >= sizeof e->host)
		return refuse(ret_why, why_long);
	memcpy(e->host, s, n);
	e->host[n] = '\0';
	*ret_used = n;
	return 0;
}

/* The part between "//" and the path. */
static int parse_authority(const char *s, size_t len, struct otlp_endpoint *e, const char **ret_why)
{
	size_t used = 0;
	int r;

	if (memchr(s, '@', len))
		return refuse(ret_why, why_user);
	if (len && s[0] == '[')
		r = parse_ipv6(s, len, e, &used, ret_why);
	else
		r = parse_name(s, len, e, &used, ret_why);
	if (r < 0)
		return r;
	if (parse_port(s + used, len - used, &e->port) < 0)
		return refuse(ret_why, why_port);
	snprintf(e->authority, sizeof e->authority, e->ipv6 ? "[%s]:%u" : "%s:%u", e->host, e->port);
	return 0;
}

static int parse_path(const char *s, enum otlp_protocol protocol, struct otlp_endpoint *e,
		      const char **ret_why)
{
	if (strchr(s, '?') || strchr(s, '#'))
		return refuse(ret_why, why_query);
	if (!strcmp(s, "/"))
		s = "";
	if (*s && protocol == OTLP_GRPC)
		return refuse(ret_why, why_path);
	if (strlen(s) >= sizeof e->path)
		return refuse(ret_why, why_long);
	memcpy(e->path, s, strlen(s) + 1);
	return 0;
}

/* `s` is the text after "unix:": /PATH or ///PATH, as in gRPC's name syntax. */
static int parse_socket(const char *s, struct otlp_endpoint *ret, const char **ret_why)
{
	struct otlp_endpoint e = {.host = "localhost", .authority = "localhost"};

	if (!strncmp(s, "//", 2))
		s += 2;
	/* More slashes name the same file, but "unix:" and such a path would parse differently. */
	while (s[0] == '/' && s[1] == '/')
		s++;
	if (*s != '/' || !s[1] || strlen(s) >= sizeof e.socket)
		return refuse(ret_why, why_socket);
	memcpy(e.socket, s, strlen(s) + 1);
	*ret = e;
	return 0;
}

int otlp_endpoint_parse(const char *url, enum otlp_protocol protocol, struct otlp_endpoint *ret,
			const char **ret_why)
{
	struct otlp_endpoint e = {.port = protocol == OTLP_GRPC ? OTLP_GRPC_PORT : OTLP_HTTP_PORT};
	size_t len;
	int r;

	for (const char *c = url; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			return refuse(ret_why, why_characters);
	if (!strncasecmp(url, "unix:", 5))
		return parse_socket(url + 5, ret, ret_why);
	if (!strncasecmp(url, "https://", 8))
		e.tls = true;
	else if (strncasecmp(url, "http://", 7))
		return refuse(ret_why, why_scheme);
	url += e.tls ? 8 : 7;
	len = strcspn(url, "/?#");
	r = parse_authority(url, len, &e, ret_why);
	if (r < 0)
		return r;
	r = parse_path(url + len, protocol, &e, ret_why);
	if (r < 0)
		return r;
	*ret = e;
	return 0;
}
