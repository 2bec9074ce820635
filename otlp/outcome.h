// SPDX-License-Identifier: Apache-2.0
/*
 * What an answer means for the request: delivered, again later, or never. The rules are those of the OTLP
 * specification ("OTLP/gRPC Response", "OTLP/HTTP Response", "Throttling"). Pure. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_OUTCOME_H
#define PROFLET_OTLP_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "otlp/grpc.h"
#include "otlp/http.h"
#include "otlp/response.h"

#define OTLP_OUTCOME_TEXT_MAX 1024

enum otlp_verdict {
	OTLP_ACCEPTED,	/* also in part, see rejected_profiles */
	OTLP_RETRY,	/* later */
	OTLP_RETRY_NOW, /* nothing was processed: at once, on a new connection */
	OTLP_REJECTED,	/* sending it again would not help */
	OTLP_TOO_LARGE, /* the same, because of its size */
};

struct otlp_outcome {
	enum otlp_verdict verdict;
	bool reached;		      /* a server answered */
	bool unanswered;	      /* it may have taken the request: sent again, that may arrive twice */
	enum grpc_status grpc_status; /* of gRPC */
	unsigned http_status;	      /* 0: none */
	bool has_delay;
	uint64_t delay_ns; /* what the server asks to wait at least */
	uint64_t rejected_profiles;
	bool coding_refused; /* in case the request was compressed: the server cannot decompress it */
	unsigned codings;    /* those that it says it has, see otlp_codings_parse; 0: it does not say */
	char text[OTLP_OUTCOME_TEXT_MAX]; /* one line for people; "" when all is well. Never holds a header */
};

/* `authority` is the server's, for the text. */
void otlp_outcome_of_grpc(const struct grpc_result *result, const char *authority, struct otlp_outcome *ret);
void otlp_outcome_of_http(const struct http_result *result, const char *authority, struct otlp_outcome *ret);

/*
 * How long to wait after the n-th failure in a row (from 0), with an equally distributed random number: 1 s
 * doubled each time up to 30 s, of which the upper half is random.
 */
uint64_t otlp_backoff_ns(uint32_t n, uint32_t random);

#endif
