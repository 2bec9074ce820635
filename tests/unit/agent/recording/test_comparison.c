// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/recording/comparison.h"

#define SECONDS 30u
#define HZ 997u
#define FUNCTIONS 8

static const char *const names[FUNCTIONS] = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"};
static const double weights[FUNCTIONS] = {30, 20, 20, 15, 8, 4, 2, 1};

static uint64_t state;

static double uniform(void) /* another generator than the comparison's */
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(state >> 11) / 9007199254740992.0;
}

/* A sample of one of the functions, below main, at that time. */
static void add_sample(struct comparison *c, enum comparison_side side, const double *of, uint64_t time)
{
	double sum = 0, at;
	struct frame frames[] = {{0}, {.function = "main"}};
	const struct recording_stack s = {
		.stack = {.frames = frames, .n_frames = ARRAY_SIZE(frames), .count = 1},
		.times = time ? &time : NULL,
		.n_times = time != 0};
	size_t i = 0;

	for (size_t k = 0; k < FUNCTIONS; k++)
		sum += of[k];
	at = uniform() * sum;
	while (i + 1 < FUNCTIONS && at >= of[i])
		at -= of[i++];
	frames[0].function = names[i];
	cr_assert_eq(comparison_add(c, side, &s, 1), 0);
}

/* A recording of a load whose functions have these weights; with `burst`, the first one comes in bursts. */
static void add_recording(struct comparison *c, enum comparison_side side, double slower, bool times,
			  bool burst)
{
	double of[FUNCTIONS];

	if (times)
		comparison_set_times(c, side, NS_PER_SEC, (1 + SECONDS) * NS_PER_SEC);
	for (unsigned i = 0; i < SECONDS * HZ; i++) {
		const unsigned phase = i / HZ;

		for (size_t k = 0; k < FUNCTIONS; k++)
			of[k] = weights[k];
		of[1] *= slower;
		if (burst && i % HZ == 0)
			state += phase;
		if (burst) /* each second, how much of it is another */
			of[0] *= 0.5 + (double)((phase * 2654435761u + (unsigned)(state >> 60)) % 16) / 8;
		add_sample(c, side, of, times ? NS_PER_SEC + i * (NS_PER_SEC / HZ) : 0);
	}
}

struct outcome {
	unsigned n_certain; /* differences beyond noise */
	const char *first;  /* the first of them */
};

static struct outcome compare(uint64_t seed, double slower, bool times, bool burst)
{
	struct comparison *c = NULL;
	_cleanup_free_ struct comparison_row *rows = NULL;
	struct outcome ret = {0};
	size_t n;

	state = seed * 0x9e3779b97f4a7c15ull + 1;
	cr_assert_eq(comparison_new(&c, false), 0);
	add_recording(c, COMPARISON_A, 1, times, burst);
	add_recording(c, COMPARISON_B, slower, times, burst);
	cr_assert_eq(comparison_rows(c, false, &rows, &n), 0);
	for (size_t i = 0; i < n; i++)
		ret.n_certain += rows[i].certain;
	for (size_t i = 0; i < FUNCTIONS && ret.n_certain; i++)
		if (strcmp(rows[0].name, names[i]) == 0)
			ret.first = names[i];
	comparison_free(c);
	return ret;
}

static void expect_noise(bool times, bool burst)
{
	unsigned n_wrong = 0;

	for (uint64_t seed = 0; seed < 20; seed++)
		n_wrong += compare(seed, 1, times, burst).n_certain > 0;
	cr_expect_leq(n_wrong, 1, "%u of 20 pairs of equal loads differ", n_wrong);
}

Test(comparison, equal_loads_do_not_differ)
{
	expect_noise(true, false);
	expect_noise(false, false);
}

Test(comparison, a_load_that_varies_by_itself_does_not_differ)
{
	expect_noise(true, true);
}

Test(comparison, a_function_that_became_slower_is_the_first_row)
{
	unsigned n_found = 0, n_found_without_times = 0;

	for (uint64_t seed = 0; seed < 20; seed++) {
		const struct outcome timed = compare(seed, 1.1, true, false),
				     untimed = compare(seed, 1.1, false, false);

		n_found += timed.first && strcmp(timed.first, "f1") == 0;
		n_found_without_times += untimed.first && strcmp(untimed.first, "f1") == 0;
	}
	cr_expect_geq(n_found, 19, "%u of 20", n_found);
	cr_expect_geq(n_found_without_times, 19, "%u of 20", n_found_without_times);
}

/* Adds samples of a function, of a module. */
static void add(struct comparison *c, enum comparison_side side, const struct frame *frames, size_t n,
		uint64_t count)
{
	const struct recording_stack s = {.stack = {.frames = frames, .n_frames = n, .count = count}};

	cr_assert_eq(comparison_add(c, side, &s, 1), 0);
}

Test(comparison, recursion_counts_once_and_shares_are_of_all)
{
	static const struct frame_module app = {.name = "app", .path = "/app"};
	const struct frame recursive[] = {{.function = "f"}, {.function = "g"}, {.function = "f"}};
	const struct frame other[] = {{.function = "f", .module = &app}};
	struct comparison *c = NULL;
	_cleanup_free_ struct comparison_row *rows = NULL;
	size_t n;

	cr_assert_eq(comparison_new(&c, false), 0);
	add(c, COMPARISON_A, recursive, 3, 3000);
	add(c, COMPARISON_A, other, 1, 1000);
	add(c, COMPARISON_B, other, 1, 500);
	cr_assert_eq(comparison_rows(c, true, &rows, &n), 0);
	cr_assert_eq(n, 3); /* f, g, and f of app, which is another function */
	cr_expect_str_eq(rows[0].name, "f");
	cr_expect_str_eq(rows[0].origin, "app");
	cr_expect_float_eq(rows[0].a, 0.25, 1e-9);
	cr_expect_float_eq(rows[0].b, 1, 1e-9);
	cr_expect(rows[0].certain);
	cr_expect_float_eq(rows[1].a, 0.75, 1e-9);
	cr_expect_float_eq(rows[1].b, 0, 1e-9);
	comparison_free(c);
}

Test(comparison, without_modules_equal_names_are_one)
{
	static const struct frame_module app = {.name = "app", .path = "/app"};
	const struct frame with[] = {{.function = "f", .module = &app}}, without[] = {{.function = "f"}};
	struct comparison *c = NULL;
	_cleanup_free_ struct comparison_row *rows = NULL;
	size_t n;

	cr_assert_eq(comparison_new(&c, true), 0);
	add(c, COMPARISON_A, with, 1, 100);
	add(c, COMPARISON_B, without, 1, 100);
	cr_assert_eq(comparison_rows(c, false, &rows, &n), 0);
	cr_assert_eq(n, 1);
	cr_expect_not(rows[0].certain);
	comparison_free(c);
}
