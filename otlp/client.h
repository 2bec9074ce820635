// SPDX-License-Identifier: Apache-2.0
/*
 * Sends requests to one Collector, by gRPC or HTTP, and says what each answer means. Blocking; used by one
 * thread. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_CLIENT_H
#define PROFLET_OTLP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/base/cleanup.h"
#include "otlp/endpoint.h"
#include "otlp/headers.h"
#include "otlp/outcome.h"
#include "otlp/request.h"
#include "otlp/tls.h"

#define OTLP_TIMEOUT_NS 10000000000ull /* default timeout of one attempt */

struct otlp_client;

/* Copied by otlp_client_new; zero and NULL are the defaults except for `endpoint`. */
struct otlp_client_options {
	const char *endpoint; /* http[s]://HOST[:PORT][/PATH] */
	enum otlp_protocol protocol;
	bool whole_url; /* HTTP: the endpoint is the complete URL of the signal, no path is appended */
	const struct otlp_header *headers;
	size_t n_headers;
	/*
	 * Makes the headers anew when the file has changed, which is checked before each request. Borrowed
	 * until otlp_client_free.
	 */
	const char *renew_file; /* NULL: the headers never change */
	otlp_headers_renew renew;
	const void *renew_data;
	/*
	 * Address of an HTTP proxy, [http://][USER:PASSWORD@]HOST[:PORT] (NULL or "": none), and the hosts to
	 * which the proxy does not apply, see otlp_proxy_bypassed.
	 */
	const char *proxy, *no_proxy;
	uint64_t timeout_ns; /* timeout of one attempt, including the connection; 0: OTLP_TIMEOUT_NS */
	struct otlp_tls_options tls;
	const char *version; /* for the user agent, "proflet/VERSION"; NULL: the user agent has no version */
};

/*
 * Creates a client without connecting. 0, -ENOMEM, or -EINVAL with *ret_why (may be NULL) = a constant text
 * about the endpoint, proxy, TLS files or headers.
 */
int otlp_client_new(struct otlp_client **ret, const struct otlp_client_options *opt, const char **ret_why);
void otlp_client_free(struct otlp_client *c);

/*
 * Sends the request in its coding, or in another one once the server has refused that. Blocks until there is
 * an answer, the timeout has passed, or cancel_fd (-1: none) is readable. 0 with *ret; -ECANCELED: of *ret
 * only `unanswered` is set; -ENOMEM.
 */
int otlp_client_send(struct otlp_client *c, const struct otlp_request *request, int cancel_fd,
		     struct otlp_outcome *ret);
/*
 * Sends a request without profiles, to find out whether the Collector accepts profiles at all. Its dictionary
 * is valid, since some backends refuse another one. Results as above.
 */
int otlp_client_probe(struct otlp_client *c, int cancel_fd, struct otlp_outcome *ret);

/*
 * The descriptor to watch between requests, and the function to call when it is readable; see
 * otlp_transport_idle. -1: there is none.
 */
int otlp_client_fd(const struct otlp_client *c, short *ret_events);
void otlp_client_idle(struct otlp_client *c);

const struct otlp_endpoint *otlp_client_endpoint(const struct otlp_client *c); /* borrowed */

DEFINE_CLEANUP(struct otlp_client *, otlp_client_free)
#define _cleanup_client_ _cleanup_(otlp_client_free_p)

#endif
