// SPDX-License-Identifier: Apache-2.0
/*
 * One Collector, by gRPC or HTTP: sends a request and says what the answer means. Blocking, one thread. Rank
 * 1 (otlp).
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

#define OTLP_TIMEOUT_NS 10000000000ull /* default of one attempt */

struct otlp_client;

/* Copied by otlp_client_new; zero and NULL are the defaults except for `endpoint`. */
struct otlp_client_options {
	const char *endpoint; /* http[s]://HOST[:PORT][/PATH] */
	enum otlp_protocol protocol;
	bool whole_url; /* HTTP: the endpoint is the signal's own URL, append no path */
	const struct otlp_header *headers;
	size_t n_headers;
	/* Borrowed until otlp_client_free: called when that file is not what it was, looked at before each
	 * request. */
	const char *renew_file; /* NULL: the headers stay as they are */
	otlp_headers_renew renew;
	const void *renew_data;
	/* [http://][USER:PASSWORD@]HOST[:PORT] of an HTTP proxy, NULL or "": none; and who is not behind it,
	 * see otlp_proxy_bypassed. */
	const char *proxy, *no_proxy;
	uint64_t timeout_ns; /* of one attempt, connecting included; 0: OTLP_TIMEOUT_NS */
	struct otlp_tls_options tls;
	const char *version; /* for the user agent, "proflet/VERSION"; NULL: without */
};

/* 0, -ENOMEM, or -EINVAL with *ret_why (may be NULL) = a constant text about the endpoint, proxy, TLS files
 * or headers. */
int otlp_client_new(struct otlp_client **ret, const struct otlp_client_options *opt, const char **ret_why);
void otlp_client_free(struct otlp_client *c);

/*
 * Sends the request's bytes in their coding, or, once the server has refused that, in another one, and blocks
 * until there is an answer, the timeout has passed, or cancel_fd
 * (-1: none) is readable. 0 with *ret; -ECANCELED, when *ret only has `unanswered`; -ENOMEM.
 */
int otlp_client_send(struct otlp_client *c, const struct otlp_request *request, int cancel_fd,
		     struct otlp_outcome *ret);
/* Asks the Collector, by a request with nothing in it, whether it takes profiles at all. As above. */
int otlp_client_probe(struct otlp_client *c, int cancel_fd, struct otlp_outcome *ret);

/* Between requests, see otlp_transport_idle. -1: nothing to watch. */
int otlp_client_fd(const struct otlp_client *c, short *ret_events);
void otlp_client_idle(struct otlp_client *c);

const struct otlp_endpoint *otlp_client_endpoint(const struct otlp_client *c); /* borrowed */

DEFINE_CLEANUP(struct otlp_client *, otlp_client_free)
#define _cleanup_client_ _cleanup_(otlp_client_free_p)

#endif
