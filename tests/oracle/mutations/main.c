// SPDX-License-Identifier: Apache-2.0
/*
 * Damages real ELF files and reads them as the agent does. A mutation is a number: the seed and it decide the
 * file, what is damaged, and how, so that --only NUMBER does one again. Whatever crashes ends the program;
 * the runner looks at how it ended. Times and memory are judged by the release build; under sanitizers they
 * are only printed.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/sanitized.h"
#include "tests/oracle/mutations/damage.h"
#include "tests/oracle/mutations/work.h"

#define FILES_MAX 32
#define CPU_MAX_NS 1000000000ull
#define PEAK_BASE (64ull << 20) /* bytes; and PEAK_FACTOR for each byte of the file */
#define PEAK_FACTOR 16

#define JUDGED (!SANITIZED)

struct run {
	struct subject *subjects; /* owned */
	int n;
	uint64_t seed;
	uint64_t done, wrong, checked;
	struct cost worst;
	uint64_t slowest, largest; /* mutations with the highest time and memory */
};

static void describe(const struct run *run, uint64_t number, const struct subject *s, enum damage_kind kind)
{
	fprintf(stderr, "mutation %" PRIu64 " of seed %" PRIu64 ": %s, %s", number, run->seed, s->target.path,
		damage_kind_name(kind));
	for (size_t i = 0; i < s->target.n_patches && i < 8; i++)
		fprintf(stderr, " %#" PRIx64 "=%02x", s->target.patches[i].at, s->target.patches[i].byte);
	if (s->target.cut < s->target.len)
		fprintf(stderr, " cut at %#" PRIx64, s->target.cut);
	fputc('\n', stderr);
}

static void judge(struct run *run, const struct subject *s, size_t fde, const struct elf_rows *rows,
		  const struct cost *cost, uint64_t number)
{
	uint64_t va = 0, peak_max = PEAK_BASE + PEAK_FACTOR * s->target.len;

	if (fde != SIZE_MAX) {
		run->checked++;
		if (!rows || fde_places_differ(&s->fdes, fde, s->rows, rows, &va)) {
			fprintf(stderr,
				"WRONG: rows outside of the damaged function differ at %#" PRIx64 "\n", va);
			run->wrong++;
		}
	}
	if (JUDGED && cost->cpu_ns > CPU_MAX_NS) {
		fprintf(stderr, "WRONG: %" PRIu64 " ms of CPU time\n", cost->cpu_ns / 1000000);
		run->wrong++;
	}
	if (JUDGED && cost->peak_bytes > peak_max) {
		fprintf(stderr, "WRONG: %" PRIu64 " KiB of memory\n", cost->peak_bytes >> 10);
		run->wrong++;
	}
	if (cost->cpu_ns > run->worst.cpu_ns) {
		run->worst.cpu_ns = cost->cpu_ns;
		run->slowest = number;
	}
	if (cost->peak_bytes > run->worst.peak_bytes) {
		run->worst.peak_bytes = cost->peak_bytes;
		run->largest = number;
	}
}

static void mutate(struct run *run, uint64_t number, bool verbose)
{
	struct elf_rows *rows;
	struct cost cost;
	size_t fde;

	struct subject *s;
	enum damage_kind kind = damage_make(run->subjects, run->n, run->seed, number, &s, &fde);
	uint64_t wrong = run->wrong;
	if (verbose) /* printed before the work, which may crash */
		describe(run, number, s, kind);
	if (target_apply(&s->target) < 0)
		abort();
	work_run(s->target.fd, &rows, &cost);
	judge(run, s, fde, rows, &cost, number);
	if (run->wrong != wrong && !verbose)
		describe(run, number, s, kind);
	if (verbose)
		fprintf(stderr, "%" PRIu64 " us, %" PRIu64 " KiB, %zu rows, %zu skipped\n",
			cost.cpu_ns / 1000, cost.peak_bytes >> 10, rows ? rows->n_rows : 0,
			rows ? rows->n_skipped : 0);
	elf_rows_free(rows);
	if (target_repair(&s->target) < 0)
		abort();
	run->done++;
}

static int open_subject(struct subject *s, const char *path)
{
	struct cost cost;
	struct range r;
	uint64_t va;

	int error = target_open(&s->target, path);
	if (error < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(-error));
		return error;
	}
	work_run(s->target.fd, &s->rows, &cost);
	s->indexed = target_section(&s->target, ".eh_frame_hdr", &r, &va);
	if (s->rows && fde_places_read(&s->fdes, &s->target, EM_X86_64) < 0)
		return -ENOMEM;
	printf("%9zu bytes %7zu rows %6zu FDEs %5" PRIu64 " us %6" PRIu64 " KiB  %s%s\n", s->target.len,
	       s->rows ? s->rows->n_rows : 0, s->fdes.n, cost.cpu_ns / 1000, cost.peak_bytes >> 10, path,
	       s->indexed ? "" : " (no search table)");
	return 0;
}

static void report(const struct run *run)
{
	printf("%" PRIu64 " mutations of %d files, %" PRIu64 " compared row by row, %" PRIu64 " wrong; "
	       "worst %.1f ms (number %" PRIu64 "), %.1f MiB (number %" PRIu64 ")%s\n",
	       run->done, run->n, run->checked, run->wrong, (double)run->worst.cpu_ns / 1e6, run->slowest,
	       (double)run->worst.peak_bytes / (1 << 20), run->largest, JUDGED ? "" : ", with sanitizers");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"seed", required_argument, NULL, 's'},
						{"first", required_argument, NULL, 'f'},
						{"count", required_argument, NULL, 'c'},
						{"only", required_argument, NULL, 'o'},
						{NULL, 0, NULL, 0}};
	struct run run = {.seed = 1};
	uint64_t first = 0, count = 100;
	bool verbose = false;
	int c;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t n = optarg ? strtoull(optarg, NULL, 10) : 0;

		if (c == '?')
			return 2;
		if (c == 's')
			run.seed = n;
		else if (c == 'c')
			count = n;
		else
			first = n;
		if (c == 'o') {
			count = 1;
			verbose = true;
		}
	}
	run.n = argc - optind;
	if (run.n < 1 || run.n > FILES_MAX) {
		fprintf(stderr, "usage: mutations [--seed N] [--first N] [--count N | --only N] FILE...\n");
		return 2;
	}
	run.subjects = calloc((size_t)run.n, sizeof(*run.subjects));
	for (int i = 0; i < run.n; i++) {
		if (!run.subjects || open_subject(&run.subjects[i], argv[optind + i]) < 0)
			return 2;
	}
	for (uint64_t i = 0; i < count; i++) {
		mutate(&run, first + i, verbose);
		if (run.done % 100 == 0)
			printf("%" PRIu64 " done\n", run.done);
	}
	report(&run);
	for (int i = 0; i < run.n; i++) {
		target_close(&run.subjects[i].target);
		elf_rows_free(run.subjects[i].rows);
		free(run.subjects[i].fdes.v);
	}
	free(run.subjects);
	return run.wrong ? 1 : 0;
}
