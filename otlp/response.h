// SPDX-License-Identifier: Apache-2.0
/*
 * Decodes what servers answer: gRPC status and its headers, google.rpc.Status with RetryInfo, Retry-After,
 * and ExportProfilesServiceResponse. Pure functions over untrusted bytes, with bounded memory. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_RESPONSE_H
#define PROFLET_OTLP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OTLP_TEXT_MAX 512      /* maximum length of a server's text, NUL included; longer texts are cut */
#define OTLP_DETAILS_MAX 16384 /* maximum length of grpc-status-details-bin; longer ones are ignored */
#define OTLP_DELAY_MAX_NS 600000000000ull /* ten minutes: a server cannot silence an agent for longer */

/* The codes of gRPC in order of their numbers (grpc.io, "Status codes and their use in gRPC"). */
#define GRPC_STATUS_CODES(X)   \
	X(OK)                  \
	X(CANCELLED)           \
	X(UNKNOWN)             \
	X(INVALID_ARGUMENT)    \
	X(DEADLINE_EXCEEDED)   \
	X(NOT_FOUND)           \
	X(ALREADY_EXISTS)      \
	X(PERMISSION_DENIED)   \
	X(RESOURCE_EXHAUSTED)  \
	X(FAILED_PRECONDITION) \
	X(ABORTED)             \
	X(OUT_OF_RANGE)        \
	X(UNIMPLEMENTED)       \
	X(INTERNAL)            \
	X(UNAVAILABLE)         \
	X(DATA_LOSS)           \
	X(UNAUTHENTICATED)

/* Why an attempt has to be repeated. Append-only: the names are labels of a metric. */
#define OTLP_FAILURES(X)                                                               \
	X(ANSWER, answer)   /* the server says that it cannot take the request now */  \
	X(CONNECT, connect) /* no connection could be made */                          \
	X(TIMEOUT, timeout) /* no answer within the timeout of the attempt */          \
	X(LOST, lost)	    /* the connection or the stream ended before the answer */ \
	X(FLOOD, flood)	    /* the server sent more than an answer may have */         \
	X(MEMORY, memory)   /* this process had no memory for the attempt */

#define X(name, text) OTLP_FAILURE_##name,
enum otlp_failure { OTLP_FAILURES(X) OTLP_N_FAILURES };
#undef X

const char *otlp_failure_name(enum otlp_failure failure);

#define X(name) GRPC_##name,
enum grpc_status { GRPC_STATUS_CODES(X) GRPC_N_STATUS_CODES };
#undef X

const char *grpc_status_name(enum grpc_status status);
/* The code for an answer that is not gRPC, by its HTTP status (grpc, "HTTP to gRPC Status Code Mapping"). */
enum grpc_status grpc_status_from_http(unsigned http_status);
/* The code for a stream that was reset (grpc PROTOCOL-HTTP2, "Errors"). `error` is the HTTP/2 error code. */
enum grpc_status grpc_status_from_h2(uint32_t error);

/* Parses grpc-status. 0 and the code; a number outside the table is GRPC_UNKNOWN; -EBADMSG: not a number. */
int grpc_status_parse(const char *s, size_t len, enum grpc_status *ret);
/*
 * Decodes the percent-encoding of grpc-message. Malformed escapes are copied; the result is valid UTF-8
 * without control characters.
 */
void grpc_message_decode(const char *s, size_t len, char ret[static OTLP_TEXT_MAX]);
/* Copies an untrusted text for a log line, in the same way but without percent-decoding. */
void otlp_text_copy(const char *s, size_t len, char ret[static OTLP_TEXT_MAX]);
/* Parses grpc-retry-pushback-ms. True and the delay; false if it is negative or malformed. */
bool grpc_pushback_parse(const char *s, size_t len, uint64_t *ret_ns);

/*
 * Decodes base64 (RFC 4648), with or without padding. 0 and *ret_len, -EBADMSG, -EOVERFLOW (more than
 * size bytes).
 */
int base64_decode(const char *s, size_t len, uint8_t *out, size_t size, size_t *ret_len);

struct otlp_status_details {
	int32_t code;
	bool has_delay;
	uint64_t delay_ns; /* at most OTLP_DELAY_MAX_NS */
	char message[OTLP_TEXT_MAX];
};

/* Decodes a google.rpc.Status. 0 or -EBADMSG. */
int otlp_status_parse(const void *data, size_t len, struct otlp_status_details *ret);

/* Parses Retry-After (RFC 9110): seconds, or an HTTP-date, which is compared with `now` (Unix seconds). */
bool otlp_retry_after_parse(const char *s, size_t len, int64_t now, uint64_t *ret_ns);

struct otlp_partial_success {
	uint64_t rejected_profiles; /* 0: everything was accepted; `message` may then hold a warning */
	char message[OTLP_TEXT_MAX];
};

/*
 * Decodes an ExportProfilesServiceResponse; without partial_success the result is the same as with an empty
 * one. 0 or -EBADMSG.
 */
int otlp_partial_success_parse(const void *data, size_t len, struct otlp_partial_success *ret);

#endif
