// SPDX-License-Identifier: Apache-2.0
#include "agent/deliver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "agent/base/cleanup.h"
#include "agent/base/log.h"
#include "agent/base/loop.h"
#include "agent/config.h"
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

int deliver_new(struct otlp_exporter **ret, const struct config *config, char **ret_why)
{
	_cleanup_pairs_ struct config_pairs pairs = {0};
	_cleanup_free_ struct otlp_header *headers = NULL;
	const char *why = NULL;
	struct otlp_exporter_options o = {
		.client = {
			.endpoint = config->endpoint,
			.protocol = config->protocol == CONFIG_PROTOCOL_HTTP ? OTLP_HTTP : OTLP_GRPC,
			.whole_url = config->endpoint_is_signal_url,
			.timeout_ns = config->timeout_ns,
			.tls = {config->tls.ca, config->tls.cert, config->tls.key, config->tls.server_name,
				config->tls.insecure},
			.version = PROFLET_VERSION,
		},
		.coding = coding_of(config->compression),
		.queue_max_bytes = config->queue.memory_bytes,
	};
	int r = config_headers_read(config, &pairs, ret_why);

	if (r < 0)
		return r;
	headers = calloc(pairs.n + 1, sizeof *headers);
	if (!headers)
		return -ENOMEM;
	for (size_t i = 0; i < pairs.n; i++)
		headers[i] = (struct otlp_header){pairs.items[i].key, pairs.items[i].value};
	o.client.headers = headers;
	o.client.n_headers = pairs.n;
	r = otlp_exporter_new(ret, &o, &why);
	if (r < 0 && asprintf(ret_why, "endpoint %s: %s", config->endpoint, why ? why : strerror(-r)) < 0)
		*ret_why = NULL;
	return r;
}

void deliver_log_events(struct otlp_exporter *e)
{
	struct otlp_event event;

	while (otlp_exporter_next_event(e, &event)) {
		switch (event.kind) {
		case OTLP_EVENT_AWAY:
			log_warn("collector is away: %s; samples wait in the queue", event.text);
			break;
		case OTLP_EVENT_BACK:
			log_info("collector is back, %lu requests waiting", (unsigned long)event.n_queued_requests);
			break;
		case OTLP_EVENT_REJECTED:
			log_error("collector rejects profiles: %s", event.text);
			break;
		case OTLP_EVENT_PARTIAL:
			log_warn("collector took a request in part: %s", event.text);
			break;
		case OTLP_N_EVENTS:
			break;
		}
	}
}

static int on_event(int fd, uint32_t events, void *data)
{
	(void)fd;
	(void)events;
	deliver_log_events(data);
	return 0;
}

int deliver_watch(struct otlp_exporter *e, struct loop *loop)
{
	return loop_add_fd(loop, otlp_exporter_event_fd(e), EPOLLIN, on_event, e, NULL);
}
