// SPDX-License-Identifier: Apache-2.0
/*
 * Decides what an answer means for the request: delivered, send again, or give up. The rules are those of the
 * OTLP specification ("OTLP/gRPC Response", "OTLP/HTTP Response", "Throttling"). Pure. Rank 1 (otlp).
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
	OTLP_ACCEPTED,	/* possibly in part, see rejected_profiles */
	OTLP_RETRY,	/* send it again later */
	OTLP_RETRY_NOW, /* nothing was processed: send it again at once, on a new connection */
	OTLP_REJECTED,	/* sending it again would not help */
	OTLP_TOO_LARGE, /* rejected because of its size */
};

struct otlp_outcome {
	enum otlp_verdict verdict;
	bool reached;	 /* a server answered */
	bool unanswered; /* the server may have taken the request; if it is sent again, it may arrive twice */
	enum otlp_failure failure;    /* if it is to be sent again: why */
	enum grpc_status grpc_status; /* with gRPC */
	unsigned http_status;	      /* 0: none */
	bool has_delay;
	uint64_t delay_ns; /* minimum wait that the server requires */
	uint64_t rejected_profiles;
	bool coding_refused; /* if the request was compressed: the server cannot decompress it */
	unsigned codings;    /* codings that the server supports, see otlp_codings_parse; 0: unknown */
	/* One line for the operator; "" after success. Never has a header's value. */
	char text[OTLP_OUTCOME_TEXT_MAX];
};

/* `authority` is the server's, for the text. */
void otlp_outcome_of_grpc(const struct grpc_result *result, const char *authority, struct otlp_outcome *ret);
void otlp_outcome_of_http(const struct http_result *result, const char *authority, struct otlp_outcome *ret);

/*
 * The wait after the n-th consecutive failure (counted from 0), with an equally distributed random number: 1
 * s, doubled each time up to 30 s; half of it is random.
 */
uint64_t otlp_backoff_ns(uint32_t n, uint32_t random);

#endif
