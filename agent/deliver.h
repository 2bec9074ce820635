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
/*
 * Asks the Collector whether it takes profiles. 0; -ECONNREFUSED: nobody answered; -EPROTO: it answered, but
 * does not take them; with *ret_why as above.
 */
int deliver_probe(const struct config *config, uint64_t timeout_ns, char **ret_why);
/* Logs the exporter's events as they come. */
int deliver_watch(struct otlp_exporter *e, struct loop *loop);
/* Logs what has not been logged yet. */
void deliver_log_events(struct otlp_exporter *e);

#endif
