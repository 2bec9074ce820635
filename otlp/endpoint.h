// SPDX-License-Identifier: Apache-2.0
/*
 * The Collector's address as the user writes it: http[s]://HOST[:PORT][/PATH], or unix:/PATH for a socket on
 * this host. Pure; used by the configuration, too. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_ENDPOINT_H
#define PROFLET_OTLP_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

enum otlp_protocol { OTLP_GRPC, OTLP_HTTP };

#define OTLP_GRPC_PORT 4317
#define OTLP_HTTP_PORT 4318

#define OTLP_ENDPOINT_NAME(e) ((e)->socket[0] ? (e)->socket : (e)->authority) /* for log lines and errors */

struct otlp_endpoint {
	bool tls;
	bool ipv6; /* host is an IPv6 literal, stored without brackets */
	char host[256];
	uint16_t port;
	char path[1024];     /* begins with the first slash; "" if there is none, or only that slash */
	char authority[272]; /* "host:port", "[::1]:4317"; "localhost" for a socket */
	char socket[108];    /* path of a Unix socket, "" for TCP; host is "localhost" then, port 0 */
};

/*
 * Parses the URL. 0; -EINVAL with *ret_why = a constant text that says what is wrong and what is accepted.
 * *ret is written on success only. With OTLP_GRPC a path is an error. User names and passwords, queries and
 * fragments are always errors.
 */
int otlp_endpoint_parse(const char *url, enum otlp_protocol protocol, struct otlp_endpoint *ret,
			const char **ret_why);

#endif
