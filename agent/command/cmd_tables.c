// SPDX-License-Identifier: Apache-2.0
/*
 * `proflet tables`: prints the unwind tables that the agent compiles from a file, for people and for scripts.
 */
#include "agent/command/cmd.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/arch.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/cfi/rows.h"
#include "agent/elf/cfi/rule_format.h"
#include "agent/proc/root.h"
#include "agent/unwind/block.h"
#include "agent/unwind/debug_search.h"
#include "agent/unwind/debugfile.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)
DEFINE_CLEANUP(struct proc_root *, proc_root_unref)

enum output { OUTPUT_ROWS, OUTPUT_SUMMARY, OUTPUT_JSON };

struct tables_file {
	const char *path;
	uint16_t machine;
	const struct elf_rows *rows;
	size_t n_rows;		/* rows with a rule; CFA_NONE rows only end others */
	size_t bytes, n_blocks; /* as stored for the kernel */
	bool debug_file;	/* a separate debug file contributed rows */
};

static const char usage[] =
	"usage: proflet tables [--summary | --json] FILE...\n"
	"\n"
	"Prints the unwind table of each ELF file, one line per row, TAB separated:\n"
	"  START END CFA FP RA   addresses in 16 hex digits; FP is rbp or x29; RA \"undef\" marks the\n"
	"                        outermost frame\n"
	"What a file does not describe itself is taken from its separate debug file, if there is one.\n"
	"With several files, a line \"# FILE\" precedes the rows of each.\n"
	"\n"
	"  --summary   instead of the rows: rows, rules, bytes, time to build, FDEs skipped or corrected\n"
	"  --json      the summary as JSON, an array with one object per file\n"
	"  --help      this text\n";

/* The columns after the addresses, formatted once per rule. */
struct rule_text {
	char columns[3 * RULE_FORMAT_MAX];
};

static int print_rows(const struct tables_file *f)
{
	const struct elf_rows *t = f->rows;
	_cleanup_free_ struct rule_text *texts = calloc(t->n_rules, sizeof(*texts));
	char cfa[RULE_FORMAT_MAX], fp[RULE_FORMAT_MAX], ra[RULE_FORMAT_MAX];

	if (!texts)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_rules; i++) {
		rule_format_cfa(cfa, f->machine, &t->rules[i]);
		rule_format_fp(fp, f->machine, &t->rules[i]);
		rule_format_ra(ra, f->machine, &t->rules[i]);
		snprintf(texts[i].columns, sizeof(texts[i].columns), "%s\t%s\t%s", cfa, fp, ra);
	}
	for (size_t i = 0; i + 1 < t->n_rows; i++) {
		if (t->rules[t->rows[i].rule].cfa_kind != CFA_NONE)
			printf("%016" PRIx64 "\t%016" PRIx64 "\t%s\n", t->rows[i].va, t->rows[i + 1].va,
			       texts[t->rows[i].rule].columns);
	}
	return 0;
}

static size_t count_rows(const struct elf_rows *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_rows; i++)
		n += t->rules[t->rows[i].rule].cfa_kind != CFA_NONE;
	return n;
}

static const char *section_name(const struct elf_skipped *s)
{
	static const char *const names[] = {".eh_frame", ".gopclntab", ".debug_frame", "debug file", "code"};

	return names[s->source];
}

static size_t n_listed(const struct elf_rows *t)
{
	return t->n_skipped < ELF_SKIPPED_MAX ? t->n_skipped : ELF_SKIPPED_MAX;
}

static size_t n_overridden_listed(const struct elf_rows *t)
{
	return t->n_overridden < ELF_OVERRIDDEN_MAX ? t->n_overridden : ELF_OVERRIDDEN_MAX;
}

static void print_summary(const struct tables_file *f)
{
	const struct elf_rows *t = f->rows;

	printf("%s\n", f->path);
	printf("  rows        %zu\n", f->n_rows);
	printf("  rules       %zu\n", t->n_rules - 1); /* without CFA_NONE */
	printf("  bytes       %zu in %zu blocks, %.2f bytes/row\n", f->bytes, f->n_blocks,
	       (double)f->bytes / (double)f->n_rows);
	printf("  build       %" PRIu64 " ns, %.1f ns/row\n", t->build_ns,
	       (double)t->build_ns / (double)f->n_rows);
	printf("  covered     %" PRIu64 " of %" PRIu64 " bytes of text%s\n", t->covered_bytes, t->text_bytes,
	       f->debug_file ? ", with its separate debug file" : "");
	printf("  FDEs        %zu\n", t->n_fdes);
	printf("  functions   %zu of Go\n", t->n_functions);
	printf("  skipped     %zu\n", t->n_skipped);
	for (size_t i = 0; i < n_listed(t); i++)
		printf("    %s+0x%" PRIx64 "  %s%s\n", section_name(&t->skipped[i]), t->skipped[i].offset,
		       t->skipped[i].in_part ? "in part: " : "", t->skipped[i].reason);
	if (t->n_skipped > n_listed(t))
		printf("    and %zu more\n", t->n_skipped - n_listed(t));
	printf("  overridden  %zu\n", t->n_overridden);
	for (size_t i = 0; i < n_overridden_listed(t); i++)
		printf("    %016" PRIx64 " %016" PRIx64 "  %s\n", t->overridden[i].start,
		       t->overridden[i].end, t->overridden[i].name);
}

static void print_json_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			printf("\\u%04x", (unsigned)*s);
		else
			putchar(*s);
	}
	putchar('"');
}

static void print_json(const struct tables_file *f, bool first)
{
	const struct elf_rows *t = f->rows;

	printf("%s\n  {\"file\": ", first ? "" : ",");
	print_json_string(f->path);
	printf(", \"machine\": \"%s\", \"rows\": %zu, \"rules\": %zu, \"bytes\": %zu, \"blocks\": %zu,\n",
	       elf_arch(f->machine)->name, f->n_rows, t->n_rules - 1, f->bytes, f->n_blocks);
	printf("   \"bytes_per_row\": %.3f, \"build_ns\": %" PRIu64 ", \"ns_per_row\": %.2f, \"fdes\": %zu, "
	       "\"go_functions\": %zu, \"text_bytes\": %" PRIu64 ", \"covered_bytes\": %" PRIu64
	       ", \"debug_file\": %s, \"fdes_skipped\": %zu,\n   \"skipped\": [",
	       (double)f->bytes / (double)f->n_rows, t->build_ns, (double)t->build_ns / (double)f->n_rows,
	       t->n_fdes, t->n_functions, t->text_bytes, t->covered_bytes, f->debug_file ? "true" : "false",
	       t->n_skipped);
	for (size_t i = 0; i < n_listed(t); i++) {
		printf("%s{\"section\": \"%s\", \"offset\": %" PRIu64 ", \"in_part\": %s, \"reason\": ",
		       i ? ", " : "", section_name(&t->skipped[i]), t->skipped[i].offset,
		       t->skipped[i].in_part ? "true" : "false");
		print_json_string(t->skipped[i].reason);
		putchar('}');
	}
	printf("],\n   \"fdes_overridden\": %zu, \"overridden\": [", t->n_overridden);
	for (size_t i = 0; i < n_overridden_listed(t); i++)
		printf("%s{\"start\": %" PRIu64 ", \"end\": %" PRIu64 ", \"function\": \"%s\"}",
		       i ? ", " : "", t->overridden[i].start, t->overridden[i].end, t->overridden[i].name);
	printf("]}");
}

static const char *error_text(int error)
{
	switch (error) {
	case -ENOEXEC:
		return "not a 64-bit little-endian ELF file, or its headers are damaged";
	case -ENODATA:
		return "no call-frame information (.eh_frame, .gopclntab, .debug_frame, separate debug file)";
	case -ENOTSUP:
		return "neither x86-64 nor aarch64, or compressed by an unknown method";
	case -EINVAL:
		return "its call-frame section is damaged or lies outside the file";
	case -EFBIG:
		return "its call-frame section is too large";
	default:
		return strerror(-error);
	}
}

/* Builds the rows as the agent does for a process with our root. */
static int build_rows(struct elf_rows **ret, struct elf_image *img, int binary, const char *path,
		      bool *ret_debug_file)
{
	_cleanup_(debug_file_fini) struct debug_file debug = DEBUG_FILE_NONE;
	_cleanup_(proc_root_unref_p) struct proc_root *root = NULL;
	_cleanup_close_ int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *real = realpath(path, NULL);
	struct debug_search search;
	struct debug_place place;
	int r;

	if (fd >= 0 && real && proc_root_of_folder(&root, fd) == 0) {
		TAKE_FD(fd);
		root->is_hosts = true;
	}
	debug_search_init(&search, root, binary, real ? real : path);
	place = (struct debug_place){.open = debug_search_open, .data = &search, .path = search.binary};
	r = debug_file_rows(ret, img, &place, &debug);
	debug_search_fini(&search);
	*ret_debug_file = debug.img != NULL;
	return r;
}

static int print_file(const char *path, enum output output, bool first, bool several)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
	/* O_NONBLOCK: a FIFO must not hang the command */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return -errno;
	int r = elf_image_open(&img, fd);
	if (r < 0)
		return r;
	bool debug_file;
	r = build_rows(&rows, img, fd, path, &debug_file);
	if (r < 0)
		return r;
	struct tables_file f = {.path = path,
				.machine = elf_image_machine(img),
				.rows = rows,
				.n_rows = count_rows(rows),
				.debug_file = debug_file};
	if (output == OUTPUT_ROWS) {
		if (several)
			printf("# %s\n", path);
		return print_rows(&f);
	}
	r = unwind_blocks_size(rows, f.machine, &f.bytes, &f.n_blocks);
	if (r < 0)
		return r;
	if (output == OUTPUT_JSON)
		print_json(&f, first);
	else
		print_summary(&f);
	return 0;
}

static int print_files(char **paths, int n, enum output output)
{
	int exit_code = EXIT_DONE;
	bool first = true;

	if (output == OUTPUT_JSON)
		putchar('[');
	for (int i = 0; i < n; i++) {
		int r = print_file(paths[i], output, first, n > 1);

		if (r < 0) {
			fprintf(stderr, "proflet tables: %s: %s\n", paths[i], error_text(r));
			exit_code = EXIT_FAILED;
		} else {
			first = false;
		}
	}
	if (output == OUTPUT_JSON)
		printf("\n]\n");
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "proflet tables: cannot write: %s\n", strerror(errno));
		exit_code = EXIT_FAILED;
	}
	return exit_code;
}

int cmd_tables(int argc, char **argv)
{
	static const struct option options[] = {
		{"summary", no_argument, NULL, 's'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	enum output output = OUTPUT_ROWS;
	int c;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (c) {
		case 's':
			output = output == OUTPUT_JSON ? OUTPUT_JSON : OUTPUT_SUMMARY;
			break;
		case 'j':
			output = OUTPUT_JSON;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_DONE;
		default:
			fprintf(stderr,
				"proflet tables: option '%s' is not known or takes no value; accepted: "
				"--summary, "
				"--json, --help\n",
				argv[optind - 1]);
			return EXIT_USAGE;
		}
	}
	if (optind == argc) {
		fprintf(stderr, "proflet tables: no FILE given; usage: proflet tables [--summary | --json] "
				"FILE...\n");
		return EXIT_USAGE;
	}
	return print_files(argv + optind, argc - optind, output);
}
