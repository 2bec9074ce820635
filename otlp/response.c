// SPDX-License-Identifier: Apache-2.0
#include "otlp/response.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/base/clock.h"
#include "agent/base/cleanup.h"
#include "agent/base/parse.h"
#include "otlp/utf8.h"
#include "otlp/wire.h"

const char *otlp_failure_name(enum otlp_failure failure)
{
#define X(id, text) #text,
	static const char *const names[] = {OTLP_FAILURES(X)};
#undef X

	return names[failure];
}

const char *grpc_status_name(enum grpc_status status)
{
#define X(name) #name,
	static const char *const names[] = {GRPC_STATUS_CODES(X)};
#undef X

	return (size_t)status < ARRAY_SIZE(names) ? names[status] : "UNKNOWN";
}

enum grpc_status grpc_status_from_http(unsigned http_status)
{
	switch (http_status) {
	case 400:
	case 431:
		return GRPC_INTERNAL;
	case 401:
		return GRPC_UNAUTHENTICATED;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_UNKNOWN;
	}
}

enum grpc_status grpc_status_from_h2(uint32_t error)
{
	switch (error) {
	case 0x7: /* REFUSED_STREAM */
		return GRPC_UNAVAILABLE;
	case 0x8: /* CANCEL */
		return GRPC_CANCELLED;
	case 0xb: /* ENHANCE_YOUR_CALM */
		return GRPC_RESOURCE_EXHAUSTED;
	case 0xc: /* INADEQUATE_SECURITY */
		return GRPC_PERMISSION_DENIED;
	default:
		return GRPC_INTERNAL;
	}
}

/* Parses a number of at most 9 digits; other characters are an error. */
static bool small_number(const char *s, size_t len, uint32_t *ret)
{
	uint32_t value = 0;

	if (!len || len > 9)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		value = value * 10 + (uint32_t)(s[i] - '0');
	}
	*ret = value;
	return true;
}

int grpc_status_parse(const char *s, size_t len, enum grpc_status *ret)
{
	uint32_t value;

	if (!small_number(s, len, &value))
		return -EBADMSG;
	*ret = value < GRPC_N_STATUS_CODES ? (enum grpc_status)value : GRPC_UNKNOWN;
	return 0;
}

void otlp_text_copy(const char *s, size_t len, char ret[static OTLP_TEXT_MAX])
{
	_cleanup_buf_ struct buf clean = {0};

	ret[0] = '\0';
	if (len > OTLP_TEXT_MAX)
		len = OTLP_TEXT_MAX;
	if (utf8_sanitize(&clean, s, len, OTLP_TEXT_MAX - 1) < 0 || !clean.len)
		return;
	while (clean.len && clean.data[clean.len - 1] <= ' ')
		clean.len--;
	for (size_t i = 0; i < clean.len; i++)
		if (clean.data[i] < ' ' || clean.data[i] == 0x7f)
			clean.data[i] = ' ';
	memcpy(ret, clean.data, clean.len);
	ret[clean.len] = '\0';
}

void grpc_message_decode(const char *s, size_t len, char ret[static OTLP_TEXT_MAX])
{
	char text[OTLP_TEXT_MAX];
	size_t n = 0;

	for (size_t i = 0; i < len && n < sizeof text; i++) {
		int high = s[i] == '%' && i + 2 < len ? parse_hex_digit(s[i + 1]) : -1;
		int low = high >= 0 ? parse_hex_digit(s[i + 2]) : -1;

		if (low < 0) {
			text[n++] = s[i];
			continue;
		}
		text[n++] = (char)(high << 4 | low);
		i += 2;
	}
	otlp_text_copy(text, n, ret);
}

static uint64_t bounded_ns(uint64_t seconds, uint64_t extra_ns)
{
	if (seconds >= OTLP_DELAY_MAX_NS / NS_PER_SEC)
		return OTLP_DELAY_MAX_NS;
	return seconds * NS_PER_SEC + extra_ns;
}

bool grpc_pushback_parse(const char *s, size_t len, uint64_t *ret_ns)
{
	uint32_t ms;

	if (!small_number(s, len, &ms))
		return false;
	*ret_ns = bounded_ns(ms / 1000, ms % 1000 * NS_PER_MS);
	return true;
}

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

int base64_decode(const char *s, size_t len, uint8_t *out, size_t size, size_t *ret_len)
{
	uint32_t bits = 0;
	size_t n = 0, n_bits = 0;

	for (size_t i = 0; i < 2 && len && s[len - 1] == '='; i++)
		len--;
	if (len % 4 == 1)
		return -EBADMSG;
	for (size_t i = 0; i < len; i++) {
		int digit = base64_digit(s[i]);

		if (digit < 0)
			return -EBADMSG;
		bits = (bits << 6 | (uint32_t)digit) & 0xffffff;
		n_bits += 6;
		if (n_bits < 8)
			continue;
		n_bits -= 8;
		if (n == size)
			return -EOVERFLOW;
		out[n++] = (uint8_t)(bits >> n_bits);
	}
	*ret_len = n;
	return 0;
}

/* google.protobuf.Duration. Negative durations give 0, very long ones the maximum. */
static int parse_duration(struct wire_reader r, uint64_t *ret_ns)
{
	int64_t seconds = 0, nanos = 0;
	struct wire_field f;
	int err;

	while ((err = wire_next(&r, &f)) > 0) {
		if (f.number == 1 && f.type == WIRE_VARINT)
			seconds = (int64_t)f.value;
		else if (f.number == 2 && f.type == WIRE_VARINT)
			nanos = (int64_t)f.value;
	}
	if (err < 0)
		return err;
	if (nanos < 0 || nanos >= (int64_t)NS_PER_SEC)
		nanos = 0;
	*ret_ns = seconds < 0 ? 0 : bounded_ns((uint64_t)seconds, (uint64_t)nanos);
	return 0;
}

static int parse_retry_info(struct wire_reader r, struct otlp_status_details *ret)
{
	struct wire_field f;
	int err;

	while ((err = wire_next(&r, &f)) > 0) {
		if (f.number != 1 || f.type != WIRE_BYTES)
			continue;
		err = parse_duration(f.body, &ret->delay_ns);
		if (err < 0)
			return err;
		ret->has_delay = true;
	}
	return err;
}

static bool ends_with(const struct wire_reader *text, const char *end)
{
	size_t len = strlen(end);

	return text->len >= len && !memcmp(text->data + text->len - len, end, len);
}

/* google.protobuf.Any. Only google.rpc.RetryInfo is of interest, which its type URL ends with. */
static int parse_detail(struct wire_reader r, struct otlp_status_details *ret)
{
	struct wire_reader type = {0}, value = {0};
	struct wire_field f;
	int err;

	while ((err = wire_next(&r, &f)) > 0) {
		if (f.number == 1 && f.type == WIRE_BYTES)
			type = f.body;
		else if (f.number == 2 && f.type == WIRE_BYTES)
			value = f.body;
	}
	if (err < 0)
		return err;
	return ends_with(&type, "/google.rpc.RetryInfo") ? parse_retry_info(value, ret) : 0;
}

int otlp_status_parse(const void *data, size_t len, struct otlp_status_details *ret)
{
	struct otlp_status_details details = {0};
	struct wire_reader r = {data, len};
	struct wire_field f;
	int err;

	while ((err = wire_next(&r, &f)) > 0) {
		if (f.number == 1 && f.type == WIRE_VARINT)
			details.code = (int32_t)f.value;
		else if (f.number == 2 && f.type == WIRE_BYTES)
			otlp_text_copy((const char *)f.body.data, f.body.len, details.message);
		else if (f.number == 3 && f.type == WIRE_BYTES && (err = parse_detail(f.body, &details)) < 0)
			return err;
	}
	if (err < 0)
		return err;
	*ret = details;
	return 0;
}

bool otlp_retry_after_parse(const char *s, size_t len, int64_t now, uint64_t *ret_ns)
{
	struct tm tm = {0};
	char date[64];
	uint32_t seconds;
	const char *end;
	int64_t when;

	if (small_number(s, len, &seconds)) {
		*ret_ns = bounded_ns(seconds, 0);
		return true;
	}
	if (len >= sizeof date)
		return false;
	memcpy(date, s, len);
	date[len] = '\0';
	end = strptime(date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
	if (!end || *end)
		return false;
	when = timegm(&tm);
	*ret_ns = when > now ? bounded_ns((uint64_t)(when - now), 0) : 0;
	return true;
}

static int parse_partial(struct wire_reader r, struct otlp_partial_success *ret)
{
	struct wire_field f;
	int err;

	while ((err = wire_next(&r, &f)) > 0) {
		if (f.number == 1 && f.type == WIRE_VARINT)
			ret->rejected_profiles = (int64_t)f.value > 0 ? f.value : 0;
		else if (f.number == 2 && f.type == WIRE_BYTES)
			otlp_text_copy((const char *)f.body.data, f.body.len, ret->message);
	}
	return err;
}

int otlp_partial_success_parse(const void *data, size_t len, struct otlp_partial_success *ret)
{
	struct otlp_partial_success partial = {0};
	struct wire_reader r = {data, len};
	struct wire_field f;
	int err;

	while ((err = wire_next(&r, &f)) > 0)
		if (f.number == 1 && f.type == WIRE_BYTES && (err = parse_partial(f.body, &partial)) < 0)
			return err;
	if (err < 0)
		return err;
	*ret = partial;
	return 0;
}
