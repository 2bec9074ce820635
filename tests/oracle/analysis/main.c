// SPDX-License-Identifier: Apache-2.0
/*
 * Analyses the code of ELF files as if they had no call-frame information, and compares the result with
 * .eh_frame, instruction by instruction. Prints lines of fields that are separated by tabs:
 *
 *	file PATH PRODUCER NANOSECONDS RULES DESCRIBED_BYTES COMPARED_BYTES [OUTCOME COUNT]...
 *	class ID CFA_INSTRUCTIONS RBP_INSTRUCTIONS PLACES EXAMPLE_ADDRESS EXAMPLE     of the file before
 *	planted NUMBER FOUND                                                         of the file before
 *	failed PATH REASON
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/asmrows.h"
#include "agent/elf/file/elf_image.h"
#include "tests/oracle/analysis/compare.h"

struct options {
	unsigned show;
	unsigned plant; /* one state of so many is made wrong */
};

struct run {
	struct comparison comparison;
	unsigned plant;
	uint64_t seen, planted, found;
	uint64_t inside_ns; /* in on_instruction */
};

static const char *const outcome_names[] = {
#define X(name, text) text,
	OUTCOMES(X)
#undef X
};

static const char *const class_ids[] = {
#define X(name, id, text) id,
	CLASSES(X)
#undef X
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Makes the state wrong, one time the CFA, the next time where the caller's rbp is. */
static void plant(struct run *run, uint64_t va, struct flow_state *state)
{
	const struct ref_row *row = reference_find(run->comparison.reference, va, &run->comparison.hint);

	if (!row || compare_state(row, state) != EQUAL)
		return;
	if (run->planted % 2 == 0)
		for (unsigned r = 0; r < X86_REGS; r++)
			state->reg[r] += state->known >> r & 1 ? 8 : 0;
	else if (row->rbp.kind == REF_AT && state->fp_at)
		state->fp_at -= 8;
	else
		return;
	run->planted++;
}

static void on_instruction(uint64_t va, unsigned bytes, const struct flow_state *state, void *data)
{
	struct run *run = data;
	struct comparison *c = &run->comparison;
	const uint64_t begin = now_ns(), planted = run->planted,
		       differing = c->n[CFA_DIFFERS] + c->n[FP_DIFFERS];
	struct flow_state own = *state;

	if (run->plant && run->seen++ % run->plant == 0)
		plant(run, va, &own);
	compare_instruction(c, va, bytes, &own);
	if (run->planted != planted)
		run->found += c->n[CFA_DIFFERS] + c->n[FP_DIFFERS] != differing;
	run->inside_ns += now_ns() - begin;
}

static void print_file(const char *path, const struct run *run, const struct reference *reference,
		       uint64_t ns)
{
	const struct comparison *c = &run->comparison;

	printf("file\t%s\t%s\t%lu\t%lu\t%lu\t%lu", path, reference->producer ?: "", (unsigned long)ns,
	       (unsigned long)c->rules, (unsigned long)reference->bytes, (unsigned long)c->bytes);
	for (int i = 0; i < N_OUTCOMES; i++)
		printf("\t%s\t%lu", outcome_names[i], (unsigned long)c->n[i]);
	printf("\n");
	for (int i = 0; i < N_CLASSES; i++) {
		const struct class_count *count = &c->classes[i];

		if (!count->places)
			continue;
		printf("class\t%s\t%lu\t%lu\t%lu", class_ids[i], (unsigned long)count->instructions[0],
		       (unsigned long)count->instructions[1], (unsigned long)count->places);
		compare_print("", count->example, &count->row, &count->state);
		printf("\n");
	}
	if (run->plant)
		printf("planted\t%lu\t%lu\n", (unsigned long)run->planted, (unsigned long)run->found);
}

/* 0; -ENOENT: there is nothing to compare; or what failed. */
static int compare_file(const char *path, const struct options *options)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(reference_fini) struct reference reference = {0};
	struct run run = {.plant = options->plant};
	const struct code_observer observer = {on_instruction, &run};
	struct elf_image *img = NULL;
	uint64_t begin;
	int r;

	if (fd < 0)
		return -errno;
	r = reference_read(&reference, fd);
	if (r < 0 || !reference.n || reference.go)
		return r < 0 ? r : -ENOENT;
	r = elf_image_open(&img, fd);
	if (r < 0)
		return r;
	run.comparison = (struct comparison){.reference = &reference, .img = img, .show = options->show};
	begin = now_ns();
	r = asmrows_observe(img, &observer);
	if (r == 0)
		print_file(path, &run, &reference, now_ns() - begin - run.inside_ns);
	elf_image_free(img);
	return r;
}

static void print_classes(void)
{
#define X(name, id, text) printf("%s\t%s\n", id, text);
	CLASSES(X)
#undef X
}

static void usage(FILE *to)
{
	fprintf(to, "usage: code_analysis [--show N] [--plant N] FILE...\n"
		    "       code_analysis --classes\n\n"
		    "Compares what the analysis of code says with .eh_frame, as libdw reads it.\n\n"
		    "  --show N   prints the places of the first N differences of each file\n"
		    "  --plant N  makes one state of N wrong, and counts which of these are found\n"
		    "  --classes  lists the classes of differences\n");
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {{"show", required_argument, NULL, 's'},
						     {"plant", required_argument, NULL, 'p'},
						     {"classes", no_argument, NULL, 'c'},
						     {"help", no_argument, NULL, 'h'},
						     {0}};
	struct options options = {0};
	int o;

	while ((o = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (o == 's')
			options.show = (unsigned)strtoul(optarg, NULL, 10);
		else if (o == 'p')
			options.plant = (unsigned)strtoul(optarg, NULL, 10);
		else if (o == 'c')
			return print_classes(), 0;
		else
			return usage(o == 'h' ? stdout : stderr), o == 'h' ? 0 : 2;
	}
	if (optind == argc)
		return usage(stderr), 2;
	for (int i = optind; i < argc; i++) {
		const int r = compare_file(argv[i], &options);

		if (r < 0 && r != -ENOENT)
			printf("failed\t%s\t%s\n", argv[i], strerror(-r));
	}
	return 0;
}
