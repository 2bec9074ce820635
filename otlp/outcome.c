// SPDX-License-Identifier: Apache-2.0
#include "otlp/outcome.h"

#include <stdio.h>
#include <string.h>

#include "agent/base/clock.h"

#define BACKOFF_FIRST_NS (1 * NS_PER_SEC)
#define BACKOFF_MAX_NS (30 * NS_PER_SEC)

static void explain_unimplemented(struct otlp_outcome *o, const char *authority, const char *answer)
{
	snprintf(o->text, sizeof o->text,
		 "the Collector at %s does not serve OTLP profiles: it needs "
		 "--feature-gates=+service.profilesSupport, a profiles pipeline with the otlp receiver, and "
		 "version "
		 "0.148 or later (it answered: %s)",
		 authority, answer);
}

static bool mentions_size(const char *message)
{
	static const char *const words[] = {"larger than", "too large", "maximum size"};

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strstr(message, words[i]))
			return true;
	return false;
}

/* The gRPC specification ("Compression") requires UNIMPLEMENTED; some servers answer INTERNAL. */
static bool refuses_coding(const struct grpc_result *r)
{
	if (r->status != GRPC_UNIMPLEMENTED && r->status != GRPC_INTERNAL)
		return false;
	return strstr(r->message, "ompress") || strstr(r->message, "ncoding");
}

static enum otlp_verdict grpc_verdict(const struct grpc_result *r)
{
	if (r->unprocessed)
		return OTLP_RETRY_NOW;
	switch (r->status) {
	case GRPC_OK:
		return OTLP_ACCEPTED;
	case GRPC_CANCELLED:
	case GRPC_DEADLINE_EXCEEDED:
	case GRPC_ABORTED:
	case GRPC_OUT_OF_RANGE:
	case GRPC_UNAVAILABLE:
	case GRPC_DATA_LOSS:
		return OTLP_RETRY;
	case GRPC_RESOURCE_EXHAUSTED:
		if (r->has_delay)
			return OTLP_RETRY;
		/* this text is ours, about the size of the answer; it does not concern the request */
		return !r->unanswered && mentions_size(r->message) ? OTLP_TOO_LARGE : OTLP_REJECTED;
	default:
		return OTLP_REJECTED;
	}
}

/* A response with status OK may still say that some profiles were rejected. */
static void take_partial_success(struct otlp_outcome *o, const struct buf *response)
{
	struct otlp_partial_success partial;

	if (otlp_partial_success_parse(response->data, response->len, &partial) < 0)
		return; /* the status says that the request was accepted */
	o->rejected_profiles = partial.rejected_profiles;
	if (partial.rejected_profiles)
		snprintf(o->text, sizeof o->text, "%llu profiles were rejected: %s",
			 (unsigned long long)partial.rejected_profiles,
			 partial.message[0] ? partial.message : "no reason given");
	else if (partial.message[0])
		snprintf(o->text, sizeof o->text, "accepted with a warning: %s", partial.message);
}

void otlp_outcome_of_grpc(const struct grpc_result *result, const char *authority, struct otlp_outcome *ret)
{
	struct otlp_outcome o = {
		.verdict = grpc_verdict(result),
		.reached = result->http_status != 0,
		.unanswered = result->unanswered,
		.failure = result->failure,
		.grpc_status = result->status,
		.http_status = result->http_status,
		.has_delay = result->has_delay,
		.delay_ns = result->delay_ns,
		.coding_refused = refuses_coding(result),
		.codings = result->codings,
	};
	char answer[OTLP_TEXT_MAX + 32];

	snprintf(answer, sizeof answer, "%s%s%s", grpc_status_name(result->status),
		 result->message[0] ? ": " : "", result->message);
	if (o.verdict == OTLP_ACCEPTED)
		take_partial_success(&o, &result->response);
	else if (result->status == GRPC_UNIMPLEMENTED && !o.coding_refused)
		explain_unimplemented(&o, authority, answer);
	else
		snprintf(o.text, sizeof o.text, "%s", answer);
	*ret = o;
}

static enum otlp_verdict http_verdict(const struct http_result *r)
{
	switch (r->status) {
	case 0:
	case 429:
	case 502:
	case 503:
	case 504:
		return OTLP_RETRY;
	case 413:
		return OTLP_TOO_LARGE;
	default:
		if (r->status < 200 || r->status >= 300)
			return OTLP_REJECTED;
		return r->is_html
			       ? OTLP_REJECTED
			       : OTLP_ACCEPTED; /* a page of HTML comes from a proxy, not from a Collector */
	}
}

/* The body of a failure is a google.rpc.Status, or any text from a proxy. */
static void describe_http(const struct http_result *r, struct otlp_outcome *o, char *answer, size_t size)
{
	struct otlp_status_details details = {0};

	if (!r->status) {
		snprintf(answer, size, "%s", r->message);
		return;
	}
	if (r->is_protobuf && otlp_status_parse(r->response.data, r->response.len, &details) >= 0) {
		if (details.has_delay && !o->has_delay) {
			o->has_delay = true;
			o->delay_ns = details.delay_ns;
		}
	} else if (!r->is_protobuf) {
		otlp_text_copy((const char *)r->response.data, r->response.len < 200 ? r->response.len : 200,
			       details.message);
	}
	snprintf(answer, size, "HTTP %u%s%s", r->status, details.message[0] ? ": " : "", details.message);
}

void otlp_outcome_of_http(const struct http_result *result, const char *authority, struct otlp_outcome *ret)
{
	struct otlp_outcome o = {
		.verdict = http_verdict(result),
		.reached = result->status != 0,
		.unanswered = result->unanswered,
		.failure = result->failure,
		.http_status = result->status,
		.has_delay = result->has_delay,
		.delay_ns = result->delay_ns,
		.coding_refused = result->status == 415,
		.codings = result->codings,
	};
	char answer[OTLP_TEXT_MAX + 32];

	if (o.verdict == OTLP_ACCEPTED) {
		take_partial_success(&o, &result->response);
	} else {
		describe_http(result, &o, answer, sizeof answer);
		if (result->status == 404)
			explain_unimplemented(&o, authority, answer);
		else
			snprintf(o.text, sizeof o.text, "%s", answer);
	}
	*ret = o;
}

uint64_t otlp_backoff_ns(uint32_t n, uint32_t random)
{
	uint64_t whole = n < 5 ? BACKOFF_FIRST_NS << n : BACKOFF_MAX_NS;

	return whole / 2 + (whole / 2 >> 16) * (random >> 16);
}
