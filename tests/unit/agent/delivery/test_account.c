// SPDX-License-Identifier: Apache-2.0
/* The numbers of a delivery process, and what they sum up to when it has ended and another one begins. */
#include "agent/delivery/account.h"

#include <criterion/criterion.h>
#include <string.h>

static uint64_t dropped(const struct otlp_count *c)
{
	uint64_t n = 0;

	for (int i = 0; i < OTLP_N_DROP_REASONS; i++)
		n += c->dropped[i];
	return n;
}

static void check_identity(const struct otlp_count *c)
{
	cr_expect_eq(c->submitted + c->recovered, c->exported + dropped(c) + c->queued + c->spooled);
}

static struct account_page *page;

static void open_page(void)
{
	cr_assert_eq(account_page_new(&page), 0);
}

static void close_page(void)
{
	account_page_free(page);
}

TestSuite(account, .init = open_page, .fini = close_page);

Test(account, nothing_is_written_yet)
{
	struct otlp_exporter_stats s = {.attempts = 7};
	struct http_server_stats h = {.late = 3};

	cr_expect_not(account_get_exports(page, &s));
	cr_expect_eq(s.attempts, 7, "it stays as it was");
	cr_expect_not(account_get_http(page, &h));
	cr_expect_eq(h.late, 3);
}

Test(account, the_last_value_is_read)
{
	struct otlp_exporter_stats s = {0};
	struct http_server_stats h = {0};

	for (uint64_t i = 1; i <= 5; i++) {
		account_put_exports(page, &(struct otlp_exporter_stats){.attempts = i, .away = i & 1});
		account_put_http(page, &(struct http_server_stats){.accepted = i, .paused = 2 * i});
		cr_assert(account_get_exports(page, &s));
		cr_assert(account_get_http(page, &h));
		cr_expect_eq(s.attempts, i);
		cr_expect_eq(s.away, i & 1);
		cr_expect_eq(h.accepted, i);
		cr_expect_eq(h.paused, 2 * i);
	}
}

/* The other process may write anything at any time. */
Test(account, any_bytes_are_safe_to_read)
{
	struct otlp_exporter_stats s = {0};

	memset(page, 0xa5, sizeof *page);
	cr_assert(account_get_exports(page, &s));
	cr_expect(s.away == true);
	cr_expect_eq(strlen(s.last.text), sizeof s.last.text - 1);
	cr_expect_eq(s.last.verdict, 0, "what nobody reads is not taken");
}

Test(account, a_process_that_has_ended)
{
	struct otlp_exporter_stats before = {.samples = {.submitted = 100,
							 .exported = 60,
							 .queued = 30,
							 .spooled = 10},
					     .attempts = 5,
					     .cpu_ns = 1000,
					     .away = true},
				   sum;

	account_lose_queue(&before);
	check_identity(&before.samples);
	cr_expect_eq(before.samples.dropped[OTLP_DROP_NO_SENDER], 30);
	cr_expect_eq(before.samples.queued, 0);
	cr_expect_not(before.away);

	/* the next one finds all that was in the spool */
	account_sum(&before,
		    &(struct otlp_exporter_stats){
			    .samples = {.submitted = 8, .recovered = 10, .exported = 15, .queued = 3},
			    .attempts = 2,
			    .cpu_ns = 10},
		    &sum);
	check_identity(&sum.samples);
	cr_expect_eq(sum.samples.submitted, 108);
	cr_expect_eq(sum.samples.exported, 75);
	cr_expect_eq(sum.samples.recovered, 0, "it was never of another run");
	cr_expect_eq(sum.samples.spooled, 0);
	cr_expect_eq(sum.attempts, 7);
	cr_expect_eq(sum.cpu_ns, 1010);
}

Test(account, what_an_earlier_run_left_counts_once)
{
	const struct otlp_exporter_stats before = {
		.samples = {.recovered = 50, .exported = 20, .spooled = 30}};
	struct otlp_exporter_stats sum;

	account_sum(&before, &(struct otlp_exporter_stats){.samples = {.recovered = 30, .spooled = 30}},
		    &sum);
	check_identity(&sum.samples);
	cr_expect_eq(sum.samples.recovered, 50);
	account_sum(&before, &(struct otlp_exporter_stats){.samples = {.recovered = 34, .spooled = 34}},
		    &sum);
	check_identity(&sum.samples);
	cr_expect_eq(sum.samples.recovered, 54, "there was more than it knew");
}

Test(account, what_is_missing_in_the_spool_is_dropped)
{
	const struct otlp_exporter_stats before = {.samples = {.submitted = 30, .spooled = 30}};
	struct otlp_exporter_stats sum;

	account_sum(&before, &(struct otlp_exporter_stats){.samples = {.recovered = 12, .spooled = 12}},
		    &sum);
	check_identity(&sum.samples);
	cr_expect_eq(sum.samples.dropped[OTLP_DROP_SPOOL_DAMAGED], 18);
	cr_expect_eq(sum.samples.recovered, 0);
}
