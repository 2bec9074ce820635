// SPDX-License-Identifier: Apache-2.0
/*
 * The way to a Collector behind an HTTP proxy: whether to go through it, and the CONNECT exchange (RFC 9110
 * section 9.3.6) that makes a tunnel of the connection. Pure but for otlp_proxy_tunnel. Rank 1 (otlp).
 *
 * The proxy's address may hold a password: it is in no error text.
 */
#ifndef PROFLET_OTLP_PROXY_H
#define PROFLET_OTLP_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "otlp/endpoint.h"

#define OTLP_PROXY_PORT 80
#define OTLP_PROXY_ANSWER_MAX 16384 /* bytes of the answer's head */

struct otlp_proxy {
	struct otlp_endpoint address; /* host, port, authority */
	char credentials[256];	      /* "USER:PASSWORD", percent-decoded; "" if none. Secret */
};

/*
 * `url` as http_proxy has it: [http://][USER:PASSWORD@]HOST[:PORT]. 0, or -EINVAL with *ret_why, a constant
 * text.
 */
int otlp_proxy_parse(const char *url, struct otlp_proxy *ret, const char **ret_why);
/*
 * Whether `no_proxy` (NULL: empty) has the endpoint: a comma-separated list of host names that match
 * themselves and what is below them (a leading "." or "*." makes no difference), addresses, networks in CIDR
 * form, any of these but the last with ":PORT", or "*". Loopback addresses, localhost and Unix sockets are
 * never behind a proxy.
 */
bool otlp_proxy_bypassed(const struct otlp_endpoint *e, const char *no_proxy);

/* Appends the request for a tunnel. 0, -ENOMEM. */
int otlp_proxy_request(const struct otlp_proxy *p, const struct otlp_endpoint *e, struct buf *out);
/*
 * Looks at what has come of the answer. 0: the tunnel stands, *ret_used bytes were the answer's; -EAGAIN: not
 * all is there; -EPROTO with `why`: refused, or no HTTP.
 */
int otlp_proxy_answer(const char *data, size_t len, size_t *ret_used, char *why, size_t why_size);

/* Makes a tunnel to the endpoint of a connection to the proxy, which does not block. 0; -ETIMEDOUT,
 * -ECANCELED, -ENOMEM; -EPROTO, -ECONNRESET with `why`. Takes nothing off the tunnel. */
int otlp_proxy_tunnel(int fd, const struct otlp_proxy *p, const struct otlp_endpoint *e,
		      uint64_t deadline_mono_ns, int cancel_fd, char *why, size_t why_size);

#endif
