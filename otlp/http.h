// SPDX-License-Identifier: Apache-2.0
/*
 * OTLP over HTTP with protobuf bodies, on libcurl: no redirects, no cookies, one connection, which curl
 * reuses. Used by one thread. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_HTTP_H
#define PROFLET_OTLP_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "otlp/endpoint.h"
#include "otlp/headers.h"
#include "otlp/proxy.h"
#include "otlp/request.h"
#include "otlp/response.h"
#include "otlp/tls.h"

#define OTLP_HTTP_PATH "/v1development/profiles"
#define OTLP_HTTP_RESPONSE_MAX (4u << 20) /* bytes, after decompression */

struct otlp_http;

/* Borrowed until otlp_http_free; the headers may change between requests. */
struct otlp_http_options {
	const struct otlp_endpoint *endpoint;
	bool whole_url; /* the endpoint's path is complete: OTLP_HTTP_PATH is not appended */
	const struct otlp_tls_options *tls;
	const struct otlp_headers *headers;
	const struct otlp_proxy *proxy; /* NULL: connect directly */
	const char *user_agent;
};

struct http_result {
	unsigned status;	   /* 0: no answer, `message` says why */
	bool is_protobuf, is_html; /* the type of the body, from its content-type */
	bool unanswered;	   /* the server may have the whole request, but did not answer */
	enum otlp_failure failure; /* without an answer */
	bool has_delay;
	uint64_t delay_ns; /* Retry-After */
	unsigned codings;  /* Accept-Encoding, see otlp_codings_parse; 0: the server sent none */
	char message[OTLP_TEXT_MAX];
	struct buf response; /* the body, decompressed */
};

int otlp_http_new(struct otlp_http **ret, const struct otlp_http_options *opt); /* 0, -ENOMEM */
void otlp_http_free(struct otlp_http *h);

/*
 * POSTs one body and waits for the answer until the deadline (monotonic), which includes the connection. 0
 * and *ret, whose `response` the caller frees with buf_fini; -ECANCELED: cancel_fd (-1: none) became
 * readable, and of *ret only `unanswered` is set; -ENOMEM.
 */
int otlp_http_post(struct otlp_http *h, const void *data, size_t len, enum otlp_coding coding,
		   uint64_t deadline_mono_ns, int cancel_fd, struct http_result *ret);
/* Call between requests: the next request makes a new connection. 0, -ENOMEM. */
int otlp_http_disconnect(struct otlp_http *h);

DEFINE_CLEANUP(struct otlp_http *, otlp_http_free)
#define _cleanup_http_ _cleanup_(otlp_http_free_p)

#endif
