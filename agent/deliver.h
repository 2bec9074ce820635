// SPDX-License-Identifier: Apache-2.0
/* The exporter as the configuration wants it, and its events as log lines. Rank 3. */
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
/* Why a Collector takes no profiles from here. */
enum deliver_trouble {
	DELIVER_NOBODY = 1,  /* nobody listens, or there is no way to it */
	DELIVER_NAME,	     /* the endpoint's name is not known */
	DELIVER_TLS,	     /* the two do not agree on TLS */
	DELIVER_NO_ANSWER,   /* something took the connection and does not speak the protocol */
	DELIVER_CREDENTIALS, /* it wants others */
	DELIVER_NO_PROFILES, /* it does not serve them */
	DELIVER_NOT_NOW,     /* it answers, with another error */
};

/*
 * Asks the Collector whether it takes profiles. 0; an enum deliver_trouble; -errno: it could not be asked,
 * for a setting is wrong or memory is short; with *ret_why as above.
 */
int deliver_probe(const struct config *config, uint64_t timeout_ns, char **ret_why);
/* Logs the exporter's events as they come. */
int deliver_watch(struct otlp_exporter *e, struct loop *loop);
/* Logs what has not been logged yet. */
void deliver_log_events(struct otlp_exporter *e);

#endif
