// SPDX-License-Identifier: Apache-2.0
/* `proflet diff`: which functions take a larger or a smaller share in one recording than in another. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/parse.h"
#include "agent/command/cmd.h"
#include "agent/command/command.h"
#include "agent/command/diff_page.h"
#include "agent/output/difference.h"
#include "agent/recording/comparison.h"
#include "agent/recording/recording.h"
#include "agent/recording/selection.h"

#define ROWS_MAX 100000u
#define DEFAULT_ROWS 20u
#define OPTION_FORCE 256 /* no letter: -f is --fail-over */

/* Of the times of samples, ns since 1970. */
struct span {
	uint64_t from, to;
};

struct diff {
	const char *files[COMPARISON_SIDES];
	bool total;
	uint32_t n_rows;
	double fail_over; /* share; negative: never */
	struct recording_options recording;
	struct stack_selection_options wanted;
	struct stack_selection *selection;
	struct comparison *comparison;
	const char *path; /* of the page to write; NULL: none */
	bool overwrite;
	struct diff_page *page;
	struct recording_info info[COMPARISON_SIDES];
	struct span times[COMPARISON_SIDES];
	/* of the recording that is being read */
	enum comparison_side side;
	uint64_t per_sample; /* of its values */
	uint64_t n_wanted;
};

static const char usage[] =
	"Usage: proflet diff [OPTION]... A B\n\n"
	"Compares two recordings by the share of samples that each function has: A is the one before,\n"
	"B the one after. Each may be pprof, OTLP profiles or folded stacks. A difference counts if it\n"
	"is beyond noise: of 20 pairs of recordings of the same load, 19 have none. Times of samples\n"
	"tell how much a load varies by itself; only OTLP files have them.\n\n"
	"Options:\n"
	"  -T, --total        shares with all that a function calls, not only of its own code\n"
	"  -f, --fail-over P  exit with 1 if a function's share grows by more than P of all samples: 5%\n"
	"  -F, --focus REGEX  only stacks with a function that matches\n"
	"  -I, --ignore REGEX no stacks with a function that matches\n"
	"  -l, --lines        tell functions apart by source line, where the recordings have lines\n"
	"  -v, --value TYPE   which values of pprof and OTLP files: cpu, alloc_space (default samples,\n"
	"                     else the last type)\n"
	"  -n, --rows N       so many functions of each table (default 20)\n"
	"  -o, --output FILE  also write a page, .html: the flamegraph, coloured by the differences\n"
	"      --force        overwrite an existing file\n"
	"  -h, --help         print this text\n";

/* --- reading: once for the times, once for the stacks */

static int note_times(const struct recording_stack *s, void *data)
{
	struct diff *d = data;
	struct span *span = &d->times[d->side];

	for (size_t i = 0; i < s->n_times; i++) {
		span->from = s->times[i] < span->from ? s->times[i] : span->from;
		span->to = s->times[i] > span->to ? s->times[i] : span->to;
	}
	return 0;
}

static int add_stack(const struct recording_stack *s, void *data)
{
	struct diff *d = data;
	struct recording_stack wanted = *s;
	int r = stack_selection_apply(d->selection, &s->stack, &wanted.stack);

	if (r <= 0)
		return r;
	d->n_wanted += s->stack.count;
	r = comparison_add(d->comparison, d->side, &wanted, d->per_sample);
	if (r == -ENOSPC)
		r = 0;
	return r == 0 && d->page ? diff_page_add(d->page, d->side, &wanted) : r;
}

static int look_at(struct diff *d, enum comparison_side side, char **ret_why)
{
	d->side = side;
	d->times[side] = (struct span){.from = UINT64_MAX};
	return recording_read(d->files[side], &d->recording, note_times, d, &d->info[side], ret_why);
}

/* How much of a value one sample is: values of time count samples by their period. */
static uint64_t value_per_sample(const struct recording_info *info)
{
	return strcmp(info->unit, "nanoseconds") == 0 && info->period_ns ? info->period_ns : 1;
}

static int read_side(struct diff *d, enum comparison_side side, char **ret_why)
{
	struct recording_info *info = &d->info[side];
	int r;

	d->side = side;
	d->n_wanted = 0;
	d->per_sample = value_per_sample(info);
	if (d->times[side].to > d->times[side].from)
		comparison_set_times(d->comparison, side, d->times[side].from, d->times[side].to);
	recording_info_fini(info);
	r = recording_read(d->files[side], &d->recording, add_stack, d, info, ret_why);
	if (r == 0 && !d->n_wanted) {
		if (asprintf(ret_why, "%s: no stack is there to compare", d->files[side]) < 0)
			*ret_why = NULL;
		r = -ENODATA;
	}
	return r;
}

static int read_both(struct diff *d, char **ret_why)
{
	bool names_only = false;
	int r = 0;

	for (int side = 0; side < COMPARISON_SIDES && r == 0; side++) {
		r = look_at(d, side, ret_why);
		names_only |= strcmp(d->info[side].format, "folded stacks") == 0; /* which have no modules */
	}
	if (r == 0)
		r = comparison_new(&d->comparison, names_only);
	if (r == 0 && d->path)
		r = diff_page_new(&d->page, d->comparison, names_only);
	for (int side = 0; side < COMPARISON_SIDES && r == 0; side++)
		r = read_side(d, side, ret_why);
	return r;
}

/* --- what is printed */

static void print_file(const struct diff *d, enum comparison_side side)
{
	const struct recording_info *info = &d->info[side];
	const bool counts = strcmp(info->unit, "count") == 0;

	printf("%c  %s: %" PRIu64 " %s", side == COMPARISON_A ? 'A' : 'B', d->files[side], info->n_samples,
	       counts ? "samples" : info->unit);
	if (!counts)
		printf(" of %s", info->type);
	if (info->duration_ns)
		printf(", %.1f s", (double)info->duration_ns / 1e9);
	if (*info->hostname)
		printf(", %s", info->hostname);
	printf("%s\n", comparison_has_times(d->comparison, side) ? "" : ", without times");
}

/* The functions that have grown too much. Returns the exit code. */
static int judge(const struct diff *d, const struct comparison_row *rows, size_t n)
{
	int code = EXIT_DONE;

	for (size_t i = 0; i < n && d->fail_over >= 0; i++) {
		const double by = rows[i].b - rows[i].a;

		if (!rows[i].certain || by <= d->fail_over)
			continue;
		fprintf(stderr, "proflet: %s takes %.2f %% of all samples more, over %.2f %%\n", rows[i].name,
			100 * by, 100 * d->fail_over);
		code = EXIT_FAILED;
	}
	return code;
}

static int write_page(const struct diff *d)
{
	int r = d->page ? diff_page_write(d->page, d->path, d->overwrite, d->files, d->info) : 0;

	if (r < 0)
		fprintf(stderr, "proflet: %s: %s\n", d->path,
			r == -EEXIST ? "is there already: --force overwrites it" : strerror(-r));
	else if (d->page)
		printf("%s\n", d->path);
	return r;
}

static int print(const struct diff *d)
{
	_cleanup_free_ struct comparison_row *rows = NULL;
	_cleanup_free_ struct difference_row *shown = NULL;
	size_t n = 0;
	int r = comparison_rows(d->comparison, d->total, &rows, &n);

	shown = calloc(n + 1, sizeof *shown);
	if (r < 0 || !shown)
		return EXIT_FAILED;
	for (size_t i = 0; i < n; i++)
		shown[i] = (struct difference_row){.name = rows[i].name,
						   .origin = rows[i].origin,
						   .a = rows[i].a,
						   .b = rows[i].b,
						   .low = rows[i].low,
						   .high = rows[i].high,
						   .certain = rows[i].certain};
	print_file(d, COMPARISON_A);
	print_file(d, COMPARISON_B);
	r = output_difference_write(
		&(struct difference){.rows = shown, .n = n, .n_shown = d->n_rows, .total = d->total}, stdout);
	if (r < 0) {
		fprintf(stderr, "proflet: standard output: %s\n", strerror(-r));
		return EXIT_FAILED;
	}
	return write_page(d) < 0 ? EXIT_FAILED : judge(d, rows, n);
}

static int compare(struct diff *d)
{
	_cleanup_free_ char *why = NULL;
	int r = stack_selection_new(&d->selection, &d->wanted, &why);

	if (r == -EINVAL) {
		fprintf(stderr, "proflet diff: %s\n", why ?: "a pattern is not valid");
		return EXIT_USAGE;
	}
	if (r == 0)
		r = read_both(d, &why);
	if (r < 0) {
		fprintf(stderr, "proflet: %s\n", why ?: strerror(-r));
		return EXIT_FAILED;
	}
	return print(d);
}

/* --- options */

static const struct option options[] = {
	{"total", no_argument, NULL, 'T'},
	{"fail-over", required_argument, NULL, 'f'},
	{"focus", required_argument, NULL, 'F'},
	{"ignore", required_argument, NULL, 'I'},
	{"lines", no_argument, NULL, 'l'},
	{"value", required_argument, NULL, 'v'},
	{"rows", required_argument, NULL, 'n'},
	{"output", required_argument, NULL, 'o'},
	{"force", no_argument, NULL, OPTION_FORCE},
	{"help", no_argument, NULL, 'h'},
	{0},
};

/* Takes an option. NULL; or what is accepted instead. */
static const char *take(struct diff *d, int option, const char *value)
{
	switch (option) {
	case 'T':
		d->total = true;
		return NULL;
	case 'f':
		return parse_percent(value, &d->fail_over) == 0 && d->fail_over >= 0 && d->fail_over <= 1
			       ? NULL
			       : "--fail-over takes a percentage of all samples, such as 5%";
	case 'F':
		d->wanted.focus = value;
		return NULL;
	case 'I':
		d->wanted.ignore = value;
		return NULL;
	case 'l':
		d->wanted.lines = true;
		return NULL;
	case 'v':
		d->recording.value = value;
		return NULL;
	case 'n':
		return parse_u32(value, &d->n_rows) == 0 && d->n_rows && d->n_rows <= ROWS_MAX
			       ? NULL
			       : "--rows takes a number from 1 to 100000";
	case 'o':
		d->path = value;
		return command_file_is(value, ".html") ? NULL : "--output takes a file that ends in .html";
	case OPTION_FORCE:
		d->overwrite = true;
		return NULL;
	default:
		return "it is not known, or its value is missing; proflet diff --help lists the options";
	}
}

static int parse(struct diff *d, int argc, char **argv)
{
	int c;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":Tf:F:I:lv:n:o:h", options, NULL)) != -1) {
		const char *wrong;

		if (c == 'h') {
			fputs(usage, stdout);
			return EXIT_DONE;
		}
		wrong = take(d, c, optarg);
		if (wrong) {
			fprintf(stderr, "proflet diff: option '%s': %s\n", argv[optind - 1], wrong);
			return EXIT_USAGE;
		}
	}
	if (optind + COMPARISON_SIDES != argc) {
		fprintf(stderr,
			"proflet diff: two files are compared, %d given; usage: proflet diff [OPTION]... A "
			"B\n",
			argc - optind);
		return EXIT_USAGE;
	}
	for (int side = 0; side < COMPARISON_SIDES; side++)
		d->files[side] = argv[optind + side];
	return -1;
}

int cmd_diff(int argc, char **argv)
{
	struct diff d = {.n_rows = DEFAULT_ROWS, .fail_over = -1};
	int code = parse(&d, argc, argv);

	if (code < 0)
		code = compare(&d);
	for (int side = 0; side < COMPARISON_SIDES; side++)
		recording_info_fini(&d.info[side]);
	diff_page_free(d.page);
	comparison_free(d.comparison);
	stack_selection_free(d.selection);
	return code;
}
