// SPDX-License-Identifier: Apache-2.0
#include "otlp/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "otlp/http.h"
#include "otlp/transport.h"

struct otlp_client {
	struct otlp_endpoint endpoint;
	struct otlp_proxy proxy;
	bool proxied;
	struct otlp_headers headers;
	otlp_headers_renew renew;
	const void *renew_data;
	const char *renew_file;		     /* NULL: none */
	struct stat renewed;		     /* the file as it was then; zeroed while it cannot be had */
	char *ca, *cert, *key, *server_name; /* owned; tls points at them */
	struct otlp_tls_options tls;
	char user_agent[64];
	struct otlp_transport *transport; /* one of the two */
	struct otlp_http *http;
};

static int copy_string(const char *s, char **owned, const char **view)
{
	if (!s)
		return 0;
	*owned = strdup(s);
	*view = *owned;
	return *owned ? 0 : -ENOMEM;
}

static int copy_tls(struct otlp_client *c, const struct otlp_tls_options *tls, const char **ret_why)
{
	if (!tls->cert != !tls->key) {
		*ret_why = "tls.cert and tls.key must be given together";
		return -EINVAL;
	}
	c->tls.insecure = tls->insecure;
	if (copy_string(tls->ca, &c->ca, &c->tls.ca) < 0 ||
	    copy_string(tls->cert, &c->cert, &c->tls.cert) < 0 ||
	    copy_string(tls->key, &c->key, &c->tls.key) < 0 ||
	    copy_string(tls->server_name, &c->server_name, &c->tls.server_name) < 0)
		return -ENOMEM;
	return 0;
}

static int choose_proxy(struct otlp_client *c, const struct otlp_client_options *opt, const char **ret_why)
{
	if (!opt->proxy || !*opt->proxy || otlp_proxy_bypassed(&c->endpoint, opt->no_proxy))
		return 0;
	c->proxied = true;
	return otlp_proxy_parse(opt->proxy, &c->proxy, ret_why);
}

static int connect_layer(struct otlp_client *c, const struct otlp_client_options *opt)
{
	uint64_t timeout_ns = opt->timeout_ns ? opt->timeout_ns : OTLP_TIMEOUT_NS;
	const struct otlp_transport_options grpc = {
		.endpoint = &c->endpoint,
		.tls = &c->tls,
		.headers = &c->headers,
		.proxy = c->proxied ? &c->proxy : NULL,
		.user_agent = c->user_agent,
		.timeout_ns = timeout_ns,
	};
	const struct otlp_http_options http = {
		.endpoint = &c->endpoint,
		.whole_url = opt->whole_url,
		.tls = &c->tls,
		.headers = &c->headers,
		.proxy = c->proxied ? &c->proxy : NULL,
		.user_agent = c->user_agent,
		.timeout_ns = timeout_ns,
	};

	return opt->protocol == OTLP_GRPC ? otlp_transport_new(&c->transport, &grpc)
					  : otlp_http_new(&c->http, &http);
}

static void stat_or_zero(const char *path, struct stat *ret)
{
	if (stat(path, ret) < 0)
		*ret = (struct stat){0};
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void watch_headers(struct otlp_client *c, const struct otlp_client_options *opt)
{
	c->renew = opt->renew;
	c->renew_data = opt->renew_data;
	c->renew_file = opt->renew_file;
}

/* Between requests nobody else holds a pointer to them. The first request reads the file once more: it may
 * have changed since the caller did. */
static void renew_headers(struct otlp_client *c)
{
	struct otlp_headers headers = {0};
	struct stat now;

	if (!c->renew_file)
		return;
	stat_or_zero(c->renew_file, &now);
	if (is_same_file(&now, &c->renewed))
		return;
	c->renewed = now;
	if (c->renew(c->renew_data, &headers) < 0)
		return;
	otlp_headers_fini(&c->headers);
	c->headers = headers;
}

int otlp_client_new(struct otlp_client **ret, const struct otlp_client_options *opt, const char **ret_why)
{
	_cleanup_client_ struct otlp_client *c = calloc(1, sizeof *c);
	const char *why;
	int r;

	if (!ret_why)
		ret_why = &why;
	*ret_why = strerror(ENOMEM);
	if (!c)
		return -ENOMEM;
	r = otlp_endpoint_parse(opt->endpoint, opt->protocol, &c->endpoint, ret_why);
	if (r < 0)
		return r;
	r = choose_proxy(c, opt, ret_why);
	if (r < 0)
		return r;
	watch_headers(c, opt);
	r = otlp_headers_copy(opt->headers, opt->n_headers, &c->headers, NULL);
	if (r < 0) {
		*ret_why = "a header has a name or value that is not allowed, or one that the protocol sets "
			   "itself";
		return r == -ENOMEM ? r : -EINVAL;
	}
	r = copy_tls(c, &opt->tls, ret_why);
	if (r < 0)
		return r;
	snprintf(c->user_agent, sizeof c->user_agent, "proflet%s%s", opt->version ? "/" : "",
		 opt->version ? opt->version : "");
	r = connect_layer(c, opt);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}

void otlp_client_free(struct otlp_client *c)
{
	if (!c)
		return;
	otlp_transport_free(c->transport);
	otlp_http_free(c->http);
	otlp_headers_fini(&c->headers);
	explicit_bzero(&c->proxy, sizeof c->proxy);
	free(c->ca);
	free(c->cert);
	free(c->key);
	free(c->server_name);
	free(c);
}

static int send_bytes(struct otlp_client *c, const void *data, size_t len, enum otlp_coding coding,
		      int cancel_fd, struct otlp_outcome *ret)
{
	struct grpc_result grpc = {0};
	struct http_result http = {0};
	int r;

	renew_headers(c);
	if (c->transport) {
		r = otlp_transport_call(c->transport, data, len, coding, cancel_fd, &grpc);
		if (r >= 0)
			otlp_outcome_of_grpc(&grpc, OTLP_ENDPOINT_NAME(&c->endpoint), ret);
		buf_fini(&grpc.response);
	} else {
		r = otlp_http_post(c->http, data, len, coding, cancel_fd, &http);
		if (r >= 0)
			otlp_outcome_of_http(&http, OTLP_ENDPOINT_NAME(&c->endpoint), ret);
		buf_fini(&http.response);
	}
	return r;
}

int otlp_client_send(struct otlp_client *c, const struct otlp_request *request, int cancel_fd,
		     struct otlp_outcome *ret)
{
	return send_bytes(c, request->data.data, request->data.len, request->coding, cancel_fd, ret);
}

int otlp_client_probe(struct otlp_client *c, int cancel_fd, struct otlp_outcome *ret)
{
	return send_bytes(c, "", 0, OTLP_IDENTITY, cancel_fd, ret);
}

int otlp_client_fd(const struct otlp_client *c, short *ret_events)
{
	return c->transport ? otlp_transport_fd(c->transport, ret_events) : -1;
}

void otlp_client_idle(struct otlp_client *c)
{
	if (c->transport)
		otlp_transport_idle(c->transport);
}

const struct otlp_endpoint *otlp_client_endpoint(const struct otlp_client *c)
{
	return &c->endpoint;
}
