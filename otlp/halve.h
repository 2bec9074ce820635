// SPDX-License-Identifier: Apache-2.0
/*
 * A request that a server finds too large, as two: each has a part of the samples, and a dictionary with only
 * what these need. Rare, so it works on the decoded message, in memory that is several times the request's.
 * Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_HALVE_H
#define PROFLET_OTLP_HALVE_H

#include "otlp/request.h"

#define OTLP_HALVE_RAW_MAX (64u << 20) /* bytes of a decoded request that is looked at */

/*
 * Makes two requests of one, which stays as it is: the first has half of the samples, rounded down; together
 * they have them all, in the same order, with the same resources and times. 0 with both of *ret, of the same
 * coding; -ENODATA: there is nothing to divide; -EBADMSG: these bytes are no request; -EFBIG, -ENOMEM.
 */
int otlp_request_halve(const struct otlp_request *r, struct otlp_request *ret[2]);

#endif
