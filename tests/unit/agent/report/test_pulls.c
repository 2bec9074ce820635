// SPDX-License-Identifier: Apache-2.0
/* Which samples a pull gets: those of its time and of whom it names, and no export misses them. */
#include "agent/report/pulls.h"

#include <errno.h>
#include <stdio.h>

#include "agent/base/cleanup.h"
#include "agent/output/folded.h"
#include "fake_machine.h"

#define CALLER frame_native(4711, 0x1000)
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SIZE (1u << 20)

struct pulled {
	uint64_t number, samples;
	uint32_t frequency_hz;
	char folded[8192];
	unsigned n;
};

static void on_done(uint64_t number, struct output_profile *profile, void *data)
{
	struct pulled *p = data;
	FILE *f = fmemopen(p->folded, sizeof p->folded, "w");

	cr_assert_eq(output_folded_write(profile, &(struct output_folded_options){0}, f), 0);
	fclose(f);
	p->number = number;
	p->samples = output_profile_samples(profile);
	p->frequency_hz = output_profile_frequency(profile);
	p->n++;
}

static int begin(struct pulls *p, uint64_t number, struct pull_selector s, uint64_t seconds,
		 struct pulled *ret)
{
	const struct pull_options o = {.number = number,
				       .selector = s,
				       .from_ns = machine_now_ns,
				       .until_ns = machine_now_ns + seconds * NS_PER_SEC,
				       .max_bytes = SIZE,
				       .done = on_done,
				       .data = ret};

	return pulls_begin(p, &o);
}

static struct pulls *open_report(struct machine *m)
{
	machine_init(m, 1);
	m->options.max_pulls = 2;
	machine_report(m);
	return report_pulls(m->report);
}

Test(pulls, selectors)
{
	const struct pull_identity who = {
		.pid = 7, .container_id = ID, .container_name = "web", .pod = "web-0", .namespace = "shop"};
	const struct pull_identity host = {.pid = 8};
	static const struct {
		struct pull_selector s;
		bool selects, selects_host;
	} cases[] = {
		{{0}, true, true},
		{{.pid = 7}, true, false},
		{{.pid = 8}, false, true},
		{{.container = "web"}, true, false},
		{{.container = "we"}, false, false},
		{{.container = "0123456789ab"}, true, false},
		{{.container = "0123456789a"}, false, false},
		{{.container = ID}, true, false},
		{{.container = ID "0"}, false, false},
		{{.container = "1123456789ab"}, false, false},
		{{.pod = "web-0"}, true, false},
		{{.pod = "web-00"}, false, false},
		{{.namespace = "shop"}, true, false},
		{{.namespace = "sho"}, false, false},
		{{.pid = 7, .container = "web", .pod = "web-0", .namespace = "shop"}, true, false},
		{{.pid = 7, .container = "db"}, false, false},
		{{.pid = 8, .container = "web"}, false, false},
		{{.pod = "web-0", .namespace = "other"}, false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cr_expect_eq(pull_selects(&cases[i].s, &who), cases[i].selects, "case %zu", i);
		cr_expect_eq(pull_selects(&cases[i].s, &host), cases[i].selects_host, "case %zu", i);
	}
}

Test(pulls, take_the_samples_of_their_time)
{
	_cleanup_machine_ struct machine m;
	struct pulls *pulls = open_report(&m);
	struct process *p = machine_process(&m, 7);
	struct pulled got = {0};

	cr_expect_not(pulls_any(pulls));
	machine_add_alpha(&m, p, CALLER); /* before */
	machine_now_ns += NS_PER_SEC;
	cr_assert_eq(begin(pulls, 5, (struct pull_selector){0}, 2, &got), 0);
	cr_expect(pulls_any(pulls));
	cr_expect_eq(pulls_next_ns(pulls), machine_now_ns + 2 * NS_PER_SEC);
	machine_add_alpha(&m, p, CALLER);
	machine_now_ns += NS_PER_SEC;
	machine_flush(&m);
	cr_expect_eq(got.n, 0, "it is not over");
	machine_add_alpha(&m, p, CALLER);
	machine_now_ns += NS_PER_SEC;
	machine_add_alpha(&m, p, CALLER); /* after */
	machine_flush(&m);
	cr_assert_eq(got.n, 1);
	cr_expect_eq(got.number, 5);
	cr_expect_eq(got.samples, 2, "of two windows");
	cr_expect_eq(got.frequency_hz, 100);
	cr_expect_str_eq(got.folded, "app;0x1000;machine_alpha 2\n");
	cr_expect_not(pulls_any(pulls));
	cr_expect_eq(pulls_next_ns(pulls), 0);
	cr_expect_eq(m.n_events, 4, "all are exported");
	cr_expect_eq(machine_stats(&m).waiting, 0);
}

Test(pulls, take_only_whom_they_name)
{
	_cleanup_machine_ struct machine m;
	struct pulls *pulls = open_report(&m);
	struct process *p = machine_process(&m, 7), *q = machine_process(&m, 8);
	struct pulled by_pid = {0}, by_container = {0};

	machine_workload(&m, q, ID, "", "");
	cr_assert_eq(begin(pulls, 1, (struct pull_selector){.pid = 7}, 1, &by_pid), 0);
	cr_assert_eq(begin(pulls, 2, (struct pull_selector){.container = "0123456789ab"}, 1, &by_container),
		     0);
	machine_add_alpha(&m, p, CALLER);
	for (int i = 0; i < 3; i++)
		machine_add_alpha(&m, q, CALLER);
	machine_now_ns += NS_PER_SEC;
	machine_flush(&m);
	cr_expect_eq(by_pid.samples, 1);
	cr_expect_eq(by_container.samples, 3);
	cr_expect_eq(m.n_events, 4);
}

Test(pulls, no_more_at_once_than_the_maximum)
{
	_cleanup_machine_ struct machine m;
	struct pulls *pulls = open_report(&m);
	struct pulled got[3] = {0};

	cr_expect_eq(begin(pulls, 1, (struct pull_selector){0}, 1, &got[0]), 0);
	cr_expect_eq(begin(pulls, 2, (struct pull_selector){0}, 1, &got[1]), 0);
	cr_expect_eq(begin(pulls, 3, (struct pull_selector){0}, 1, &got[2]), -EBUSY);
	pulls_cancel(pulls, 4);
	cr_expect_eq(begin(pulls, 3, (struct pull_selector){0}, 1, &got[2]), -EBUSY);
	pulls_cancel(pulls, 1);
	cr_expect_eq(begin(pulls, 3, (struct pull_selector){.pod = "x"}, 1, &got[2]), 0);
	machine_now_ns += NS_PER_SEC;
	machine_flush(&m);
	cr_expect_eq(got[0].n, 0);
	cr_expect_eq(got[1].n, 1);
	cr_expect_eq(got[2].n, 1);
	cr_expect_eq(got[2].samples, 0);
	cr_expect_eq(begin(pulls, 4, (struct pull_selector){0}, 1, &got[0]), 0);
	pulls_cancel(pulls, 0);
	cr_expect_not(pulls_any(pulls));
}

Test(pulls, the_frequency_is_the_mean)
{
	_cleanup_machine_ struct machine m;
	struct pulls *pulls = open_report(&m);
	struct process *p = machine_process(&m, 7);
	struct pulled got = {0};

	cr_assert_eq(begin(pulls, 1, (struct pull_selector){0}, 2, &got), 0);
	for (int i = 0; i < 4; i++)
		machine_add_alpha(&m, p, CALLER); /* 40 ms at 100 Hz */
	machine_flush(&m);
	report_set_frequency(m.report, 50);
	machine_now_ns += NS_PER_SEC;
	for (int i = 0; i < 4; i++)
		machine_add_alpha(&m, p, CALLER); /* 80 ms at 50 Hz */
	machine_now_ns += NS_PER_SEC;
	machine_flush(&m);
	cr_expect_eq(got.samples, 8);
	cr_expect_eq(got.frequency_hz, 67);
}

/* Names of a tenant's choice do not fill the memory: what has no room is [other]. */
Test(pulls, a_profile_is_bounded)
{
	_cleanup_machine_ struct machine m;
	struct pulls *pulls = open_report(&m);
	struct process *p = machine_process(&m, 7);
	struct pulled got = {0};
	struct pull_options o = {.number = 1,
				 .from_ns = machine_now_ns,
				 .until_ns = machine_now_ns + NS_PER_SEC,
				 .max_bytes = 128 * 64,
				 .done = on_done,
				 .data = &got};

	cr_assert_eq(pulls_begin(pulls, &o), 0);
	for (uint64_t i = 0; i < 400; i++)
		machine_add_alpha(&m, p, CALLER + 16 * i);
	machine_now_ns += NS_PER_SEC;
	machine_flush(&m);
	cr_expect_eq(got.n, 1);
	cr_expect_eq(got.samples, 400);
}
