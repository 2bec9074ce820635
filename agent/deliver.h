// SPDX-License-Identifier: Apache-2.0
/* Creates the exporter from the configuration, probes the collector, and logs the exporter's events. */
#ifndef PROFLET_DELIVER_H
#define PROFLET_DELIVER_H

#include <stdint.h>

#include "otlp/exporter.h"

struct config;
struct loop;

/*
 * Starts the export thread. 0, or -errno with *ret_why = a line for the operator (owned; shows no header's
 * value). The configuration is borrowed until the exporter is freed.
 */
int deliver_new(struct otlp_exporter **ret, const struct config *config, char **ret_why);
/* Why the collector does not accept profiles from here. */
enum deliver_trouble {
	DELIVER_NOBODY = 1,  /* no server listens at the endpoint, or it cannot be reached */
	DELIVER_NAME,	     /* the host name cannot be resolved */
	DELIVER_TLS,	     /* TLS could not be negotiated */
	DELIVER_NO_ANSWER,   /* a server accepted the connection but does not speak the protocol */
	DELIVER_CREDENTIALS, /* it requires other credentials */
	DELIVER_NO_PROFILES, /* it does not serve profiles */
	DELIVER_NOT_NOW,     /* it answers with another error */
};

/*
 * Sends the collector an empty request to find out whether it accepts profiles. 0; an enum deliver_trouble;
 * or -errno when no request could be sent, because of a wrong setting or lack of memory. *ret_why as above.
 */
int deliver_probe(const struct config *config, uint64_t timeout_ns, char **ret_why);
/* Logs the exporter's events when they occur, on the main loop. 0 or -errno. */
int deliver_watch(struct otlp_exporter *e, struct loop *loop);
/* Logs the events that have not been logged yet. */
void deliver_log_events(struct otlp_exporter *e);

#endif
