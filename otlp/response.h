// SPDX-License-Identifier: Apache-2.0
/*
 * What servers answer, decoded: gRPC status and its headers, google.rpc.Status with RetryInfo, Retry-After,
 * and ExportProfilesServiceResponse. Pure functions over foreign bytes with bounded memory. Rank 1 (otlp).
 */
#ifndef PROFLET_OTLP_RESPONSE_H
#define PROFLET_OTLP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OTLP_TEXT_MAX 512		  /* bytes of a server's text that are kept, NUL included */
#define OTLP_DETAILS_MAX 16384		  /* bytes of grpc-status-details-bin that are looked at */
#define OTLP_DELAY_MAX_NS 600000000000ull /* ten minutes: a server may not silence an agent for longer */

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

#define X(name) GRPC_##name,
enum grpc_status { GRPC_STATUS_CODES(X) GRPC_N_STATUS_CODES };
#undef X

const char *grpc_status_name(enum grpc_status status);
/* The code for an answer that is not gRPC (grpc, "HTTP to gRPC Status Code Mapping"). */
enum grpc_status grpc_status_from_http(unsigned http_status);
/* The code for a stream that was reset (grpc PROTOCOL-HTTP2, "Errors"). `error` is HTTP/2's. */
enum grpc_status grpc_status_from_h2(uint32_t error);

/* grpc-status: 0 and the code; a number outside the table is GRPC_UNKNOWN; -EBADMSG for anything else. */
int grpc_status_parse(const char *s, size_t len, enum grpc_status *ret);
/* grpc-message: percent-decoded; broken escapes are passed through; the result is valid UTF-8 without control
 * bytes. */
void grpc_message_decode(const char *s, size_t len, char ret[static OTLP_TEXT_MAX]);
/* A foreign text made fit for a log line, in the same way but without percent-decoding. */
void otlp_text_copy(const char *s, size_t len, char ret[static OTLP_TEXT_MAX]);
/* grpc-retry-pushback-ms: true and the delay; a negative or broken value gives false. */
bool grpc_pushback_parse(const char *s, size_t len, uint64_t *ret_ns);

/* Base64 of RFC 4648, padded or not. 0 and *ret_len, -EBADMSG, -EOVERFLOW (more than size bytes). */
int base64_decode(const char *s, size_t len, uint8_t *out, size_t size, size_t *ret_len);

struct otlp_status_details {
	int32_t code;
	bool has_delay;
	uint64_t delay_ns; /* at most OTLP_DELAY_MAX_NS */
	char message[OTLP_TEXT_MAX];
};

/* google.rpc.Status. 0 or -EBADMSG. */
int otlp_status_parse(const void *data, size_t len, struct otlp_status_details *ret);

/* Retry-After of RFC 9110: seconds or an HTTP-date, which is compared with now (Unix seconds). */
bool otlp_retry_after_parse(const char *s, size_t len, int64_t now, uint64_t *ret_ns);

struct otlp_partial_success {
	uint64_t rejected_profiles; /* 0: everything was accepted; `message` may then hold a warning */
	char message[OTLP_TEXT_MAX];
};

/* ExportProfilesServiceResponse; an absent partial_success and an empty one are the same. 0 or -EBADMSG. */
int otlp_partial_success_parse(const void *data, size_t len, struct otlp_partial_success *ret);

#endif
