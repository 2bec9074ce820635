// SPDX-License-Identifier: Apache-2.0
/* `proflet show`: a recording that was made before, as text or as another file. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/parse.h"
#include "agent/command/cmd.h"
#include "agent/command/command.h"
#include "agent/compiler/autofdo.h"
#include "agent/compiler/bolt.h"
#include "agent/compiler/samples.h"
#include "agent/output/folded.h"
#include "agent/output/html.h"
#include "agent/output/pprof.h"
#include "agent/output/top.h"
#include "agent/output/tree.h"
#include "agent/recording/recording.h"
#include "agent/recording/selection.h"
#include "agent/symbol/dwarf.h"

#define ROWS_MAX 100000u

enum show_format {
	SHOW_TOP,
	SHOW_TREE,
	SHOW_CALLERS,
	SHOW_HTML,
	SHOW_FOLDED,
	SHOW_PPROF,
	SHOW_AUTOFDO,
	SHOW_BOLT
};

struct show {
	enum show_format format;
	enum output_by by;
	uint32_t n_rows; /* 0: the default */
	double min_percent;
	const char *path; /* to write; NULL: standard output */
	bool overwrite;
	const char *program; /* of which compilers want to know; NULL: not given */
	const char *file;
	struct recording_options recording;
	struct stack_selection_options wanted;
	struct stack_selection *selection;
	struct output_profile *profile;
	struct compiler_samples *samples; /* of the program, in place of the profile; or NULL */
	uint64_t n_left_out;		  /* samples that were not wanted */
};

static const char usage[] =
	"Usage: proflet show [OPTION]... FILE\n\n"
	"Shows a recording: one of record, or of another program, as pprof, OTLP profiles or folded\n"
	"stacks; - is standard input. Without an option, it prints what record prints.\n\n"
	"Options:\n"
	"  -t, --tree         the tree of calls, from the outermost functions\n"
	"  -c, --callers      the tree of callers, from the innermost functions\n"
	"  -b, --by WHAT      one tree for each process, container or thread\n"
	"  -F, --focus REGEX  only stacks with a function that matches\n"
	"  -I, --ignore REGEX no stacks with a function that matches\n"
	"  -l, --lines        tell functions apart by source line, where the recording has lines\n"
	"  -v, --value TYPE   which values of a pprof or OTLP file: cpu, alloc_space (default samples,\n"
	"                     else its last type)\n"
	"  -n, --rows N       so many functions of the table (default 20)\n"
	"  -m, --min PERCENT  leave rows of a tree out that have less (default 0.5%)\n"
	"  -o, --output FILE  write it: .html (flamegraph), .folded or .pb.gz (pprof), by its extension;\n"
	"                     what compilers want to know of a program: .afdo (clang), .fdata (llvm-bolt)\n"
	"  -p, --program FILE the program for .afdo, with debug information, and .fdata, with symbols\n"
	"  -f, --force        overwrite an existing file\n"
	"  -h, --help         print this text\n";

/* The first error of a row that had no room is not one of the recording: it counts as [other]. */
static int add_stack(const struct recording_stack *s, void *data)
{
	struct show *w = data;
	struct output_stack stack;
	int r = stack_selection_apply(w->selection, &s->stack, &stack);

	if (r < 0)
		return r;
	if (r == 0) {
		w->n_left_out += s->stack.count;
		return 0;
	}
	if (w->samples)
		return compiler_samples_add(w->samples, &stack);
	stack.times = s->n_times == stack.count ? s->times : NULL;
	(void)output_profile_add(w->profile, &stack);
	return 0;
}

static int describe(struct show *w, const struct recording_info *info)
{
	const bool counts = strcmp(info->unit, "count") == 0;
	const struct output_info o = {
		.start_unix_ns = info->start_unix_ns,
		.duration_ns = info->duration_ns,
		.frequency_hz = counts && info->period_ns ? (uint32_t)(NS_PER_SEC / info->period_ns) : 0,
		.hostname = *info->hostname ? info->hostname : NULL,
		.command = *info->command ? info->command : NULL,
		.version = *info->version ? info->version : NULL,
	};

	return output_profile_set_info(w->profile, &o);
}

/* The samples of the program. Says of how many the place is not known. */
static int write_samples(const struct show *w, FILE *f)
{
	const bool autofdo = w->format == SHOW_AUTOFDO;
	uint64_t left;
	int r = autofdo ? compiler_autofdo_write(w->samples, &left, f)
			: compiler_bolt_write(w->samples, &left, f);

	if (r == -ENODATA)
		fprintf(stderr, "proflet: %s has no %s\n", w->program,
			autofdo ? "debug information: compile it with -g -fdebug-info-for-profiling"
				: "symbols: do not strip it");
	if (r == 0 && left)
		fprintf(stderr, "proflet: %" PRIu64 " of %" PRIu64 " samples in %s are at no known %s\n",
			left, compiler_samples_own(w->samples), w->program, autofdo ? "line" : "function");
	return r;
}

static int write_format(const struct show *w, FILE *f)
{
	const struct output_tree_options tree = {
		.by = w->by, .callers = w->format == SHOW_CALLERS, .min_percent = w->min_percent};

	switch (w->format) {
	case SHOW_TREE:
	case SHOW_CALLERS:
		return output_tree_write(w->profile, &tree, f);
	case SHOW_HTML:
		return output_html_write(w->profile, NULL, f);
	case SHOW_FOLDED:
		return output_folded_write(
			w->profile,
			&(struct output_folded_options){.by_container = w->by == OUTPUT_BY_CONTAINER}, f);
	case SHOW_PPROF:
		return output_pprof_write(w->profile, f);
	case SHOW_AUTOFDO:
	case SHOW_BOLT:
		return write_samples(w, f);
	default:
		return output_top_write(w->profile, &(struct output_top_options){.n_functions = w->n_rows},
					f);
	}
}

static int write_file(const struct show *w)
{
	FILE *f = fopen(w->path, w->overwrite ? "we" : "wxe");
	int r;

	if (!f)
		return -errno;
	r = write_format(w, f);
	if (fclose(f) != 0 && r == 0)
		r = -errno;
	if (r < 0)
		remove(w->path);
	return r;
}

/* Whether there is anything to write; else says why not. */
static bool has_samples(const struct show *w)
{
	if (!w->samples && output_profile_samples(w->profile))
		return true;
	if (!w->samples || !compiler_samples_all(w->samples))
		fprintf(stderr, "proflet: %s: %s\n", w->file,
			w->n_left_out ? "no stack is left by --focus and --ignore" : "it has no samples");
	else if (!compiler_samples_own(w->samples))
		fprintf(stderr, "proflet: %s: it has no samples in %s%s\n", w->file, w->program,
			compiler_samples_other(w->samples) ? ", but in another build of it" : "");
	else
		return true;
	return false;
}

static int write_result(const struct show *w, const struct recording_info *info)
{
	int r;

	if (!has_samples(w))
		return EXIT_FAILED;
	r = w->path ? write_file(w) : write_format(w, stdout);
	if (r < 0) {
		fprintf(stderr, "proflet: %s: %s\n", w->path ? w->path : "standard output",
			r == -EEXIST ? "is there already: -f overwrites it" : strerror(-r));
		return EXIT_FAILED;
	}
	if (w->path)
		printf("%s\n", w->path);
	if (w->format == SHOW_HTML && !output_profile_timed(w->profile))
		fprintf(stderr,
			"proflet: %s does not say when samples were taken: the page has no timeline\n",
			w->file);
	else if (w->format == SHOW_TOP && strcmp(info->unit, "count") != 0)
		printf("values: %s, in %s\n", info->type, info->unit);
	return EXIT_DONE;
}

static int open_program(struct show *w, char **ret_why)
{
	int r = compiler_samples_new(&w->samples, w->program);

	if (r < 0) {
		if (asprintf(ret_why, "%s: %s", w->program,
			     r == -ENOEXEC ? "it is no program (ELF file)" : strerror(-r)) < 0)
			*ret_why = NULL;
		return r == -EINVAL ? -EIO : r; /* which stands for a pattern */
	}
	if (w->format == SHOW_AUTOFDO && symbol_dwarf_load() < 0) {
		*ret_why = strdup(".afdo takes libdw.so.1, which is missing here: apt-get install libdw1");
		return -ENOENT;
	}
	return 0;
}

static int show_file(struct show *w)
{
	_cleanup_(recording_info_fini) struct recording_info info = {0};
	_cleanup_free_ char *why = NULL;
	int r = output_profile_new(&w->profile, &(struct output_info){0});

	if (r == 0 && w->program)
		r = open_program(w, &why);
	if (r == 0)
		r = stack_selection_new(&w->selection, &w->wanted, &why);
	if (r == -EINVAL) {
		fprintf(stderr, "proflet show: %s\n", why ?: "a pattern is not valid");
		return EXIT_USAGE;
	}
	if (r == 0)
		r = recording_read(w->file, &w->recording, add_stack, w, &info, &why);
	if (r == 0)
		r = describe(w, &info);
	if (r < 0) {
		fprintf(stderr, "proflet: %s\n", why ?: strerror(-r));
		return EXIT_FAILED;
	}
	return write_result(w, &info);
}

/* --- options */

static const struct option options[] = {
	{"tree", no_argument, NULL, 't'},	   {"callers", no_argument, NULL, 'c'},
	{"by", required_argument, NULL, 'b'},	   {"focus", required_argument, NULL, 'F'},
	{"ignore", required_argument, NULL, 'I'},  {"lines", no_argument, NULL, 'l'},
	{"value", required_argument, NULL, 'v'},   {"rows", required_argument, NULL, 'n'},
	{"min", required_argument, NULL, 'm'},	   {"output", required_argument, NULL, 'o'},
	{"program", required_argument, NULL, 'p'}, {"force", no_argument, NULL, 'f'},
	{"help", no_argument, NULL, 'h'},	   {0},
};

static bool set_by(struct show *w, const char *text)
{
	static const char *const names[] = {[OUTPUT_BY_PROCESS] = "process",
					    [OUTPUT_BY_CONTAINER] = "container",
					    [OUTPUT_BY_THREAD] = "thread"};

	for (size_t i = OUTPUT_BY_PROCESS; i < ARRAY_SIZE(names); i++)
		if (strcmp(text, names[i]) == 0)
			w->by = (enum output_by)i;
	return w->by != OUTPUT_BY_NONE;
}

static bool set_output(struct show *w, const char *path)
{
	w->path = path;
	if (command_file_is(path, ".html"))
		w->format = SHOW_HTML;
	else if (command_file_is(path, ".folded"))
		w->format = SHOW_FOLDED;
	else if (command_file_is(path, ".pb.gz"))
		w->format = SHOW_PPROF;
	else if (command_file_is(path, ".afdo"))
		w->format = SHOW_AUTOFDO;
	else if (command_file_is(path, ".fdata"))
		w->format = SHOW_BOLT;
	else
		return false;
	return true;
}

static bool set_percent(double *ret, const char *text)
{
	double share;

	if (parse_percent(text, &share) < 0 || share < 0 || share > 1)
		return false;
	*ret = share * 100;
	return true;
}

/* Takes an option. NULL; or what is accepted instead. */
static const char *take(struct show *w, int option, const char *value)
{
	switch (option) {
	case 't':
		w->format = SHOW_TREE;
		return NULL;
	case 'c':
		w->format = SHOW_CALLERS;
		return NULL;
	case 'b':
		return set_by(w, value) ? NULL : "--by takes process, container or thread";
	case 'F':
		w->wanted.focus = value;
		return NULL;
	case 'I':
		w->wanted.ignore = value;
		return NULL;
	case 'l':
		w->wanted.lines = true;
		return NULL;
	case 'v':
		w->recording.value = value;
		return NULL;
	case 'n':
		return parse_u32(value, &w->n_rows) == 0 && w->n_rows && w->n_rows <= ROWS_MAX
			       ? NULL
			       : "--rows takes a number from 1 to 100000";
	case 'm':
		return set_percent(&w->min_percent, value) ? NULL : "--min takes a percentage, such as 0.5%";
	case 'f':
		w->overwrite = true;
		return NULL;
	case 'o':
		return set_output(w, value)
			       ? NULL
			       : "--output takes a file that ends in .html, .folded, .pb.gz, .afdo "
				 "or .fdata";
	case 'p':
		w->program = value;
		return NULL;
	default:
		return "it is not known, or its value is missing; proflet show --help lists the options";
	}
}

static int parse(struct show *w, int argc, char **argv)
{
	int c;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":tcb:F:I:lv:n:m:o:p:fh", options, NULL)) != -1) {
		const char *wrong;

		if (c == 'h') {
			fputs(usage, stdout);
			return EXIT_DONE;
		}
		wrong = take(w, c, optarg);
		if (wrong) {
			fprintf(stderr, "proflet show: option '%s': %s\n", argv[optind - 1], wrong);
			return EXIT_USAGE;
		}
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "proflet show: %s; usage: proflet show [OPTION]... FILE\n",
			optind == argc ? "no FILE given" : "more than one FILE given");
		return EXIT_USAGE;
	}
	if ((w->format == SHOW_AUTOFDO || w->format == SHOW_BOLT) != (w->program != NULL)) {
		fprintf(stderr, "proflet show: --output FILE.afdo or FILE.fdata and --program go together\n");
		return EXIT_USAGE;
	}
	if (w->by != OUTPUT_BY_NONE && w->format == SHOW_TOP)
		w->format = SHOW_TREE;
	w->file = argv[optind];
	return -1;
}

int cmd_show(int argc, char **argv)
{
	struct show w = {0};
	int code = parse(&w, argc, argv);

	if (code < 0)
		code = show_file(&w);
	stack_selection_free(w.selection);
	compiler_samples_free(w.samples);
	output_profile_free(w.profile);
	return code;
}
