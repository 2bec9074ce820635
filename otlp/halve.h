// SPDX-License-Identifier: Apache-2.0
/*
 * Divides a request that is too large for a server into two: each has a part of the samples, and a dictionary
 * with only the entries that these need. This happens rarely, so it works on the decoded message, which takes
 * several times the request's memory. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_HALVE_H
#define PROFLET_OTLP_HALVE_H

#include "otlp/request.h"

#define OTLP_HALVE_RAW_MAX (64u << 20) /* maximum size of a decoded request */

/*
 * Makes two requests of one, which is unchanged: the first has half of the samples, rounded down; together
 * they have all samples, in the same order, with the same resources and times. 0 with both of *ret, in the
 * same coding; -ENODATA: there is nothing to divide; -EBADMSG: the bytes are not a request; -EFBIG: larger
 * than OTLP_HALVE_RAW_MAX; -ENOMEM.
 */
int otlp_request_halve(const struct otlp_request *r, struct otlp_request *ret[2]);

#endif
