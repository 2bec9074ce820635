// SPDX-License-Identifier: Apache-2.0
/* Tests probing, and OTLP over HTTP, against a Collector on loopback. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/fs.h"
#include "exporter_support.h"
#include "mock_collector.h"
#include "otlp/compress.h"
#include "otlp/messages.h"

static struct h2_reply accept_all(void *data, unsigned request)
{
	(void)data;
	(void)request;
	return (struct h2_reply){0};
}

static struct otlp_outcome probe(const char *url, enum otlp_protocol protocol)
{
	struct otlp_client_options opt = {.endpoint = url, .protocol = protocol, .timeout_ns = CALL_TIMEOUT};
	_cleanup_client_ struct otlp_client *c = NULL;
	struct otlp_outcome o;

	cr_assert_eq(otlp_client_new(&c, &opt, NULL), 0);
	cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
	return o;
}

/* Parca refuses a request whose dictionary lacks its tables. */
Test(client, a_probe_has_a_valid_dictionary_and_no_profile)
{
	struct mock_collector m = {.decide = accept_all};
	otlp_export_request *r;
	char url[64];

	mock_collector_start(&m);
	snprintf(url, sizeof url, "http://localhost:%u", m.port);
	cr_expect_eq(probe(url, OTLP_GRPC).verdict, OTLP_ACCEPTED);
	r = opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack(
		NULL, m.bodies.len, m.bodies.data);
	cr_assert_not_null(r);
	cr_expect_eq(r->n_resource_profiles, 0);
	cr_assert_not_null(r->dictionary);
	cr_expect_eq(r->dictionary->n_mapping_table, 1);
	cr_expect_eq(r->dictionary->n_location_table, 1);
	cr_expect_eq(r->dictionary->n_function_table, 1);
	cr_expect_eq(r->dictionary->n_link_table, 1);
	cr_expect_eq(r->dictionary->n_string_table, 1);
	cr_expect_eq(r->dictionary->n_attribute_table, 1);
	cr_expect_eq(r->dictionary->n_stack_table, 1);
	cr_expect_str_eq(r->dictionary->string_table[0], "");
	opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked(
		r, NULL);
	mock_collector_stop(&m);
}

Test(client, probe)
{
	struct mock_collector m = {.decide = accept_all};
	char url[64];

	mock_collector_start(&m);
	snprintf(url, sizeof url, "http://localhost:%u", m.port);
	cr_expect_eq(probe(url, OTLP_GRPC).verdict, OTLP_ACCEPTED);
	mock_collector_stop(&m);
	cr_expect_not(probe(url, OTLP_GRPC).reached);
	cr_expect(
		strstr(probe("http://no-such-host.invalid", OTLP_GRPC).text, "resolve no-such-host.invalid"));
}

#define PARTIAL "\x0a\x06\x12\x04warn"

Test(client, http)
{
	static const struct {
		const char *reply;
		enum otlp_verdict verdict;
		const char *text;
		uint64_t delay_ns;
	} cases[] = {
		{"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n",
		 OTLP_ACCEPTED, "", 0},
		{"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: "
		 "8\r\n\r\n" PARTIAL,
		 OTLP_ACCEPTED, "accepted with a warning: warn", 0},
		{"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", OTLP_RETRY, "HTTP 503",
		 7 * NS_PER_SEC},
		{"HTTP/1.1 429 Slow down\r\nretry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\nContent-Length: "
		 "2\r\n\r\nno",
		 OTLP_RETRY, "HTTP 429: no", 0},
		{"HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n", OTLP_TOO_LARGE, "HTTP 413", 0},
		{"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", OTLP_REJECTED, "profilesSupport", 0},
		{"HTTP/1.1 400 Bad\r\nContent-Type: application/x-protobuf\r\nContent-Length: "
		 "6\r\n\r\n\x08\x03\x12\x02no",
		 OTLP_REJECTED, "HTTP 400: no", 0},
		{"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
		 OTLP_REJECTED, "HTTP 302", 0},
		{"nonsense\r\n\r\n", OTLP_RETRY, "", 0},
	};

	unsetenv("http_proxy");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mock_collector m = {.http_reply = cases[i].reply};
		struct otlp_outcome o;
		char url[64];

		mock_collector_start(&m);
		snprintf(url, sizeof url, "http://127.0.0.1:%u", m.port);
		o = probe(url, OTLP_HTTP);
		cr_expect_eq(o.verdict, cases[i].verdict, "case %zu: %s", i, o.text);
		cr_expect(strstr(o.text, cases[i].text), "case %zu: %s", i, o.text);
		cr_expect_eq(o.delay_ns, cases[i].delay_ns, "case %zu", i);
		mock_collector_stop(&m);
	}
}

Test(client, http_request)
{
	struct mock_collector m = {.http_reply = "HTTP/1.1 200 OK\r\nContent-Type: "
						 "application/x-protobuf\r\nContent-Length: 0\r\n\r\n"};
	const struct otlp_header header = {"X-Scope-OrgID", "team"};
	struct otlp_exporter_options opt = {
		.coding = OTLP_GZIP,
		.client = {.protocol = OTLP_HTTP, .headers = &header, .n_headers = 1, .version = "9.9"}};
	struct otlp_exporter *e;
	const char *headers;
	char url[64];

	mock_collector_start(&m);
	snprintf(url, sizeof url, "http://127.0.0.1:%u/base/", m.port);
	opt.client.endpoint = url;
	cr_assert_eq(otlp_exporter_new(&e, &opt, NULL), 0);
	otlp_exporter_submit(e, a_request('a', 1000, 1));
	otlp_exporter_submit(e, a_request('b', 1000, 1));
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	cr_expect_eq(stats_of(e).samples.exported, 2);
	cr_expect_eq(m.n_connections, 1);
	cr_assert_eq(m.bodies.len, 2000);
	cr_expect_eq(m.bodies.data[999], 'a');
	headers = buf_str(&m.headers);
	cr_expect_eq(strncmp(headers, "POST /base/v1development/profiles HTTP/1.1\r\n", 44), 0, "%s",
		     headers);
	cr_expect(strcasestr(headers, "\r\ncontent-type: application/x-protobuf\r\n"), "%s", headers);
	cr_expect(strcasestr(headers, "\r\ncontent-encoding: gzip\r\n"));
	cr_expect(strcasestr(headers, "\r\nx-scope-orgid: team\r\n"));
	cr_expect(strcasestr(headers, "\r\nuser-agent: proflet/9.9\r\n"));
	cr_expect_not(strcasestr(headers, "expect:"));
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

/* A token from a file: the header is the number of times that the file was read. */
static int numbered_headers(const void *data, struct otlp_headers *ret)
{
	unsigned *n = (unsigned *)(uintptr_t)data;
	char value[16];
	const struct otlp_header header = {"authorization", value};

	if (*n == 99)
		return -EIO;
	snprintf(value, sizeof value, "token-%u", ++*n);
	return otlp_headers_copy(&header, 1, ret, NULL);
}

static void replace_file(const char *path, const char *content)
{
	char beside[128];

	snprintf(beside, sizeof beside, "%s.new", path);
	cr_assert_eq(fs_write_file(beside, content, strlen(content)), 0);
	cr_assert_eq(rename(beside, path), 0);
}

Test(client, headers_follow_their_file)
{
	struct mock_collector m = {.decide = accept_all};
	char url[64], path[] = "/tmp/test-headers-XXXXXX";
	unsigned n = 0;
	struct otlp_client_options opt = {.endpoint = url,
					  .timeout_ns = CALL_TIMEOUT,
					  .renew_file = path,
					  .renew = numbered_headers,
					  .renew_data = &n};
	_cleanup_client_ struct otlp_client *c = NULL;
	struct otlp_outcome o;

	close(mkstemp(path));
	mock_collector_start(&m);
	snprintf(url, sizeof url, "http://127.0.0.1:%u", m.port);
	cr_assert_eq(otlp_client_new(&c, &opt, NULL), 0);
	for (unsigned i = 1; i < 6; i++) {
		char wanted[16];

		snprintf(wanted, sizeof wanted, "token-%u", i < 4 ? i : 3);
		cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
		cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
		cr_expect(strstr(buf_str(&m.headers), wanted), "request %u: %s", i, buf_str(&m.headers));
		if (i < 3)
			replace_file(path, "x");
		else if (i == 3) { /* the file cannot be read, so the old headers remain */
			n = 99;
			cr_assert_eq(unlink(path), 0);
		}
	}
	cr_expect_eq(m.n_connections, 1);
	mock_collector_stop(&m);
}

Test(client, unix_socket)
{
	struct mock_collector m = {.decide = accept_all};
	char url[128], path[] = "/tmp/test-client-XXXXXX", socket_path[64];

	cr_assert_not_null(mkdtemp(path));
	snprintf(socket_path, sizeof socket_path, "%s/otel.sock", path);
	snprintf(url, sizeof url, "unix:%s", socket_path);
	m.socket = socket_path;
	mock_collector_start(&m);
	cr_expect_eq(probe(url, OTLP_GRPC).verdict, OTLP_ACCEPTED);
	mock_collector_stop(&m);
	cr_assert_eq(unlink(socket_path), 0);
	cr_expect(strstr(probe(url, OTLP_GRPC).text, socket_path), "%s", probe(url, OTLP_GRPC).text);
	m.http_reply = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
	mock_collector_start(&m);
	cr_expect_eq(probe(url, OTLP_HTTP).verdict, OTLP_ACCEPTED);
	cr_expect(strcasestr(buf_str(&m.headers), "\r\nhost: localhost\r\n"), "%s", buf_str(&m.headers));
	mock_collector_stop(&m);
	unlink(socket_path);
	rmdir(path);
}

static struct h2_reply without_zstd(void *data, unsigned request)
{
	(void)data;
	return request ? (struct h2_reply){0}
		       : (struct h2_reply){.grpc_status = "12",
					   .grpc_message = "grpc: Decompressor is not installed for "
							   "grpc-encoding \"zstd\"",
					   .trailers_only = true};
}

/*
 * A coding is refused once, the request is sent again uncompressed, and later requests are uncompressed
 * at once.
 */
Test(client, coding_that_the_server_lacks)
{
	struct mock_collector m = {.decide = without_zstd};
	struct otlp_exporter *e;

	mock_collector_start(&m);
	e = exporter_to(m.port, (struct otlp_exporter_options){.coding = OTLP_ZSTD});
	otlp_exporter_submit(e, a_request('a', 1000, 1));
	otlp_exporter_submit(e, a_request('b', 1000, 1));
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	cr_expect_eq(stats_of(e).samples.exported, 2);
	cr_expect_eq(m.n_requests, 3);
	cr_expect_not(strcasestr(buf_str(&m.headers), "grpc-encoding"), "%s", buf_str(&m.headers));
	cr_expect(m.bodies.len >= 2000 && m.bodies.data[m.bodies.len - 1] == 'b');
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

Test(client, codings_of_a_server)
{
	const unsigned identity = 1u << OTLP_IDENTITY, gzip = 1u << OTLP_GZIP, zstd = 1u << OTLP_ZSTD;
	const struct {
		const char *list;
		unsigned codings;
	} cases[] = {
		{"", identity},
		{"gzip", identity | gzip},
		{"identity, deflate, gzip", identity | gzip},
		{"gzip;q=0.8 ,\tzstd; q=1", identity | gzip | zstd},
		{",,zstd,", identity | zstd},
		{"gzipped,zst", identity},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(otlp_codings_parse(cases[i].list, strlen(cases[i].list)), cases[i].codings,
			     "'%s'", cases[i].list);
}

static struct h2_reply repeat_headers(void *data, unsigned request)
{
	(void)data;
	(void)request;
	return (struct h2_reply){.grpc_status = "16",
				 .grpc_message = "Bearer abcdef123 is no token, nor is joe:hunter2",
				 .trailers_only = true};
}

Test(client, what_a_server_repeats_is_masked)
{
	static const struct otlp_header headers[] = {{"authorization", "Bearer abcdef123"},
						     {"x-login", "joe:hunter2"}};
	struct mock_collector m = {.decide = repeat_headers};
	struct otlp_client_options opt = {.headers = headers, .n_headers = 2, .timeout_ns = CALL_TIMEOUT};
	_cleanup_client_ struct otlp_client *c = NULL;
	struct otlp_outcome o;
	char url[64];

	mock_collector_start(&m);
	snprintf(url, sizeof url, "http://127.0.0.1:%u", m.port);
	opt.endpoint = url;
	cr_assert_eq(otlp_client_new(&c, &opt, NULL), 0);
	cr_assert_eq(otlp_client_probe(c, -1, &o), 0);
	cr_expect_eq(o.verdict, OTLP_REJECTED);
	cr_expect_str_eq(o.text, "UNAUTHENTICATED: Bearer ********* is no token, nor is ***********");
	mock_collector_stop(&m);
}
