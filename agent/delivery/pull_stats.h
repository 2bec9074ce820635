// SPDX-License-Identifier: Apache-2.0
#ifndef PROFLET_DELIVERY_PULL_STATS_H
#define PROFLET_DELIVERY_PULL_STATS_H

#include <stdint.h>

/* What became of requests for a profile: X(name, text). The text is the label of the metric. */
#define PULL_RESULTS(X)                                          \
	X(OK, "ok")		      /* the profile was made */ \
	X(BAD_REQUEST, "bad_request") /* 400 */                  \
	X(REFUSED, "refused")	      /* 401, 403 */             \
	X(TOO_MANY, "too_many")	      /* 429 */                  \
	X(UNAVAILABLE, "unavailable") /* 500, 503 */             \
	X(CANCELLED, "cancelled")     /* the client has left, or it took too long */

enum pull_result {
#define X(name, text) PULL_RESULT_##name,
	PULL_RESULTS(X)
#undef X
		PULL_RESULTS_N
};

struct pull_stats {
	uint64_t results[PULL_RESULTS_N];
	uint64_t running; /* now, with those whose answer is being taken */
};

#endif
