// SPDX-License-Identifier: Apache-2.0
/* Creates the exporter from the configuration, probes the collector, and logs the exporter's events. */
#ifndef PROFLET_COLLECTOR_H
#define PROFLET_COLLECTOR_H

#include <stdint.h>

#include "otlp/exporter.h"

struct config;

/*
 * Starts the export thread. 0, or -errno with *ret_why = a line for the operator (owned; shows no header's
 * value). The configuration is borrowed until the exporter is freed. `publish`, `data`: see
 * struct otlp_exporter_options.
 */
int collector_new(struct otlp_exporter **ret, const struct config *config,
		  void (*publish)(const struct otlp_exporter_stats *now, void *data), void *data,
		  char **ret_why);

/* Why the collector does not accept profiles from here. */
enum collector_trouble {
	COLLECTOR_NOBODY = 1,  /* no server listens at the endpoint, or it cannot be reached */
	COLLECTOR_NAME,	       /* the host name cannot be resolved */
	COLLECTOR_TLS,	       /* TLS could not be negotiated */
	COLLECTOR_NO_ANSWER,   /* a server accepted the connection but does not speak the protocol */
	COLLECTOR_CREDENTIALS, /* it requires other credentials */
	COLLECTOR_NO_PROFILES, /* it does not serve profiles */
	COLLECTOR_NOT_NOW,     /* it answers with another error */
};

/*
 * Sends the collector an empty request to find out whether it accepts profiles. 0; an enum collector_trouble;
 * or -errno when no request could be sent, because of a wrong setting or lack of memory. *ret_why as above.
 */
int collector_probe(const struct config *config, uint64_t timeout_ns, char **ret_why);
/* Logs the events that have not been logged yet. */
void collector_log_events(struct otlp_exporter *e);

#endif
