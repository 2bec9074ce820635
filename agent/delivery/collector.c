// SPDX-License-Identifier: Apache-2.0
#include "agent/delivery/collector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/cleanup.h"
#include "agent/base/log.h"
#include "agent/config/config.h"
#include "version.h"

static enum otlp_coding coding_of(enum config_compression c)
{
	switch (c) {
	case CONFIG_COMPRESSION_GZIP:
		return OTLP_GZIP;
	case CONFIG_COMPRESSION_ZSTD:
		return OTLP_ZSTD;
	case CONFIG_COMPRESSION_NONE:
		break;
	}
	return OTLP_IDENTITY;
}

static int headers_of(const struct config *config, struct otlp_headers *ret, char **ret_why)
{
	_cleanup_pairs_ struct config_pairs pairs = {0};
	_cleanup_free_ struct otlp_header *headers = NULL;
	int r = config_headers_read(config, &pairs, ret_why);

	if (r < 0)
		return r;
	headers = calloc(pairs.n + 1, sizeof *headers);
	if (!headers)
		return -ENOMEM;
	for (size_t i = 0; i < pairs.n; i++)
		headers[i] = (struct otlp_header){pairs.items[i].key, pairs.items[i].value};
	return otlp_headers_copy(headers, pairs.n, ret, NULL);
}

/* Runs on the export thread. Never logs the content of the file, which is secret. */
static int renew_headers(const void *data, struct otlp_headers *ret)
{
	_cleanup_free_ char *why = NULL;
	const struct config *config = data;
	int r = headers_of(config, ret, &why);

	if (r < 0)
		log_warn("headers_file: %s; the headers stay as they were", why ? why : strerror(-r));
	return r;
}

/* The options of a client, and the headers that they point to. */
struct client_setup {
	struct otlp_headers headers;
	struct otlp_client_options options;
};

static void client_setup_fini(struct client_setup *s)
{
	otlp_headers_fini(&s->headers);
}

/* The lower-case variable takes precedence, as with libcurl. */
static const char *environment(const char *lower, const char *upper)
{
	const char *value = getenv(lower);

	return value && *value ? value : getenv(upper);
}

static int client_setup_init(struct client_setup *s, const struct config *config, char **ret_why)
{
	int r;

	*s = (struct client_setup){
		.options =
			{
				.endpoint = config->endpoint,
				.protocol = config->protocol == CONFIG_PROTOCOL_HTTP ? OTLP_HTTP : OTLP_GRPC,
				.whole_url = config->endpoint_is_signal_url,
				.timeout_ns = config->timeout_ns,
				.tls = {config->tls.ca, config->tls.cert, config->tls.key,
					config->tls.server_name, config->tls.insecure},
				.proxy = strncasecmp(config->endpoint, "https:", 6)
						 ? environment("http_proxy", "HTTP_PROXY")
						 : environment("https_proxy", "HTTPS_PROXY"),
				.no_proxy = environment("no_proxy", "NO_PROXY"),
				.renew_file = config->headers_file,
				.renew = renew_headers,
				.renew_data = config,
				.version = PROFLET_VERSION,
			},
	};
	r = headers_of(config, &s->headers, ret_why);
	s->options.headers = s->headers.items;
	s->options.n_headers = s->headers.n;
	return r;
}

/* Formats one line about an endpoint that cannot be used. */
static void endpoint_why(char **ret_why, const struct config *config, const char *why, int r)
{
	if (asprintf(ret_why, "endpoint %s: %s", config->endpoint, why ? why : strerror(-r)) < 0)
		*ret_why = NULL;
}

int collector_new(struct otlp_exporter **ret, const struct config *config,
		  void (*publish)(const struct otlp_exporter_stats *now, void *data), void *data,
		  char **ret_why)
{
	_cleanup_(client_setup_fini) struct client_setup setup = {0};
	struct otlp_exporter_options o;
	const char *why = NULL;
	int r = client_setup_init(&setup, config, ret_why);

	if (r < 0)
		return r;
	o = (struct otlp_exporter_options){
		.client = setup.options,
		.coding = coding_of(config->compression),
		.queue_max_bytes = config->queue.memory_bytes,
		.spool_path = config->queue.spool,
		.spool_max_bytes = config->queue.spool_max_bytes,
		.publish = publish,
		.publish_data = data,
	};
	r = otlp_exporter_new(ret, &o, &why);
	if (r < 0)
		endpoint_why(ret_why, config, why, r);
	return r;
}

static bool starts_with(const char *text, const char *what)
{
	return strncasecmp(text, what, strlen(what)) == 0;
}

/* Without a status code from a server, the text of otlp/tls.c, otlp/conn.c or libcurl tells the reason. */
static enum collector_trouble trouble_of(const struct otlp_outcome *o)
{
	if (o->reached &&
	    (o->grpc_status == GRPC_UNAUTHENTICATED || o->grpc_status == GRPC_PERMISSION_DENIED ||
	     o->http_status == 401 || o->http_status == 403))
		return COLLECTOR_CREDENTIALS;
	if (o->reached && (o->grpc_status == GRPC_UNIMPLEMENTED || o->http_status == 404))
		return COLLECTOR_NO_PROFILES;
	if (o->reached)
		return COLLECTOR_NOT_NOW;
	if (strstr(o->text, "TLS") || strstr(o->text, "SSL") || strstr(o->text, "certificate"))
		return COLLECTOR_TLS;
	if (starts_with(o->text, "UNAVAILABLE: resolve ") || starts_with(o->text, "could not resolve host"))
		return COLLECTOR_NAME;
	if (strcasestr(o->text, "connect to ") || strcasestr(o->text, "connection time") ||
	    strcasestr(o->text, "proxy"))
		return COLLECTOR_NOBODY;
	return COLLECTOR_NO_ANSWER;
}

int collector_probe(const struct config *config, uint64_t timeout_ns, char **ret_why)
{
	_cleanup_(client_setup_fini) struct client_setup setup = {0};
	_cleanup_client_ struct otlp_client *client = NULL;
	struct otlp_outcome outcome = {.verdict = OTLP_RETRY};
	const char *why = NULL;
	int r = client_setup_init(&setup, config, ret_why);

	if (r < 0)
		return r;
	setup.options.timeout_ns = timeout_ns;
	r = otlp_client_new(&client, &setup.options, &why);
	if (r == 0)
		r = otlp_client_probe(client, -1, &outcome);
	if (r < 0) {
		endpoint_why(ret_why, config, why, r);
		return r;
	}
	if (outcome.verdict == OTLP_ACCEPTED)
		return 0;
	endpoint_why(ret_why, config, outcome.text[0] ? outcome.text : "no answer", 0);
	return (int)trouble_of(&outcome);
}

void collector_log_events(struct otlp_exporter *e)
{
	struct otlp_event event;

	while (otlp_exporter_next_event(e, &event)) {
		switch (event.kind) {
		case OTLP_EVENT_AWAY:
			log_warn("collector is away: %s; samples wait", event.text);
			break;
		case OTLP_EVENT_BACK:
			log_info("collector is back, %lu requests waiting",
				 (unsigned long)event.n_queued_requests);
			break;
		case OTLP_EVENT_REJECTED:
			log_error("collector rejects profiles: %s", event.text);
			break;
		case OTLP_EVENT_PARTIAL:
			log_warn("collector took a request: %s", event.text);
			break;
		case OTLP_EVENT_SPOOL_FAILED:
			log_error("spool: %s", event.text);
			break;
		case OTLP_EVENT_SPOOL_DROPPED:
			log_warn("spool: %s", event.text);
			break;
		case OTLP_EVENT_SPOOL_RECOVERED:
			log_info("spool: %lu requests of an earlier run wait to be delivered",
				 (unsigned long)event.n_queued_requests);
			break;
		case OTLP_EVENT_SPOOL_BUSY:
			log_info("spool: another agent uses the folder; waiting for its end");
			break;
		case OTLP_N_EVENTS:
			break;
		}
	}
}
