// SPDX-License-Identifier: Apache-2.0
/* Leaves only those entries in a request's dictionary that something refers to. Rank 1 (otlp), internal. */
#ifndef PROFLET_OTLP_COMPACT_H
#define PROFLET_OTLP_COMPACT_H

#include "otlp/messages.h"

/*
 * Removes and renumbers in place; entry 0 of each table stays. What is removed is no longer reachable, so the
 * message must lie in memory that is freed as a whole. 0, -ENOMEM, or -EBADMSG: an index without entry, or a
 * table without any.
 */
int otlp_compact(otlp_export_request *request);

#endif
