// SPDX-License-Identifier: Apache-2.0
/* Tests the export thread against Collectors that misbehave, on loopback. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "exporter_support.h"
#include "mock_collector.h"

/* Waits for the next event of this kind; any other event is a failure. */
static struct otlp_event expect_event(struct otlp_exporter *e, enum otlp_event_kind kind)
{
	struct pollfd fd = {.fd = otlp_exporter_event_fd(e), .events = POLLIN};
	struct otlp_event event;

	while (!otlp_exporter_next_event(e, &event))
		cr_assert_gt(poll(&fd, 1, LONG / NS_PER_MS), 0, "no event '%s' came", otlp_event_name(kind));
	cr_assert_eq(event.kind, kind, "%s instead of %s: %s", otlp_event_name(event.kind),
		     otlp_event_name(kind), event.text);
	return event;
}

static void expect_no_event(struct otlp_exporter *e)
{
	struct otlp_event event;

	cr_expect_not(otlp_exporter_next_event(e, &event), "%s: %s", otlp_event_name(event.kind), event.text);
}

static struct h2_reply accept_all(void *data, unsigned request)
{
	(void)data;
	(void)request;
	return (struct h2_reply){0};
}

/* Answers the first request with the reply in `data`, the others with success. */
static struct h2_reply first_only(void *data, unsigned request)
{
	return request ? (struct h2_reply){0} : *(struct h2_reply *)data;
}

static struct h2_reply always(void *data, unsigned request)
{
	(void)request;
	return *(struct h2_reply *)data;
}

Test(exporter, delivers_in_order)
{
	struct mock_collector m = {.decide = accept_all};
	struct otlp_exporter_stats s;

	mock_collector_start(&m);
	struct otlp_exporter *e = an_exporter(m.port, 0);
	for (char c = 'a'; c <= 'z'; c++) {
		otlp_exporter_submit(e, a_request(c, 1000, 3));
		stats_of(e);
	}
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	s = stats_of(e);
	cr_expect_eq(s.samples.exported, 26 * 3);
	cr_expect_eq(s.requests.exported, 26);
	cr_expect_eq(s.exported_raw_bytes, 26000);
	cr_expect_lt(s.exported_wire_bytes, 5000);
	cr_expect_eq(s.retries, 0);
	cr_expect_eq(m.n_connections, 1);
	cr_assert_eq(m.bodies.len, 26000);
	for (size_t i = 0; i < 26; i++)
		cr_expect_eq(m.bodies.data[i * 1000], 'a' + i);
	expect_no_event(e);
	otlp_exporter_submit(e, a_request('x', 10, 7));
	s = stats_of(e);
	cr_expect_eq(s.samples.dropped[OTLP_DROP_SHUTDOWN], 7);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

Test(exporter, outlives_an_outage)
{
	struct mock_collector m = {.decide = accept_all, .port = mock_free_port()};
	struct otlp_exporter *e = an_exporter(m.port, 0);
	struct otlp_exporter_stats s;
	struct otlp_event event;

	for (int i = 0; i < 5; i++)
		otlp_exporter_submit(e, a_request('a', 100, 1));
	event = expect_event(e, OTLP_EVENT_AWAY);
	cr_expect(strstr(event.text, "Connection refused"), "%s", event.text);
	s = stats_of(e);
	cr_expect(s.away);
	cr_expect_eq(s.samples.queued, 5);
	mock_collector_start(&m);
	cr_assert_eq(otlp_exporter_flush(e, clock_mono_ns() + LONG), 0);
	expect_event(e, OTLP_EVENT_BACK);
	s = stats_of(e);
	cr_expect_eq(s.samples.exported, 5);
	cr_expect_not(s.away);
	mock_collector_stop(&m);
	otlp_exporter_submit(e, a_request('b', 100, 1));
	expect_event(e, OTLP_EVENT_AWAY);
	expect_no_event(e);
	cr_expect_eq(otlp_exporter_stop(e, clock_mono_ns() + NS_PER_SEC / 10), -ETIMEDOUT);
	s = stats_of(e);
	cr_expect_eq(s.samples.dropped[OTLP_DROP_SHUTDOWN], 1);
	cr_expect_eq(s.samples.queued, 0);
	otlp_exporter_free(e);
}

/* After these answers the request is sent again at once, on a new connection, without an event. */
Test(exporter, resends_what_was_not_processed)
{
	struct h2_reply replies[] = {
		{.reset = true, .error = NGHTTP2_REFUSED_STREAM},
		{.goaway_unprocessed = true},
		{.goaway_unprocessed = true, .error = NGHTTP2_ENHANCE_YOUR_CALM},
		{.goaway_after = true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(replies); i++) {
		struct mock_collector m = {.decide = first_only, .data = &replies[i]};

		mock_collector_start(&m);
		struct otlp_exporter *e = an_exporter(m.port, 0);
		otlp_exporter_submit(e, a_request('a', 100, 1));
		otlp_exporter_submit(e, a_request('b', 100, 1));
		cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
		cr_expect_eq(stats_of(e).samples.exported, 2);
		cr_assert_eq(m.bodies.len, 200, "reply %zu", i);
		cr_expect_eq(m.bodies.data[0], 'a');
		cr_expect_eq(m.bodies.data[100], 'b');
		expect_no_event(e); /* an answer with a delay would be reported as an outage */
		otlp_exporter_free(e);
		mock_collector_stop(&m);
	}
}

/* Only samples that a server may have taken without an answer are counted as unanswered. */
Test(exporter, counts_what_is_in_doubt)
{
	struct {
		struct h2_reply reply;
		uint64_t doubt;
	} cases[] = {
		{{.cut = true}, 3},
		{{.hang = true}, 3},
		{{.reset = true, .error = NGHTTP2_CANCEL}, 3},
		{{.reset = true, .error = NGHTTP2_REFUSED_STREAM}, 0},
		{{.goaway_unprocessed = true}, 0},
		{{.trailers_only = true, .grpc_status = "14"}, 0},
		{{0}, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mock_collector m = {.decide = first_only, .data = &cases[i].reply};

		mock_collector_start(&m);
		struct otlp_exporter *e = an_exporter(m.port, 0);
		otlp_exporter_submit(e, a_request('a', 100, 3));
		cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
		cr_expect_eq(stats_of(e).samples.exported, 3, "case %zu", i);
		cr_expect_eq(stats_of(e).unanswered_samples, cases[i].doubt, "case %zu", i);
		otlp_exporter_free(e);
		mock_collector_stop(&m);
	}
}

/* After these answers the request is sent again later. */
Test(exporter, retries_later)
{
	struct h2_reply replies[] = {
		{.trailers_only = true, .grpc_status = "14", .grpc_message = "memory%20limit"},
		{.trailers_only = true, .grpc_status = "8", .pushback = "200"},
		{.cut = true},
		{.http_status = "503", .content_type = "text/html", .grpc_status = "", .trailers_only = true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(replies); i++) {
		struct mock_collector m = {.decide = first_only, .data = &replies[i]};
		uint64_t start = clock_mono_ns();

		mock_collector_start(&m);
		struct otlp_exporter *e = an_exporter(m.port, 0);
		otlp_exporter_submit(e, a_request('a', 100, 1));
		expect_event(e, OTLP_EVENT_AWAY);
		expect_event(e, OTLP_EVENT_BACK);
		cr_expect_geq(clock_mono_ns() - start, NS_PER_SEC / 5, "reply %zu", i);
		cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
		cr_expect_eq(stats_of(e).samples.exported, 1, "reply %zu", i);
		cr_expect_eq(stats_of(e).retries, 1);
		otlp_exporter_free(e);
		mock_collector_stop(&m);
	}
}

Test(exporter, drops_what_is_refused)
{
	static const struct {
		struct h2_reply reply;
		enum otlp_drop reason;
		const char *text;
	} cases[] = {
		{{.trailers_only = true, .grpc_status = "12", .grpc_message = "unknown service"},
		 OTLP_DROP_REJECTED,
		 "--feature-gates=+service.profilesSupport"},
		{{.trailers_only = true, .grpc_status = "3", .grpc_message = "bad%20index"},
		 OTLP_DROP_REJECTED,
		 "INVALID_ARGUMENT: bad index"},
		{{.grpc_status = "8", .grpc_message = "grpc: received message larger than max (5 vs. 4)"},
		 OTLP_DROP_TOO_LARGE,
		 "larger than max"},
		{{.reset = true, .error = NGHTTP2_INTERNAL_ERROR}, OTLP_DROP_REJECTED, "INTERNAL"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct mock_collector m = {.decide = always, .data = (void *)&cases[i].reply};
		struct otlp_event event;

		mock_collector_start(&m);
		struct otlp_exporter *e = an_exporter(m.port, 0);
		otlp_exporter_submit(e, a_request('a', 100, 4));
		otlp_exporter_submit(e, a_request('b', 100, 5));
		cr_assert_eq(otlp_exporter_flush(e, clock_mono_ns() + LONG), 0);
		event = expect_event(e, OTLP_EVENT_REJECTED);
		cr_expect(strstr(event.text, cases[i].text), "%s", event.text);
		expect_no_event(e); /* the second refusal has the same text */
		cr_expect_eq(stats_of(e).samples.dropped[cases[i].reason], 9, "case %zu", i);
		cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
		otlp_exporter_free(e);
		mock_collector_stop(&m);
	}
}

Test(exporter, counts_partial_success)
{
	/* One of the two profiles was rejected. */
	struct h2_reply reply = {.body = "\0\0\0\0\x0a\x0a\x08\x08\x01\x12\x04oops", .body_len = 15};
	struct mock_collector m = {.decide = always, .data = &reply};
	struct otlp_exporter_stats s;

	mock_collector_start(&m);
	struct otlp_exporter *e = an_exporter(m.port, 0);
	otlp_exporter_submit(e, a_request('a', 100, 9));
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	cr_expect_str_eq(expect_event(e, OTLP_EVENT_PARTIAL).text, "1 profiles were rejected: oops");
	s = stats_of(e);
	cr_expect_eq(s.samples.dropped[OTLP_DROP_PARTIAL_SUCCESS], 5);
	cr_expect_eq(s.samples.exported, 4);
	cr_expect_eq(s.requests.exported, 1);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

Test(exporter, full_queue_drops_the_oldest_and_sleeps)
{
	struct otlp_exporter *e = an_exporter(mock_free_port(), 20000);
	struct otlp_exporter_stats s;
	struct timespec before, after;
	int64_t cpu_ns;

	for (int i = 0; i < 500; i++)
		otlp_exporter_submit(e, a_request('a', 1000, 1));
	expect_event(e, OTLP_EVENT_AWAY);
	/* one that is being compressed cannot be dropped: the queue is larger until that is done */
	while (stats_of(e).queued_bytes > 20000)
		poll(NULL, 0, 1);
	s = stats_of(e);
	cr_expect_gt(s.samples.dropped[OTLP_DROP_QUEUE_FULL], 0);
	cr_expect_gt(s.samples.queued, 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	poll(NULL, 0, 1500); /* what follows is a state, so there is no condition to wait for */
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	cpu_ns = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
	cr_expect_lt(cpu_ns, 30000000, "%" PRId64 " ns of CPU while there is nothing to do", cpu_ns);
	cr_expect_leq(stats_of(e).attempts, 5);
	otlp_exporter_free(e);
}

Test(exporter, stops_in_time_without_an_answer)
{
	struct h2_reply reply = {.hang = true};
	struct mock_collector m = {.decide = always, .data = &reply};
	uint64_t start;

	mock_collector_start(&m);
	struct otlp_exporter *e = an_exporter(m.port, 0);
	otlp_exporter_submit(e, a_request('a', 100, 1));
	while (!atomic_load(&m.n_requests))
		poll(NULL, 0, 1);
	start = clock_mono_ns();
	cr_expect_eq(otlp_exporter_stop(e, start + NS_PER_SEC / 5), -ETIMEDOUT);
	cr_expect_lt(clock_mono_ns() - start, CALL_TIMEOUT, "it does not wait for the call");
	cr_expect_eq(stats_of(e).samples.dropped[OTLP_DROP_SHUTDOWN], 1);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

Test(exporter, deadline_of_a_call)
{
	struct h2_reply reply = {.hang = true};
	struct mock_collector m = {.decide = first_only, .data = &reply};

	mock_collector_start(&m);
	struct otlp_exporter *e = an_exporter(m.port, 0);
	otlp_exporter_submit(e, a_request('a', 100, 1));
	cr_expect(strstr(expect_event(e, OTLP_EVENT_AWAY).text, "DEADLINE_EXCEEDED"));
	expect_event(e, OTLP_EVENT_BACK);
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	cr_expect_eq(stats_of(e).samples.exported, 1);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

/*
 * A server that closes the connection between requests: noticed at once, and the next request gets a
 * new connection.
 */
Test(exporter, idle_connection_is_closed_by_the_server)
{
	struct mock_collector m = {.decide = accept_all, .port = mock_free_port()};

	mock_collector_start(&m);
	struct otlp_exporter *e = an_exporter(m.port, 0);
	otlp_exporter_submit(e, a_request('a', 100, 1));
	cr_assert_eq(otlp_exporter_flush(e, clock_mono_ns() + LONG), 0);
	mock_collector_stop(&m);
	m = (struct mock_collector){.decide = accept_all, .port = m.port};
	mock_collector_start(&m);
	otlp_exporter_submit(e, a_request('b', 100, 1));
	cr_assert_eq(otlp_exporter_flush(e, clock_mono_ns() + LONG), 0);
	expect_no_event(e);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

Test(exporter, bad_options)
{
	static const struct otlp_header broken = {"authorization", "se\ncret"};
	static const struct {
		struct otlp_client_options client;
		const char *why;
	} cases[] = {
		{{.endpoint = "localhost:4317"}, "scheme"},
		{{.endpoint = "http://h", .tls = {.cert = "a.pem"}}, "tls.key"},
		{{.endpoint = "http://h", .headers = &broken, .n_headers = 1}, "header"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct otlp_exporter_options opt = {.client = cases[i].client};
		struct otlp_exporter *e;
		const char *why = NULL;

		cr_assert_eq(otlp_exporter_new(&e, &opt, &why), -EINVAL);
		cr_expect(strstr(why, cases[i].why), "%s", why);
		cr_expect_not(strstr(why, "cret"));
	}
}
