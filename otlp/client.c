// SPDX-License-Identifier: Apache-2.0
#include "otlp/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/evp.h>

#include "agent/base/clock.h"
#include "otlp/compress.h"
#include "otlp/http.h"
#include "otlp/mask.h"
#include "otlp/transport.h"

#define RECODE_RAW_MAX (64u << 20) /* maximum size of a decoded request, as of the spool */

struct otlp_client {
	struct otlp_endpoint endpoint;
	struct otlp_proxy proxy;
	bool proxied;
	struct otlp_headers headers;
	otlp_headers_renew renew;
	const void *renew_data;
	const char *renew_file; /* NULL: none */
	/* The file when the headers were last made from it; zeroed while it cannot be read. */
	struct stat renewed;
	struct stat certified[3];	     /* tls.ca, cert and key when the connection was made; the same */
	char *ca, *cert, *key, *server_name; /* owned; tls points to them */
	struct otlp_tls_options tls;
	/* The coding to use instead of one that the server refuses; itself: not refused. */
	enum otlp_coding coding_instead[OTLP_N_CODINGS];
	char user_agent[64];
	uint64_t timeout_ns;
	struct otlp_transport *transport; /* one of the two, by protocol */
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
	const struct otlp_transport_options grpc = {
		.endpoint = &c->endpoint,
		.tls = &c->tls,
		.headers = &c->headers,
		.proxy = c->proxied ? &c->proxy : NULL,
		.user_agent = c->user_agent,
	};
	const struct otlp_http_options http = {
		.endpoint = &c->endpoint,
		.whole_url = opt->whole_url,
		.tls = &c->tls,
		.headers = &c->headers,
		.proxy = c->proxied ? &c->proxy : NULL,
		.user_agent = c->user_agent,
	};

	c->timeout_ns = opt->timeout_ns ? opt->timeout_ns : OTLP_TIMEOUT_NS;
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

/*
 * Between requests nobody else has a pointer to the headers. The first request reads the file once more,
 * because it may have changed since the caller read it.
 */
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

/*
 * Certificates are read when a connection is made, and a connection may live for days. When the files have
 * changed since, the connection is closed and a new one made. While a file cannot be read, or none has been
 * read yet, the connection stays.
 */
static int renew_certificates(struct otlp_client *c)
{
	const char *const files[] = {c->tls.ca, c->tls.cert, c->tls.key};
	bool changed = false;
	struct stat now;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (!files[i] || stat(files[i], &now) < 0 || is_same_file(&now, &c->certified[i]))
			continue;
		changed |= c->certified[i].st_ino != 0;
		c->certified[i] = now;
	}
	if (!changed)
		return 0;
	if (c->http)
		return otlp_http_disconnect(c->http);
	otlp_transport_disconnect(c->transport);
	return 0;
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
	for (unsigned i = 0; i < OTLP_N_CODINGS; i++)
		c->coding_instead[i] = (enum otlp_coding)i;
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

/* Servers and proxies often quote what they did not accept, secrets included. */
static void mask_secrets(const struct otlp_client *c, char *text)
{
	const char *colon = strchr(c->proxy.credentials, ':');
	char coded[2 * sizeof c->proxy.credentials];

	otlp_mask_headers(text, &c->headers);
	if (!c->proxied || !c->proxy.credentials[0])
		return;
	EVP_EncodeBlock((unsigned char *)coded, (const unsigned char *)c->proxy.credentials,
			(int)strlen(c->proxy.credentials));
	otlp_mask(text, c->proxy.credentials);
	otlp_mask(text, coded);
	if (colon)
		otlp_mask(text, colon + 1);
	explicit_bzero(coded, sizeof coded);
}

/* When an attempt ends, and what ends it before. */
struct limits {
	uint64_t deadline; /* monotonic */
	int cancel_fd;
};

static struct limits limits_from_now(const struct otlp_client *c, int cancel_fd)
{
	return (struct limits){clock_mono_ns() + c->timeout_ns, cancel_fd};
}

static int send_bytes(struct otlp_client *c, const void *data, size_t len, enum otlp_coding coding,
		      const struct limits *limits, struct otlp_outcome *ret)
{
	struct grpc_result grpc = {0};
	struct http_result http = {0};
	int r;

	renew_headers(c);
	r = renew_certificates(c);
	if (r < 0)
		return r;
	if (c->transport) {
		r = otlp_transport_call(c->transport, data, len, coding, limits->deadline, limits->cancel_fd,
					&grpc);
		if (r >= 0)
			otlp_outcome_of_grpc(&grpc, OTLP_ENDPOINT_NAME(&c->endpoint), ret);
		else
			*ret = (struct otlp_outcome){.unanswered = grpc.unanswered};
		buf_fini(&grpc.response);
	} else {
		r = otlp_http_post(c->http, data, len, coding, limits->deadline, limits->cancel_fd, &http);
		if (r >= 0)
			otlp_outcome_of_http(&http, OTLP_ENDPOINT_NAME(&c->endpoint), ret);
		else
			*ret = (struct otlp_outcome){.unanswered = http.unanswered};
		buf_fini(&http.response);
	}
	if (r >= 0)
		mask_secrets(c, ret->text);
	return r;
}

/*
 * Whether the server refused the coding: it says so, or the list of codings in its answer lacks this one.
 * Some servers take compressed bytes for the message itself and cannot parse it. Without a list, that is
 * likely for zstd.
 */
static bool refuses(const struct otlp_outcome *o, enum otlp_coding coding)
{
	if (coding == OTLP_IDENTITY || o->verdict == OTLP_ACCEPTED)
		return false;
	if (o->coding_refused)
		return true;
	if (o->grpc_status == GRPC_INTERNAL && !o->codings)
		return coding == OTLP_ZSTD;
	return (o->grpc_status == GRPC_UNIMPLEMENTED || o->grpc_status == GRPC_INTERNAL) && o->codings &&
	       !(o->codings & 1u << coding);
}

/* Another coding than the one that was refused: one that the server names, else no compression. */
static enum otlp_coding other_coding(const struct otlp_outcome *o, enum otlp_coding refused)
{
	if (refused != OTLP_GZIP && o->codings & 1u << OTLP_GZIP)
		return OTLP_GZIP;
	return OTLP_IDENTITY;
}

/* Encodes the request's bytes in another coding. Errors as of otlp_compress and otlp_decompress. */
static int recode(const struct otlp_request *request, enum otlp_coding coding, struct buf *ret)
{
	_cleanup_buf_ struct buf raw = {.max = RECODE_RAW_MAX};
	int r = otlp_decompress(request->coding, request->data.data, request->data.len, &raw);

	if (r < 0)
		return r;
	if (coding != OTLP_IDENTITY)
		return otlp_compress(coding, raw.data, raw.len, ret);
	*ret = raw;
	raw = (struct buf){0};
	return 0;
}

static int send_recoded(struct otlp_client *c, const struct otlp_request *request, enum otlp_coding coding,
			const struct limits *limits, struct otlp_outcome *ret)
{
	_cleanup_buf_ struct buf data = {0};
	int r = recode(request, coding, &data);

	if (r < 0) /* the request is sent in its own coding, which the server refuses */
		return send_bytes(c, request->data.data, request->data.len, request->coding, limits, ret);
	return send_bytes(c, data.data, data.len, coding, limits, ret);
}

int otlp_client_send(struct otlp_client *c, const struct otlp_request *request, int cancel_fd,
		     struct otlp_outcome *ret)
{
	const struct limits limits = limits_from_now(c, cancel_fd);
	enum otlp_coding coding = c->coding_instead[request->coding];
	int r;

	if (coding != request->coding)
		return send_recoded(c, request, coding, &limits, ret);
	r = send_bytes(c, request->data.data, request->data.len, coding, &limits, ret);
	if (r < 0 || !refuses(ret, coding))
		return r;
	coding = other_coding(ret, request->coding);
	r = send_recoded(c, request, coding, &limits, ret);
	if (r < 0 || ret->verdict != OTLP_ACCEPTED)
		return r;
	c->coding_instead[request->coding] = coding;
	if (!ret->text[0])
		snprintf(ret->text, sizeof ret->text, "it does not take %s, requests go as %s",
			 otlp_coding_name(request->coding), otlp_coding_name(coding));
	return 0;
}

int otlp_client_probe(struct otlp_client *c, int cancel_fd, struct otlp_outcome *ret)
{
	/* ExportProfilesServiceRequest.dictionary, whose seven tables have the zero value alone */
	static const uint8_t none[] = {0x12, 14, 0x0a, 0, 0x12, 0, 0x1a, 0,
				       0x22, 0,	 0x2a, 0, 0x32, 0, 0x3a, 0};
	const struct limits limits = limits_from_now(c, cancel_fd);

	return send_bytes(c, none, sizeof none, OTLP_IDENTITY, &limits, ret);
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
