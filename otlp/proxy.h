// SPDX-License-Identifier: Apache-2.0
/*
 * Connects to a Collector through an HTTP proxy: decides whether the proxy applies, and makes the CONNECT
 * exchange (RFC 9110 section 9.3.6). Pure, except otlp_proxy_tunnel. Rank 1 (otlp).
 *
 * The proxy's address may include a password, which appears in no error text.
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
 * Parses the value of http_proxy: [http://][USER:PASSWORD@]HOST[:PORT]. 0, or -EINVAL with *ret_why, a
 * constant text.
 */
int otlp_proxy_parse(const char *url, struct otlp_proxy *ret, const char **ret_why);
/*
 * Whether `no_proxy` (NULL: empty) excludes the endpoint from the proxy. It is a comma-separated list of host
 * names, which match themselves and the names below them (a leading "." or "*." makes no difference),
 * addresses, networks in CIDR form, names or addresses with ":PORT", or "*". Loopback addresses, localhost
 * and Unix sockets are always excluded.
 */
bool otlp_proxy_bypassed(const struct otlp_endpoint *e, const char *no_proxy);

/* Appends the CONNECT request to `b`. 0, -ENOMEM. */
int otlp_proxy_request(const struct otlp_proxy *p, const struct otlp_endpoint *e, struct buf *out);
/*
 * Parses the answer to the CONNECT request. 0: the tunnel exists, the answer took *ret_used bytes; -EAGAIN:
 * the answer is incomplete; -EPROTO with `why`: the proxy refused, or does not speak HTTP.
 */
int otlp_proxy_answer(const char *data, size_t len, size_t *ret_used, char *why, size_t why_size);

/*
 * Makes a tunnel to the endpoint through a non-blocking connection to the proxy. 0; -ETIMEDOUT, -ECANCELED,
 * -ENOMEM; -EPROTO, -ECONNRESET with `why`. Consumes no byte of the tunnel itself.
 */
int otlp_proxy_tunnel(int fd, const struct otlp_proxy *p, const struct otlp_endpoint *e,
		      uint64_t deadline_mono_ns, int cancel_fd, char *why, size_t why_size);

#endif
