// SPDX-License-Identifier: Apache-2.0
#include "agent/delivery/pull_access.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/delivery/http_server.h"

#define SCHEME "Bearer "

enum { UNAUTHORIZED = 401, FORBIDDEN = 403, UNAVAILABLE = 503 };

bool pull_token_is(const char *token, const char *given)
{
	uint8_t a[PULL_TOKEN_MAX] = {0}, b[PULL_TOKEN_MAX] = {0};
	const size_t n = strnlen(token, PULL_TOKEN_MAX + 1), m = strnlen(given, PULL_TOKEN_MAX + 1);
	volatile uint8_t differ = n != m || n > PULL_TOKEN_MAX;

	memcpy(a, token, n > sizeof a ? sizeof a : n);
	memcpy(b, given, m > sizeof b ? sizeof b : m);
	for (size_t i = 0; i < sizeof a; i++)
		differ |= a[i] ^ b[i];
	explicit_bzero(a, sizeof a);
	explicit_bzero(b, sizeof b);
	return !differ;
}

/* What follows the name of a host: nothing, or its port. */
static bool is_end(const char *s)
{
	return *s == '\0' || (*s == ':' && s[1] && s[1 + strspn(s + 1, "0123456789")] == '\0');
}

/*
 * A name that means this machine everywhere. A page in a browser on this machine can only name another one,
 * even if its name server says that it is here.
 */
static bool is_local_host(const char *host)
{
	if (!*host) /* no browser */
		return true;
	if (strncasecmp(host, "localhost", 9) == 0)
		return is_end(host + 9);
	if (strncmp(host, "[::1]", 5) == 0)
		return is_end(host + 5);
	return strncmp(host, "127.", 4) == 0 && is_end(host + strspn(host, "0123456789."));
}

static unsigned check_token(const char *file, const char *authorization, struct buf *why)
{
	_cleanup_buf_ struct buf token = {0};
	unsigned status = UNAUTHORIZED;
	int r = fs_read_file(file, PULL_TOKEN_MAX, &token);

	while (token.len && token.data[token.len - 1] <= ' ')
		token.len--;
	if (r < 0 || token.len < PULL_TOKEN_MIN) {
		(void)buf_printf(why, "listen_token_file: %s\n",
				 r < 0 ? strerror(-r) : "it has no token of at least 16 bytes");
		status = UNAVAILABLE;
	} else if (authorization && strncasecmp(authorization, SCHEME, strlen(SCHEME)) == 0 &&
		   pull_token_is(buf_str(&token), authorization + strlen(SCHEME))) {
		status = 0;
	} else {
		(void)buf_puts(why, "profiles need the token of listen_token_file: "
				    "Authorization: Bearer TOKEN\n");
	}
	if (token.data)
		explicit_bzero(token.data, token.cap);
	return status;
}

unsigned pull_access(const struct http_request *r, const char *token_file, struct buf *why)
{
	if (token_file)
		return check_token(token_file, r->authorization, why);
	if (r->from_loopback && is_local_host(r->host))
		return 0;
	(void)buf_puts(why, "without listen_token_file, profiles are for clients on this machine, "
			    "at localhost\n");
	return FORBIDDEN;
}
