// SPDX-License-Identifier: Apache-2.0
/*
 * What it costs to build an unwind table, and to find names, in a parser process instead of here: for each
 * file both in turns, the least of some runs. A file that can be read here and not there is an error: the
 * sandbox forbids something that it must allow.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/resources.h"
#include "agent/elf/file/elf_image.h"
#include "agent/parser/parser.h"
#include "agent/symbol/batch.h"
#include "agent/unwind/debug_search.h"
#include "agent/unwind/table_job.h"

#define ADDRESSES 64u

static const struct parser_operation *const operations[] = {&table_operation, &symbol_operation};

struct outcome {
	uint64_t ns;
	int result;
	uint64_t content; /* to compare */
};

static uint64_t mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x9e3779b97f4a7c15ull;
}

static struct outcome make_table(int fd, const char *path)
{
	struct debug_search search;
	struct table_request request = {.fd = fd, .debug_fd = -1, .search = &search};
	struct table_result result;
	struct outcome o = {.ns = clock_mono_ns()};

	debug_search_init(&search, NULL, fd, path);
	o.result = table_job_run(&request, &result);
	o.ns = clock_mono_ns() - o.ns;
	for (size_t i = 0; i < result.blocks.n; i++)
		for (uint32_t k = 0; k < result.blocks.blocks[i].len; k++)
			o.content = mix(o.content, result.blocks.blocks[i].bytes[k]);
	table_result_fini(&result);
	debug_search_fini(&search);
	return o;
}

/* Addresses over the whole text. */
static size_t addresses_of(int fd, uint64_t ret[static ADDRESSES])
{
	const struct elf_segment *s;
	struct elf_image *img;
	size_t n, k = 0;

	if (elf_image_open(&img, fd) < 0)
		return 0;
	s = elf_image_segments(img, &n);
	for (size_t i = 0; i < n; i++)
		for (unsigned j = 0; s[i].executable && s[i].file_bytes > ADDRESSES && k < ADDRESSES;
		     j++, k++)
			ret[k] = s[i].va + j * (s[i].file_bytes / ADDRESSES);
	elf_image_free(img);
	return k;
}

static struct outcome find_names(int fd, uint64_t *addrs, size_t n)
{
	struct symbol_batch b = {.fd = fd,
				 .debug_fd = -1,
				 .any_version = true,
				 .any_debug_version = true,
				 .addrs = addrs,
				 .n_addrs = n};
	struct outcome o = {.ns = clock_mono_ns()};

	symbol_batch_run(&b);
	o.ns = clock_mono_ns() - o.ns;
	o.result = b.status;
	for (size_t i = 0; i < b.ranges.n; i++) {
		const struct symbol_range *x = &b.ranges.v[i];

		o.content = mix(mix(o.content, x->start), x->end);
		for (uint32_t k = 0; x->names && k < x->names_bytes; k++)
			o.content = mix(o.content, (unsigned char)x->names[k]);
	}
	symbol_ranges_fini(&b.ranges);
	return o;
}

struct sums {
	uint64_t here_ns, apart_ns;
	unsigned n, differ;
};

static void keep_least(struct outcome *least, struct outcome o)
{
	if (!least->ns || o.ns < least->ns)
		*least = o;
}

static void compare(struct sums *s, const char *what, const char *path, const struct outcome *here,
		    const struct outcome *apart)
{
	s->n++;
	s->here_ns += here->ns;
	s->apart_ns += apart->ns;
	if (here->result == apart->result && here->content == apart->content)
		return;
	s->differ++;
	printf("DIFFERS %s: %s: here %d, in a parser process %d\n", what, path, here->result, apart->result);
}

static void print(const char *what, const struct sums *s)
{
	printf("%-6s %u files, %u differ; here %.3f ms a file, in a parser process %.3f ms, ratio %.3f\n",
	       what, s->n, s->differ, (double)s->here_ns / 1e6 / s->n, (double)s->apart_ns / 1e6 / s->n,
	       (double)s->apart_ns / (double)s->here_ns);
}

/*
 * A nursery, and a first job, which waits until that is ready; an empty request is refused. The agent's
 * nursery has no memory of jobs that were done before it was forked.
 */
static void start(void)
{
	struct parser_call call = {.operation = &table_operation};
	_cleanup_buf_ struct buf answer = {0};

	(void)malloc_trim(0);
	if (parser_start(operations, ARRAY_SIZE(operations)) < 0 || parser_call(&call, &answer) != -EINVAL)
		exit(2);
}

static void measure_file(const char *path, unsigned rounds, struct sums *tables, struct sums *names)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct outcome table[2] = {0}, name[2] = {0};
	uint64_t addrs[ADDRESSES];
	size_t n = fd < 0 ? 0 : addresses_of(fd, addrs);

	if (!n)
		return;
	for (unsigned i = 0; i < 2 * rounds; i++) {
		if (i % 2) /* without a nursery, it is done here */
			start();
		keep_least(&table[i % 2], make_table(fd, path));
		keep_least(&name[i % 2], find_names(fd, addrs, n));
		parser_stop();
	}
	compare(tables, "table", path, &table[0], &table[1]);
	compare(names, "names", path, &name[0], &name[1]);
}

int main(int argc, char **argv)
{
	struct sums tables = {0}, names = {0};
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 0;

	if (!rounds || argc < 3) {
		fprintf(stderr, "usage: bench_parsers ROUNDS FILE...\n");
		return 2;
	}
	resources_bound_heap();
	for (int i = 2; i < argc; i++)
		measure_file(argv[i], rounds, &tables, &names);
	if (!tables.n)
		return 2;
	print("tables", &tables);
	print("names", &names);
	return tables.differ || names.differ;
}
