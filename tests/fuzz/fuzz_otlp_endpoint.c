// SPDX-License-Identifier: Apache-2.0
/*
 * Parses any text as an endpoint: it is refused with a reason, or split into parts that make the same
 * endpoint again.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "otlp/endpoint.h"

static void check(const char *url, enum otlp_protocol protocol)
{
	struct otlp_endpoint e, again;
	char whole[2048];
	const char *why = NULL;

	if (otlp_endpoint_parse(url, protocol, &e, &why) < 0) {
		if (!why || !*why)
			abort();
		return;
	}
	if (!e.host[0] || !e.port != (e.socket[0] != '\0') || (protocol == OTLP_GRPC && e.path[0]))
		abort();
	if (e.socket[0])
		snprintf(whole, sizeof whole, "unix:%s", e.socket);
	else
		snprintf(whole, sizeof whole, "%s://%s%s", e.tls ? "https" : "http", e.authority, e.path);
	if (otlp_endpoint_parse(whole, protocol, &again, &why) < 0 || e.tls != again.tls ||
	    e.port != again.port || strcmp(e.host, again.host) || strcmp(e.path, again.path) ||
	    strcmp(e.socket, again.socket))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *url = malloc(size + 1);

	if (!url)
		return 0;
	if (size)
		memcpy(url, data, size);
	url[size] = '\0';
	check(url, OTLP_GRPC);
	check(url, OTLP_HTTP);
	free(url);
	return 0;
}
