// SPDX-License-Identifier: Apache-2.0
/* Tests the small pure parts: UTF-8, wire format, codings, headers, endpoints. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "agent/base/cleanup.h"
#include "otlp/compress.h"
#include "otlp/endpoint.h"
#include "otlp/headers.h"
#include "otlp/utf8.h"
#include "otlp/wire.h"

static const struct {
	const char *in, *out;
} texts[] = {
	{"", ""},
	{"plain", "plain"},
	{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
	{"a\xff"
	 "b",
	 "a\xef\xbf\xbd"
	 "b"},
	{"\xc3", "\xef\xbf\xbd"},				  /* cut */
	{"\xc3(", "\xef\xbf\xbd("},				  /* no continuation */
	{"\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd"},		  /* continuation alone */
	{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},		  /* overlong slash */
	{"\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* the same in three bytes */
	{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* surrogate */
	{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* past U+10FFFF */
	{"\xf0\x80\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* overlong */
	{"\xe2\x82x", "\xef\xbf\xbd\xef\xbf\xbdx"},
	{"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"}, /* U+10FFFF */
};

Test(utf8, sanitize)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_buf_ struct buf b = {0};

		cr_assert_eq(utf8_sanitize(&b, texts[i].in, strlen(texts[i].in), 100), 0);
		cr_expect_str_eq(buf_str(&b), texts[i].out, "text %zu", i);
		cr_expect_eq(utf8_valid(texts[i].in, strlen(texts[i].in)), !strcmp(texts[i].in, texts[i].out),
			     "text %zu", i);
		cr_expect(utf8_valid(texts[i].out, strlen(texts[i].out)));
	}
}

Test(utf8, cut_between_characters)
{
	_cleanup_buf_ struct buf b = {0};

	cr_assert_eq(utf8_sanitize(&b, "ab\xe2\x82\xac", 5, 4), 0);
	cr_expect_str_eq(buf_str(&b), "ab");
}

Test(wire, varint_and_bytes)
{
	static const uint64_t values[] = {0, 1, 127, 128, 300, 1ull << 35, UINT64_MAX};
	_cleanup_buf_ struct buf b = {0};
	struct wire_reader r;
	struct wire_field f;

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		buf_clear(&b);
		buf_putc(&b, 1 << 3);
		cr_assert_eq(wire_put_varint(&b, values[i]), 0);
		r = (struct wire_reader){b.data, b.len};
		cr_assert_eq(wire_next(&r, &f), 1);
		cr_expect_eq(f.value, values[i]);
		cr_expect_eq(wire_next(&r, &f), 0);
	}
	buf_clear(&b);
	cr_assert_eq(wire_put_bytes(&b, 5, "hello", 5), 0);
	cr_expect_eq(b.len, wire_bytes_size(5));
	r = (struct wire_reader){b.data, b.len};
	cr_assert_eq(wire_next(&r, &f), 1);
	cr_expect_eq(f.number, 5);
	cr_expect_eq(f.type, WIRE_BYTES);
	cr_expect_eq(f.body.len, 5);
}

Test(wire, broken)
{
	static const struct {
		const char *bytes;
		size_t len;
	} cases[] = {
		{"\x80", 1},					      /* tag cut */
		{"\x00", 1},					      /* field 0 */
		{"\x08", 1},					      /* no value */
		{"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11}, /* varint without end */
		{"\x0a\x05"
		 "ab",
		 4},						      /* longer than what is there */
		{"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}, /* length near 2^64 */
		{"\x09\x01\x02", 3},				      /* fixed64 cut */
		{"\x0d\x01\x02", 3},				      /* fixed32 cut */
		{"\x0b", 1},					      /* group */
		{"\x0f", 1},					      /* no such type */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct wire_reader r = {(const uint8_t *)cases[i].bytes, cases[i].len};
		struct wire_field f;

		cr_expect_eq(wire_next(&r, &f), -EBADMSG, "case %zu", i);
	}
}

Test(compress, there_and_back)
{
	static const enum otlp_coding codings[] = {OTLP_GZIP, OTLP_ZSTD};
	_cleanup_free_ char *data = malloc(300000);

	for (size_t i = 0; i < 300000; i++)
		data[i] = (char)(i * i >> 7);
	for (size_t c = 0; c < ARRAY_SIZE(codings); c++) {
		for (size_t len = 0; len <= 300000; len += 100000) {
			_cleanup_buf_ struct buf packed = {0}, plain = {0};

			cr_assert_eq(otlp_compress(codings[c], data, len, &packed), 0);
			cr_assert_eq(otlp_decompress(codings[c], packed.data, packed.len, &plain), 0);
			cr_assert_eq(plain.len, len);
			cr_expect(!len || !memcmp(plain.data, data, len));
			buf_clear(&plain);
			cr_expect_eq(otlp_decompress(codings[c], packed.data, packed.len - 1, &plain),
				     -EBADMSG);
			buf_clear(&plain);
			buf_putc(&packed, 'x');
			cr_expect_eq(otlp_decompress(codings[c], packed.data, packed.len, &plain), -EBADMSG);
		}
	}
}

Test(compress, bounded)
{
	_cleanup_free_ char *zeros = calloc(1, 1 << 20);
	static const enum otlp_coding codings[] = {OTLP_GZIP, OTLP_ZSTD};

	for (size_t c = 0; c < ARRAY_SIZE(codings); c++) {
		_cleanup_buf_ struct buf packed = {0}, plain = {.max = 100000};

		cr_assert_eq(otlp_compress(codings[c], zeros, 1 << 20, &packed), 0);
		cr_expect_eq(otlp_decompress(codings[c], packed.data, packed.len, &plain), -EOVERFLOW);
	}
}

Test(compress, names)
{
	enum otlp_coding c;

	cr_expect_str_eq(otlp_coding_name(OTLP_GZIP), "gzip");
	cr_assert_eq(otlp_coding_parse("zstd", 4, &c), 0);
	cr_expect_eq(c, OTLP_ZSTD);
	cr_expect_eq(otlp_coding_parse("zst", 3, &c), -EINVAL);
	cr_expect_eq(otlp_coding_parse("deflate", 7, &c), -EINVAL);
}

static const struct {
	struct otlp_header header;
	int r;
} header_cases[] = {
	{{"X-Scope-OrgID", "team a"}, 0},
	{{"authorization", ""}, 0},
	{{"", "x"}, -EINVAL},
	{{"a b", "x"}, -EINVAL},
	{{":path", "/"}, -EINVAL},
	{{"Content-Type", "text/plain"}, -EINVAL},
	{{"grpc-timeout", "1S"}, -EINVAL},
	{{"TE", "gzip"}, -EINVAL},
	{{"ok", "line\r\nbreak: 1"}, -EINVAL},
	{{"ok\n", "x"}, -EINVAL},
};

Test(headers, accepted_and_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(header_cases); i++) {
		struct otlp_headers h = {0};
		size_t bad = 99;

		cr_assert_eq(otlp_headers_copy(&header_cases[i].header, 1, &h, &bad), header_cases[i].r, "%s",
			     header_cases[i].header.name);
		cr_expect_eq(bad, header_cases[i].r ? 0 : 99);
		if (!header_cases[i].r)
			cr_expect_str_eq(h.items[0].value, header_cases[i].header.value);
		otlp_headers_fini(&h);
		otlp_headers_fini(&h);
	}
}

Test(headers, lower_case)
{
	struct otlp_headers h;
	const struct otlp_header in = {"X-Scope-OrgID", "Team"};

	cr_assert_eq(otlp_headers_copy(&in, 1, &h, NULL), 0);
	cr_expect_str_eq(h.items[0].name, "x-scope-orgid");
	otlp_headers_fini(&h);
}

static const struct {
	const char *url;
	enum otlp_protocol protocol;
	int r;
	bool tls, ipv6;
	const char *host;
	uint16_t port;
	const char *path, *authority;
} urls[] = {
	{"http://localhost:4317", OTLP_GRPC, 0, false, false, "localhost", 4317, "", "localhost:4317"},
	{"http://localhost", OTLP_GRPC, 0, false, false, "localhost", 4317, "", "localhost:4317"},
	{"http://localhost/", OTLP_GRPC, 0, false, false, "localhost", 4317, "", "localhost:4317"},
	{"HTTPS://Collector.example", OTLP_HTTP, 0, true, false, "Collector.example", 4318, "",
	 "Collector.example:4318"},
	{"https://h:1/base/path/", OTLP_HTTP, 0, true, false, "h", 1, "/base/path/", "h:1"},
	{"http://[::1]:9", OTLP_GRPC, 0, false, true, "::1", 9, "", "[::1]:9"},
	{"http://[fe80::1]", OTLP_HTTP, 0, false, true, "fe80::1", 4318, "", "[fe80::1]:4318"},
	{"http://10.0.0.1:65535", OTLP_GRPC, 0, false, false, "10.0.0.1", 65535, "", "10.0.0.1:65535"},
	{"http://otel_collector.svc", OTLP_GRPC, 0, false, false, "otel_collector.svc", 4317, "",
	 "otel_collector.svc:4317"},
	{"unix:/run/otel.sock", OTLP_GRPC, 0, false, false, "localhost", 0, "", "localhost"},
	{"unix:///run/otel.sock", OTLP_HTTP, 0, false, false, "localhost", 0, "", "localhost"},
	{"unix:run/otel.sock", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"unix:", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"unix:/", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"localhost:4317", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"grpc://localhost:4317", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://:4317", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h:", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h:0", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h:65536", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h:99999999999", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h:+1", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h:1:2", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://user:pw@h", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h/path", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h?x=1", OTLP_HTTP, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h/p#f", OTLP_HTTP, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h h", OTLP_HTTP, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://h\n", OTLP_HTTP, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://[::1", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://[]", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://[h]", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://[::1]x", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
	{"http://[::1%25eth0]", OTLP_GRPC, -EINVAL, 0, 0, NULL, 0, NULL, NULL},
};

Test(endpoint, urls)
{
	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		struct otlp_endpoint e = {0};
		const char *why = NULL;
		int r = otlp_endpoint_parse(urls[i].url, urls[i].protocol, &e, &why);

		cr_assert_eq(r, urls[i].r, "'%s'", urls[i].url);
		if (r < 0) {
			cr_expect(why && *why, "'%s'", urls[i].url);
			cr_expect_eq(e.port, 0, "'%s' wrote a result", urls[i].url);
			continue;
		}
		cr_expect_eq(e.tls, urls[i].tls, "'%s'", urls[i].url);
		cr_expect_eq(e.ipv6, urls[i].ipv6, "'%s'", urls[i].url);
		cr_expect_str_eq(e.host, urls[i].host);
		cr_expect_eq(e.port, urls[i].port);
		cr_expect_str_eq(e.path, urls[i].path);
		cr_expect_str_eq(e.authority, urls[i].authority);
		cr_expect_str_eq(e.socket, strncmp(urls[i].url, "unix:", 5) ? "" : "/run/otel.sock");
	}
}

Test(endpoint, too_long)
{
	struct otlp_endpoint e;
	const char *why;
	char url[2000] = "http://";

	memset(url + 7, 'a', 300);
	cr_expect_eq(otlp_endpoint_parse(url, OTLP_GRPC, &e, &why), -EINVAL);
	memcpy(url, "unix:/", 6);
	memset(url + 6, 'a', 106);
	url[6 + 106] = '\0'; /* a path of 107 bytes, the maximum of an address */
	cr_expect_eq(otlp_endpoint_parse(url, OTLP_GRPC, &e, &why), 0);
	url[6 + 106] = 'a';
	url[6 + 107] = '\0';
	cr_expect_eq(otlp_endpoint_parse(url, OTLP_GRPC, &e, &why), -EINVAL);
	memset(url, 'a', 1000);
	memcpy(url, "http://h/", 9);
	memset(url + 9, 'p', 1900);
	cr_expect_eq(otlp_endpoint_parse(url, OTLP_HTTP, &e, &why), -EINVAL);
}
