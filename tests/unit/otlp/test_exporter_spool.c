// SPDX-License-Identifier: Apache-2.0
/* Tests the export thread with a spool, against a Collector that is temporarily away. */
#include <errno.h>
#include <sys/mount.h>

#include "exporter_support.h"
#include "mock_collector.h"
#include "spool_folder.h"

#define MIB (1u << 20)

static struct spool_folder folder;

static void setup(void)
{
	spool_folder_make(&folder);
}

static void teardown(void)
{
	spool_folder_remove(&folder);
}

TestSuite(exporter_spool, .init = setup, .fini = teardown);

static struct h2_reply accept_all(void *data, unsigned request)
{
	(void)data;
	(void)request;
	return (struct h2_reply){0};
}

static struct otlp_exporter *spooling(uint16_t port, uint64_t max_bytes)
{
	return exporter_to(port, (struct otlp_exporter_options){.spool_path = folder.path,
								.spool_max_bytes = max_bytes});
}

static void submit(struct otlp_exporter *e, char first, char last)
{
	for (char c = first; c <= last; c++)
		otlp_exporter_submit(e, a_request(c, 100, 3));
}

/* Waits until so many requests are on disk and none in memory. */
static void wait_spooled(struct otlp_exporter *e, uint64_t n)
{
	uint64_t end = clock_mono_ns() + LONG;

	while (stats_of(e).requests.spooled != n || stats_of(e).requests.queued) {
		cr_assert_lt(clock_mono_ns(), end, "%" PRIu64 " spooled, %" PRIu64 " queued",
			     stats_of(e).requests.spooled, stats_of(e).requests.queued);
		usleep(1000);
	}
}

/* The Collector has received these requests, each once and in order. */
static void expect_bodies(struct mock_collector *m, char first, char last)
{
	size_t n = (size_t)last - (size_t)first + 1;

	cr_assert_eq(m->bodies.len, n * 100, "%zu requests came", m->bodies.len / 100);
	for (size_t i = 0; i < n; i++)
		cr_expect_eq(m->bodies.data[i * 100], first + (char)i);
}

static bool next_event_is(struct otlp_exporter *e, enum otlp_event_kind kind, struct otlp_event *ret)
{
	while (otlp_exporter_next_event(e, ret))
		if (ret->kind == kind)
			return true;
	return false;
}

Test(exporter_spool, nothing_on_disk_while_all_is_well)
{
	struct mock_collector m = {.decide = accept_all};

	mock_collector_start(&m);
	struct otlp_exporter *e = spooling(m.port, MIB);
	submit(e, 'a', 'z');
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	cr_expect_eq(stats_of(e).requests.exported, 26);
	cr_expect_eq(spool_folder_count(&folder), 0);
	expect_bodies(&m, 'a', 'z');
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

Test(exporter_spool, an_outage_in_order)
{
	struct mock_collector m = {.decide = accept_all, .port = mock_free_port()};
	struct otlp_exporter *e = spooling(m.port, MIB);
	struct otlp_event event;

	submit(e, 'a', 'j');
	wait_spooled(e, 10);
	cr_expect_eq(spool_folder_count(&folder), 10);
	mock_collector_start(&m);
	submit(e, 'k', 'm');
	cr_assert_eq(otlp_exporter_flush(e, clock_mono_ns() + LONG), 0);
	expect_bodies(&m, 'a', 'm');
	cr_expect_eq(stats_of(e).requests.exported, 13);
	cr_expect_eq(stats_of(e).samples.spooled, 0);
	cr_expect_eq(spool_folder_count(&folder), 0);
	cr_expect(next_event_is(e, OTLP_EVENT_BACK, &event));
	submit(e, 'n', 'n');
	cr_assert_eq(otlp_exporter_flush(e, clock_mono_ns() + LONG), 0);
	cr_expect_eq(stats_of(e).requests.recovered, 0);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

Test(exporter_spool, the_next_life_delivers)
{
	struct mock_collector m = {.decide = accept_all, .port = mock_free_port()};
	struct otlp_exporter *e = spooling(m.port, MIB);
	struct otlp_exporter_stats s;
	struct otlp_event event;

	submit(e, 'a', 'e');
	cr_expect_eq(otlp_exporter_stop(e, clock_mono_ns() + NS_PER_SEC / 10), -ETIMEDOUT);
	s = stats_of(e);
	cr_expect_eq(s.requests.spooled, 5);
	cr_expect_eq(s.requests.dropped[OTLP_DROP_SHUTDOWN], 0);
	otlp_exporter_free(e);

	mock_collector_start(&m);
	e = spooling(m.port, MIB);
	submit(e, 'f', 'g');
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	expect_bodies(&m, 'a', 'g');
	s = stats_of(e);
	cr_expect_eq(s.samples.recovered, 15);
	cr_expect_eq(s.samples.submitted, 6);
	cr_expect_eq(s.samples.exported, 21);
	cr_assert(next_event_is(e, OTLP_EVENT_SPOOL_RECOVERED, &event));
	cr_expect_eq(event.n_queued_requests, 5);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

/* Nothing is gained by waiting for a Collector, when all that it should get is on disk. */
Test(exporter_spool, a_stop_without_a_collector_is_quick)
{
	struct otlp_exporter *e = spooling(mock_free_port(), MIB);
	uint64_t begin;

	submit(e, 'a', 'e');
	wait_spooled(e, 5);
	submit(e, 'f', 'g');
	begin = clock_mono_ns();
	cr_expect_eq(otlp_exporter_stop(e, begin + LONG), -ETIMEDOUT);
	cr_expect_lt(clock_mono_ns() - begin, OTLP_STOP_AWAY_NS);
	cr_expect_eq(stats_of(e).requests.spooled, 7);
	cr_expect_eq(stats_of(e).requests.dropped[OTLP_DROP_SHUTDOWN], 0);
	otlp_exporter_free(e);
}

/* An update of the agent: the new one starts beside the old one, and has the folder when that has ended. */
Test(exporter_spool, the_next_agent_waits_for_the_folder)
{
	struct mock_collector m = {.decide = accept_all, .port = mock_free_port()};
	struct otlp_exporter *old = spooling(m.port, MIB), *e;
	struct otlp_event event;

	submit(old, 'a', 'c');
	wait_spooled(old, 3);
	e = spooling(m.port, MIB);
	cr_assert(next_event_is(e, OTLP_EVENT_SPOOL_BUSY, &event));
	submit(e, 'd', 'f');
	cr_expect_eq(stats_of(e).requests.queued, 3);
	(void)otlp_exporter_stop(old, 0);
	otlp_exporter_free(old);
	wait_spooled(e, 6);
	cr_assert(next_event_is(e, OTLP_EVENT_SPOOL_RECOVERED, &event));
	cr_expect_eq(stats_of(e).requests.recovered, 3);
	mock_collector_start(&m);
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	expect_bodies(&m, 'a', 'f');
	cr_expect_eq(spool_folder_count(&folder), 0);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

Test(exporter_spool, a_small_spool_keeps_the_newest)
{
	struct mock_collector m = {.decide = accept_all, .port = mock_free_port()};
	struct otlp_exporter *e = spooling(m.port, 4 * OTLP_SPOOL_BLOCK);
	struct otlp_event event;

	for (char c = 'a'; c <= 'j'; c++) {
		submit(e, c, c);
		wait_spooled(e, c < 'd' ? (uint64_t)(c - 'a' + 1) : 4);
	}
	cr_expect_eq(stats_of(e).samples.dropped[OTLP_DROP_SPOOL_FULL], 18);
	mock_collector_start(&m);
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	expect_bodies(&m, 'g', 'j');
	cr_expect(next_event_is(e, OTLP_EVENT_SPOOL_DROPPED, &event));
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

static struct h2_reply refuse_third(void *data, unsigned request)
{
	(void)data;
	return request == 2 ? (struct h2_reply){.grpc_status = "3", .grpc_message = "no"}
			    : (struct h2_reply){0};
}

Test(exporter_spool, a_refused_request_does_not_stay)
{
	struct mock_collector m = {.decide = refuse_third, .port = mock_free_port()};
	struct otlp_exporter *e = spooling(m.port, MIB);

	submit(e, 'a', 'e');
	wait_spooled(e, 5);
	mock_collector_start(&m);
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	cr_expect_eq(stats_of(e).requests.exported, 4);
	cr_expect_eq(stats_of(e).requests.dropped[OTLP_DROP_REJECTED], 1);
	cr_expect_eq(spool_folder_count(&folder), 0);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

Test(exporter_spool, a_damaged_file_is_counted)
{
	struct mock_collector m = {.decide = accept_all, .port = mock_free_port()};
	struct otlp_exporter *e = spooling(m.port, MIB);
	char name[512];

	submit(e, 'a', 'c');
	(void)otlp_exporter_stop(e, 0);
	otlp_exporter_free(e);
	cr_assert(spool_folder_name(&folder, 0, name));
	cr_assert_eq(truncate(name, 10), 0);
	mock_collector_start(&m);
	e = spooling(m.port, MIB);
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	expect_bodies(&m, 'b', 'c');
	cr_expect_eq(stats_of(e).samples.dropped[OTLP_DROP_SPOOL_DAMAGED], 3);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}

/*
 * A disk that fills up: requests that do not fit remain in memory, and are delivered in order after those
 * on disk.
 */
Test(exporter_spool, what_a_full_disk_refuses_stays_in_memory)
{
	struct mock_collector m = {.decide = accept_all, .port = mock_free_port()};
	struct otlp_exporter *e;
	struct otlp_event event;
	uint64_t end = clock_mono_ns() + LONG;

	if (mount("tmpfs", folder.parent, "tmpfs", MS_NOSUID, "size=32k") < 0)
		cr_skip("cannot mount: %s", strerror(errno));
	e = spooling(m.port, MIB);
	submit(e, 'a', 'z');
	while (!stats_of(e).spool_failures) {
		cr_assert_lt(clock_mono_ns(), end);
		usleep(1000);
	}
	cr_expect_gt(stats_of(e).requests.spooled, 0);
	cr_expect_gt(stats_of(e).requests.queued, 0);
	cr_assert(next_event_is(e, OTLP_EVENT_SPOOL_FAILED, &event));
	cr_expect(strstr(event.text, "No space left"), "%s", event.text);
	mock_collector_start(&m);
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	expect_bodies(&m, 'a', 'z');
	otlp_exporter_free(e);
	mock_collector_stop(&m);
	umount(folder.parent);
}

Test(exporter_spool, without_its_folder_it_goes_on)
{
	struct mock_collector m = {.decide = accept_all};
	struct otlp_exporter_options opt = {.spool_path = "/nonexistent/spool", .spool_max_bytes = MIB};
	struct otlp_event event;

	mock_collector_start(&m);
	struct otlp_exporter *e = exporter_to(m.port, opt);
	submit(e, 'a', 'b');
	cr_assert_eq(otlp_exporter_stop(e, clock_mono_ns() + LONG), 0);
	expect_bodies(&m, 'a', 'b');
	cr_assert(next_event_is(e, OTLP_EVENT_SPOOL_FAILED, &event));
	cr_expect(strstr(event.text, "No such file"), "%s", event.text);
	otlp_exporter_free(e);
	mock_collector_stop(&m);
}
