// SPDX-License-Identifier: Apache-2.0
/*
 * The first byte selects a parser of server responses, the others are the response. The resulting texts must
 * be valid UTF-8.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "otlp/compress.h"
#include "otlp/outcome.h"
#include "otlp/response.h"
#include "otlp/utf8.h"

static void check_text(const char *text)
{
	if (!memchr(text, '\0', OTLP_TEXT_MAX) || !utf8_valid(text, strlen(text)))
		abort();
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			abort();
}

static void status_header(const char *s, size_t len)
{
	enum grpc_status status;
	uint64_t ns;

	if (grpc_status_parse(s, len, &status) >= 0 && status >= GRPC_N_STATUS_CODES)
		abort();
	if (grpc_pushback_parse(s, len, &ns) && ns > OTLP_DELAY_MAX_NS)
		abort();
	if (otlp_retry_after_parse(s, len, 1700000000, &ns) && ns > OTLP_DELAY_MAX_NS)
		abort();
}

static void message(const char *s, size_t len)
{
	char text[OTLP_TEXT_MAX];

	grpc_message_decode(s, len, text);
	check_text(text);
	otlp_text_copy(s, len, text);
	check_text(text);
}

static void status(const void *data, size_t len)
{
	struct otlp_status_details details;

	if (otlp_status_parse(data, len, &details) < 0)
		return;
	check_text(details.message);
	if (details.has_delay && details.delay_ns > OTLP_DELAY_MAX_NS)
		abort();
}

static void details_header(const char *s, size_t len)
{
	uint8_t bytes[OTLP_DETAILS_MAX];
	size_t n;

	if (base64_decode(s, len, bytes, sizeof bytes, &n) >= 0)
		status(bytes, n);
}

static void partial_success(const void *data, size_t len)
{
	struct otlp_partial_success partial;

	if (otlp_partial_success_parse(data, len, &partial) >= 0)
		check_text(partial.message);
}

static void http_body(const uint8_t *data, size_t len)
{
	struct http_result r = {.status = 400, .is_protobuf = true};
	struct otlp_outcome o;

	r.response = (struct buf){.data = (uint8_t *)data, .len = len, .cap = len};
	otlp_outcome_of_http(&r, "h:1", &o);
	r.is_protobuf = false;
	otlp_outcome_of_http(&r, "h:1", &o);
	r.status = 200;
	otlp_outcome_of_http(&r, "h:1", &o);
}

static void coded(enum otlp_coding coding, const void *data, size_t len)
{
	struct buf out = {.max = 1 << 20};

	(void)otlp_decompress(coding, data, len, &out);
	if (out.len > out.max)
		abort();
	buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;

	if (!size)
		return 0;
	switch (data[0] % 8) {
	case 0:
		status_header(text, size - 1);
		break;
	case 1:
		message(text, size - 1);
		break;
	case 2:
		status(data + 1, size - 1);
		break;
	case 3:
		details_header(text, size - 1);
		break;
	case 4:
		partial_success(data + 1, size - 1);
		break;
	case 5:
		http_body(data + 1, size - 1);
		break;
	default:
		coded(data[0] % 8 == 6 ? OTLP_GZIP : OTLP_ZSTD, data + 1, size - 1);
	}
	return 0;
}
