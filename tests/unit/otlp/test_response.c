// SPDX-License-Identifier: Apache-2.0
/* Tests decoding of answers. The generated packers make the messages, our own reader decodes them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "agent/base/clock.h"
#include "agent/base/cleanup.h"
#include "otlp/messages.h"
#include "otlp/outcome.h"
#include "otlp/response.h"
#include "otlp/wire.h"
#include "status.pb-c.h"

Test(response, base64)
{
	static const struct {
		const char *in, *out;
	} good[] = {{"", ""},		{"Zg==", "f"},	      {"Zg", "f"},
		    {"Zm8=", "fo"},	{"Zm8", "fo"},	      {"Zm9v", "foo"},
		    {"Zm9vYg", "foob"}, {"Zm9vYmE", "fooba"}, {"Pj4+Pj4/", ">>>>>?"}};
	static const char *const bad[] = {"Z", "Zm9vY", "Zm9v*", "Z===", "Zm 9v", "Zg=g", "Pz8_"};
	uint8_t out[16];
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		cr_assert_eq(base64_decode(good[i].in, strlen(good[i].in), out, sizeof out, &n), 0, "%s",
			     good[i].in);
		cr_expect_eq(n, strlen(good[i].out));
		cr_expect_eq(memcmp(out, good[i].out, n), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(base64_decode(bad[i], strlen(bad[i]), out, sizeof out, &n), -EBADMSG, "%s",
			     bad[i]);
	cr_expect_eq(base64_decode("Zm9v", 4, out, 2, &n), -EOVERFLOW);
}

Test(response, message)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"plain", "plain"},
		{"a%20b", "a b"},
		{"%41%4a%4A", "AJJ"},
		{"%", "%"},
		{"%4", "%4"},
		{"%zz", "%zz"},
		{"100%%41", "100%A"},
		{"%0a%00x", "  x"},
		{"%ff", "\xef\xbf\xbd"},
		{"%c3%a9", "\xc3\xa9"},
	};
	char text[OTLP_TEXT_MAX], longer[2000];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		grpc_message_decode(cases[i].in, strlen(cases[i].in), text);
		cr_expect_str_eq(text, cases[i].out, "%s", cases[i].in);
	}
	memset(longer, '%', sizeof longer);
	grpc_message_decode(longer, sizeof longer, text);
	cr_expect_eq(strlen(text), OTLP_TEXT_MAX - 1);
}

Test(response, status_codes)
{
	enum grpc_status status;

	cr_assert_eq(grpc_status_parse("14", 2, &status), 0);
	cr_expect_eq(status, GRPC_UNAVAILABLE);
	cr_expect_str_eq(grpc_status_name(status), "UNAVAILABLE");
	cr_assert_eq(grpc_status_parse("17", 2, &status), 0);
	cr_expect_eq(status, GRPC_UNKNOWN);
	cr_expect_eq(grpc_status_parse("", 0, &status), -EBADMSG);
	cr_expect_eq(grpc_status_parse("-1", 2, &status), -EBADMSG);
	cr_expect_eq(grpc_status_parse("1234567890", 10, &status), -EBADMSG);
	cr_expect_eq(GRPC_UNAUTHENTICATED, 16);
	cr_expect_eq(grpc_status_from_http(404), GRPC_UNIMPLEMENTED);
	cr_expect_eq(grpc_status_from_http(418), GRPC_UNKNOWN);
}

static void make_status(struct buf *b, int64_t seconds, int32_t nanos, const char *type)
{
	Google__Protobuf__Duration delay = GOOGLE__PROTOBUF__DURATION__INIT;
	Google__Rpc__RetryInfo info = GOOGLE__RPC__RETRY_INFO__INIT;
	Google__Protobuf__Any other = GOOGLE__PROTOBUF__ANY__INIT, any = GOOGLE__PROTOBUF__ANY__INIT;
	Google__Protobuf__Any *details[] = {&other, &any};
	Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
	_cleanup_buf_ struct buf value = {0};

	delay.seconds = seconds;
	delay.nanos = nanos;
	info.retry_delay = &delay;
	cr_assert_eq(wire_pack(&value, &info.base), 0);
	other.type_url = "type.googleapis.com/google.rpc.DebugInfo";
	any.type_url = (char *)type;
	any.value = (ProtobufCBinaryData){value.len, value.data};
	status.code = 14;
	status.message = "busy\nnow";
	status.n_details = 2;
	status.details = details;
	cr_assert_eq(wire_pack(b, &status.base), 0);
}

Test(response, retry_info)
{
	static const struct {
		int64_t seconds;
		int32_t nanos;
		const char *type;
		bool has;
		uint64_t ns;
	} cases[] = {
		{1, 500000000, "type.googleapis.com/google.rpc.RetryInfo", true, 1500000000},
		{0, 0, "type.googleapis.com/google.rpc.RetryInfo", true, 0},
		{-5, 0, "type.googleapis.com/google.rpc.RetryInfo", true, 0},
		{1, -1, "type.googleapis.com/google.rpc.RetryInfo", true, NS_PER_SEC},
		{INT64_MAX, 999999999, "type.googleapis.com/google.rpc.RetryInfo", true, OTLP_DELAY_MAX_NS},
		{1, 0, "type.googleapis.com/google.rpc.Other", false, 0},
		{1, 0, "RetryInfo", false, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf b = {0};
		struct otlp_status_details d = {.code = 77};

		make_status(&b, cases[i].seconds, cases[i].nanos, cases[i].type);
		cr_assert_eq(otlp_status_parse(b.data, b.len, &d), 0);
		cr_expect_eq(d.code, 14);
		cr_expect_str_eq(d.message, "busy now");
		cr_expect_eq(d.has_delay, cases[i].has, "case %zu", i);
		cr_expect_eq(d.delay_ns, cases[i].ns, "case %zu", i);
		for (size_t cut = 1; cut < b.len; cut++)
			(void)otlp_status_parse(b.data, cut, &d);
	}
}

Test(response, retry_after)
{
	static const int64_t now = 1445412480; /* Wed, 21 Oct 2015 07:28:00 GMT */
	static const struct {
		const char *in;
		bool ok;
		uint64_t ns;
	} cases[] = {
		{"120", true, 120 * NS_PER_SEC},
		{"0", true, 0},
		{"999999999", true, OTLP_DELAY_MAX_NS},
		{"9999999999999", false, 0},
		{"-1", false, 0},
		{"1.5", false, 0},
		{"", false, 0},
		{"soon", false, 0},
		{"Wed, 21 Oct 2015 07:28:30 GMT", true, 30 * NS_PER_SEC},
		{"Wed, 21 Oct 2015 07:27:30 GMT", true, 0},
		{"Wed, 21 Oct 2095 07:28:30 GMT", true, OTLP_DELAY_MAX_NS},
		{"Wed, 21 Oct 2015 07:28:30 GMT and more", false, 0},
		{"21 Oct 2015", false, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = 0;

		cr_expect_eq(otlp_retry_after_parse(cases[i].in, strlen(cases[i].in), now, &ns), cases[i].ok,
			     "%s", cases[i].in);
		cr_expect_eq(ns, cases[i].ns, "%s", cases[i].in);
	}
}

Test(response, partial_success)
{
	static const struct {
		const char *bytes;
		size_t len;
		int r;
		uint64_t rejected;
		const char *message;
	} cases[] = {
		{"", 0, 0, 0, ""},
		{"\x0a\x00", 2, 0, 0, ""}, /* present and empty, as the Collector sends it */
		{"\x0a\x02\x08\x03", 4, 0, 3, ""},
		{"\x0a\x08\x08\x03\x12\x04oops", 10, 0, 3, "oops"},
		{"\x0a\x06\x12\x04warn", 8, 0, 0, "warn"},
		{"\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, 0, 0, ""}, /* -1 */
		{"\x12\x00\x0a\x02\x08\x01", 6, 0, 1, ""}, /* an unknown field first */
		{"\x0a\x05\x08", 3, -EBADMSG, 99, ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct otlp_partial_success p = {.rejected_profiles = 99};

		cr_expect_eq(otlp_partial_success_parse(cases[i].bytes, cases[i].len, &p), cases[i].r,
			     "case %zu", i);
		cr_expect_eq(p.rejected_profiles, cases[i].rejected, "case %zu", i);
		cr_expect_str_eq(p.message, cases[i].message, "case %zu", i);
	}
}

Test(outcome, grpc_verdicts)
{
	static const struct {
		struct grpc_result result;
		enum otlp_verdict verdict;
	} cases[] = {
		{{.status = GRPC_OK}, OTLP_ACCEPTED},
		{{.status = GRPC_CANCELLED}, OTLP_RETRY},
		{{.status = GRPC_UNKNOWN}, OTLP_REJECTED},
		{{.status = GRPC_INVALID_ARGUMENT}, OTLP_REJECTED},
		{{.status = GRPC_DEADLINE_EXCEEDED}, OTLP_RETRY},
		{{.status = GRPC_NOT_FOUND}, OTLP_REJECTED},
		{{.status = GRPC_ALREADY_EXISTS}, OTLP_REJECTED},
		{{.status = GRPC_PERMISSION_DENIED}, OTLP_REJECTED},
		{{.status = GRPC_RESOURCE_EXHAUSTED}, OTLP_REJECTED},
		{{.status = GRPC_RESOURCE_EXHAUSTED, .message = "grpc: received message larger than max"},
		 OTLP_TOO_LARGE},
		{{.status = GRPC_RESOURCE_EXHAUSTED, .has_delay = true}, OTLP_RETRY},
		{{.status = GRPC_FAILED_PRECONDITION}, OTLP_REJECTED},
		{{.status = GRPC_ABORTED}, OTLP_RETRY},
		{{.status = GRPC_OUT_OF_RANGE}, OTLP_RETRY},
		{{.status = GRPC_UNIMPLEMENTED}, OTLP_REJECTED},
		{{.status = GRPC_INTERNAL}, OTLP_REJECTED},
		{{.status = GRPC_UNAVAILABLE}, OTLP_RETRY},
		{{.status = GRPC_UNAVAILABLE, .unprocessed = true}, OTLP_RETRY_NOW},
		{{.status = GRPC_DATA_LOSS}, OTLP_RETRY},
		{{.status = GRPC_RESOURCE_EXHAUSTED,
		  .unanswered = true,
		  .message = "response is larger than 4 MiB"},
		 OTLP_REJECTED},
		{{.status = GRPC_UNAUTHENTICATED}, OTLP_REJECTED},
	};
	struct otlp_outcome o;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		otlp_outcome_of_grpc(&cases[i].result, "h:1", &o);
		cr_expect_eq(o.verdict, cases[i].verdict, "case %zu", i);
		cr_expect_eq(!o.text[0], o.verdict == OTLP_ACCEPTED, "case %zu: '%s'", i, o.text);
	}
}

Test(outcome, unimplemented_is_explained)
{
	struct grpc_result r = {.status = GRPC_UNIMPLEMENTED, .message = "unknown service x"};
	struct http_result http = {.status = 404};
	struct otlp_outcome o;

	otlp_outcome_of_grpc(&r, "collector:4317", &o);
	cr_expect_str_eq(
		o.text,
		"the Collector at collector:4317 does not serve OTLP profiles: it needs "
		"--feature-gates=+service.profilesSupport, a profiles pipeline with the otlp "
		"receiver, and version 0.148 or later (it answered: UNIMPLEMENTED: unknown service x)");
	otlp_outcome_of_http(&http, "collector:4318", &o);
	cr_expect(strstr(o.text, "profilesSupport"));
	cr_expect_eq(o.verdict, OTLP_REJECTED);
	strcpy(r.message, "grpc: Decompressor is not installed for grpc-encoding \"zstd\"");
	otlp_outcome_of_grpc(&r, "collector:4317", &o);
	cr_expect_not(strstr(o.text, "profilesSupport"));
}

Test(outcome, http_verdicts)
{
	static const struct {
		struct http_result result;
		enum otlp_verdict verdict;
	} cases[] = {
		{{.status = 200}, OTLP_ACCEPTED},
		{{.status = 202}, OTLP_ACCEPTED},
		{{.status = 200, .is_html = true}, OTLP_REJECTED},
		{{.status = 0, .message = "connect"}, OTLP_RETRY},
		{{.status = 301}, OTLP_REJECTED},
		{{.status = 400}, OTLP_REJECTED},
		{{.status = 404}, OTLP_REJECTED},
		{{.status = 413}, OTLP_TOO_LARGE},
		{{.status = 429}, OTLP_RETRY},
		{{.status = 500}, OTLP_REJECTED},
		{{.status = 502}, OTLP_RETRY},
		{{.status = 503}, OTLP_RETRY},
		{{.status = 504}, OTLP_RETRY},
	};
	struct otlp_outcome o;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		otlp_outcome_of_http(&cases[i].result, "h:1", &o);
		cr_expect_eq(o.verdict, cases[i].verdict, "case %zu", i);
	}
}

Test(outcome, partial_success)
{
	struct grpc_result r = {.status = GRPC_OK};
	struct otlp_outcome o;

	buf_append(&r.response, "\x0a\x08\x08\x03\x12\x04oops", 10);
	otlp_outcome_of_grpc(&r, "h:1", &o);
	cr_expect_eq(o.verdict, OTLP_ACCEPTED);
	cr_expect_eq(o.rejected_profiles, 3);
	cr_expect_str_eq(o.text, "3 profiles were rejected: oops");
	buf_fini(&r.response);
}

Test(outcome, backoff)
{
	cr_expect_eq(otlp_backoff_ns(0, 0), NS_PER_SEC / 2);
	for (uint32_t n = 0; n < 40; n++) {
		uint64_t low = otlp_backoff_ns(n, 0), high = otlp_backoff_ns(n, UINT32_MAX);

		cr_expect_geq(low, NS_PER_SEC / 2);
		cr_expect_gt(high, low);
		cr_expect_leq(high, 30 * NS_PER_SEC);
		if (n >= 5)
			cr_expect_eq(low, 15 * NS_PER_SEC);
	}
}
