// SPDX-License-Identifier: Apache-2.0
/* table_equality: compares `proflet tables` with readelf, an independent reader of the same bytes. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/parse.h"
#include "tests/oracle/equality/check.h"
#include "tests/oracle/equality/help.h"
#include "tests/oracle/equality/selftest.h"

struct totals {
	size_t files, with_rows, failed;
	struct compare_result sum;
	uint64_t begin_ns;
};

enum { OPT_PROFLET = 256, OPT_ROWS, OPT_SUMMARY, OPT_REFERENCE, OPT_SHOW, OPT_SELF_TEST, OPT_HELP };

static const struct option options[] = {
	{"proflet", required_argument, NULL, OPT_PROFLET},
	{"rows", required_argument, NULL, OPT_ROWS},
	{"summary", required_argument, NULL, OPT_SUMMARY},
	{"reference", required_argument, NULL, OPT_REFERENCE},
	{"show", required_argument, NULL, OPT_SHOW},
	{"self-test", no_argument, NULL, OPT_SELF_TEST},
	{"help", no_argument, NULL, OPT_HELP},
	{0},
};

/* ", 3 go, 17 plt" */
static void print_counts(const struct compare_result *r)
{
	static const char *const names[] = {
#define X(name, printed, text) printed,
		COMPARE_COUNTS(X)
#undef X
	};

	for (size_t i = 0; i < N_COUNTS; i++) {
		if (r->counts[i])
			printf(", %zu %s", r->counts[i], names[i]);
	}
}

static double seconds_since(uint64_t begin_ns)
{
	return (double)(clock_mono_ns() - begin_ns) / 1e9;
}

static void check_one(const struct check_options *o, const char *path, struct totals *t)
{
	uint64_t begin_ns = clock_mono_ns();
	struct compare_result result = {0};
	char why[CHECK_WHY];

	t->files++;
	if (check_file(o, path, &result, why) < 0) {
		printf("FAIL %s: %s\n", path, why);
		t->failed++;
		return;
	}
	printf("%s %s: %zu rows, %zu differ", result.differing ? "FAIL" : "PASS", path, result.rows,
	       result.differing);
	print_counts(&result);
	printf(" (%.2f s)\n", seconds_since(begin_ns));
	fflush(stdout);
	t->failed += result.differing > 0;
	t->with_rows += result.rows > 0;
	t->sum.rows += result.rows;
	t->sum.differing += result.differing;
	for (size_t i = 0; i < N_COUNTS; i++)
		t->sum.counts[i] += result.counts[i];
}

static void print_totals(const struct totals *t)
{
	printf("%zu files, %zu with call-frame information, %zu rows, %zu differ, %zu files failed", t->files,
	       t->with_rows, t->sum.rows, t->sum.differing, t->failed);
	print_counts(&t->sum);
	printf(", %.2f s\n", seconds_since(t->begin_ns));
}

/* build/release/proflet lies beside this program. */
static int default_proflet(char ret[PATH_MAX])
{
	static const char name[] = "proflet";
	ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1);

	if (n < 0)
		return -errno;
	ret[n] = '\0';
	char *base = strrchr(ret, '/') + 1;
	if (base + sizeof name > ret + PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(base, name, sizeof name);
	return 0;
}

static int parse_option(struct check_options *o, int option, const char *value)
{
	uint64_t n;
	int r;

	switch (option) {
	case OPT_PROFLET:
		o->proflet = value;
		return 0;
	case OPT_ROWS:
		o->rows = value;
		return 0;
	case OPT_SUMMARY:
		o->summary = value;
		return 0;
	case OPT_REFERENCE:
		o->reference = value;
		return 0;
	case OPT_SHOW:
		r = parse_u64(value, 10, &n);
		o->show = r < 0 ? 0 : n;
		return r;
	default:
		return -EINVAL;
	}
}

int main(int argc, char **argv)
{
	struct totals totals = {.begin_ns = clock_mono_ns()};
	struct check_options o = {.show = 5};
	char proflet[PATH_MAX];
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == OPT_SELF_TEST)
			return selftest_run() ? 1 : 0;
		if (option == OPT_HELP) {
			help_print();
			return 0;
		}
		if (parse_option(&o, option, optarg) < 0) {
			fprintf(stderr, "table_equality: see --help\n");
			return 2;
		}
	}
	if (optind == argc || ((o.rows || o.summary || o.reference) && optind + 1 != argc)) {
		fprintf(stderr, "table_equality: %s; see --help\n",
			optind == argc ? "no FILE" : "--rows, --summary and --reference are of one FILE");
		return 2;
	}
	if (!o.proflet && default_proflet(proflet) == 0)
		o.proflet = proflet;
	if (!o.proflet || access(o.proflet, X_OK) < 0) {
		fprintf(stderr, "table_equality: %s is not a program; give --proflet\n",
			o.proflet ? o.proflet : "proflet");
		return 2;
	}
	for (int i = optind; i < argc; i++)
		check_one(&o, argv[i], &totals);
	print_totals(&totals);
	return totals.failed ? 1 : 0;
}
