// SPDX-License-Identifier: Apache-2.0
/*
 * Compiles the unwind tables of ELF files again and again, in one thread, and times the parts. usage:
 *
 *	bench_tables REPEATS [analysis] < PATHS
 *
 * One line a file, TAB separated: path, 0 or the error, rows, rules, blocks, bytes, bytes as the arena places
 * them, then median, least and most nanoseconds of this thread's CPU for image → rows, for rows → blocks, and
 * for both. The first pass, which pays for memory and page cache, is not among them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/elf/code/asmrows.h"
#include "agent/elf/code/flow.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/unwind_table.h"
#include "agent/unwind/block.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

enum part { PART_ROWS, PART_BLOCKS, PART_BOTH, PARTS };

struct pass {
	uint64_t ns[PARTS];
	size_t rows, rules, blocks, bytes, placed;
};

static void count(struct pass *p, const struct elf_rows *rows, const struct unwind_blocks *b)
{
	p->rows = 0;
	for (size_t i = 0; i < rows->n_rows; i++)
		p->rows += rows->rules[rows->rows[i].rule].cfa_kind != CFA_NONE;
	p->rules = rows->n_rules - 1;
	p->blocks = b->n;
	p->bytes = b->bytes;
	p->placed = 0;
	for (size_t i = 0; i < b->n; i++)
		p->placed += ((size_t)b->blocks[i].len + REF_ALIGN - 1) / REF_ALIGN * REF_ALIGN;
}

/*
 * Opens the image anew, as the agent's job does: what an image keeps of an earlier pass would be too cheap.
 */
static int run_pass(int fd, struct pass *p)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
	struct unwind_blocks blocks = {0};
	int r = elf_image_open(&img, fd);

	if (r < 0)
		return r;
	uint64_t begin = clock_thread_cpu_ns();
	r = elf_rows_build(&rows, img);
	if (r < 0)
		return r;
	uint64_t middle = clock_thread_cpu_ns();
	r = unwind_blocks_encode(&blocks, rows, elf_image_machine(img));
	if (r < 0)
		return r;
	uint64_t end = clock_thread_cpu_ns();
	p->ns[PART_ROWS] = middle - begin;
	p->ns[PART_BLOCKS] = end - middle;
	p->ns[PART_BOTH] = end - begin;
	count(p, rows, &blocks);
	unwind_blocks_fini(&blocks);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void print_part(const struct pass *passes, uint64_t *sorted, size_t n, enum part part)
{
	for (size_t i = 0; i < n; i++)
		sorted[i] = passes[i].ns[part];
	qsort(sorted, n, sizeof(*sorted), by_value);
	printf("\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, sorted[n / 2], sorted[0], sorted[n - 1]);
}

static void measure(const char *path, struct pass *passes, uint64_t *sorted, size_t n)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int r = fd < 0 ? -errno : run_pass(fd, &passes[0]);

	for (size_t i = 0; i < n && r == 0; i++)
		r = run_pass(fd, &passes[i]);
	printf("%s\t%d", path, r);
	if (r == 0) {
		const struct pass *p = &passes[0];

		printf("\t%zu\t%zu\t%zu\t%zu\t%zu", p->rows, p->rules, p->blocks, p->bytes, p->placed);
		for (enum part part = 0; part < PARTS; part++)
			print_part(passes, sorted, n, part);
	}
	putchar('\n');
	fflush(stdout);
}

/* --- analysis of code */

struct analysed {
	uint64_t end; /* of the last instruction */
	struct elf_rule rule;
	size_t rows, instructions;
};

static void count_instruction(uint64_t va, unsigned bytes, const struct flow_state *state, void *data)
{
	const struct elf_rule rule = flow_rule(state);
	struct analysed *a = data;

	a->rows += va != a->end || memcmp(&rule, &a->rule, sizeof(rule)) != 0;
	a->instructions++;
	a->rule = rule;
	a->end = va + bytes;
}

static int analyse(int fd, const struct code_observer *observer, uint64_t *ns)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	int r = elf_image_open(&img, fd);
	uint64_t begin = clock_thread_cpu_ns();

	if (r == 0)
		r = asmrows_observe(img, observer);
	*ns = clock_thread_cpu_ns() - begin;
	return r;
}

static void measure_analysis(const char *path, struct pass *passes, uint64_t *sorted, size_t n)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct analysed a = {0};
	const struct code_observer observer = {count_instruction, &a};
	int r = fd < 0 ? -errno : analyse(fd, &observer, &passes[0].ns[PART_ROWS]);

	for (size_t i = 0; i < n && r == 0; i++)
		r = analyse(fd, NULL, &passes[i].ns[PART_ROWS]);
	printf("%s\t%d", path, r);
	if (r == 0) {
		printf("\t%zu\t%zu", a.rows, a.instructions);
		print_part(passes, sorted, n, PART_ROWS);
	}
	putchar('\n');
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const bool analysis = argc == 3 && strcmp(argv[2], "analysis") == 0;
	size_t n = argc == 2 || analysis ? strtoul(argv[1], NULL, 10) : 0;
	_cleanup_free_ struct pass *passes = NULL;
	_cleanup_free_ uint64_t *sorted = NULL;
	_cleanup_free_ char *path = NULL;
	size_t cap = 0;

	if (n < 1 || n > 10000) {
		fprintf(stderr, "usage: bench_tables REPEATS [analysis] < PATHS, 1 to 10000\n");
		return 2;
	}
	passes = calloc(n, sizeof(*passes));
	sorted = calloc(n, sizeof(*sorted));
	if (!passes || !sorted)
		return 1;
	while (getline(&path, &cap, stdin) > 0) {
		path[strcspn(path, "\n")] = '\0';
		(analysis ? measure_analysis : measure)(path, passes, sorted, n);
	}
	return ferror(stdin) ? 1 : 0;
}
