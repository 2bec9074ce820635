// SPDX-License-Identifier: Apache-2.0
/*
 * What it costs to build an unwind table, and to find names, in a parser process instead of here: in one
 * of its own, as a tenant's file gets, and in one that has done such a job before, as for a file of the
 * system's. For each file all in turns, the least of some runs. A file that can be read here and not there is
 * an error: the sandbox forbids something that it must allow.
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

enum where { HERE, APART, APART_AGAIN, WHERES };

static struct outcome make_table(int fd, const char *path, bool of_system)
{
	struct debug_search search;
	struct table_request request = {.fd = fd, .debug_fd = -1, .search = &search, .of_system = of_system};
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

static struct outcome find_names(int fd, uint64_t *addrs, size_t n, bool of_system)
{
	struct symbol_batch b = {.fd = fd,
				 .debug_fd = -1,
				 .of_system = of_system,
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
	uint64_t ns[WHERES];
	unsigned n, differ;
};

static void keep_least(struct outcome *least, struct outcome o)
{
	if (!least->ns || o.ns < least->ns)
		*least = o;
}

static void compare(struct sums *s, const char *what, const char *path, const struct outcome o[WHERES])
{
	s->n++;
	for (int i = 0; i < WHERES; i++) {
		s->ns[i] += o[i].ns;
		if (o[i].result == o[HERE].result && o[i].content == o[HERE].content)
			continue;
		s->differ++;
		printf("DIFFERS %s: %s: here %d, in a parser process %d\n", what, path, o[HERE].result,
		       o[i].result);
	}
}

static double ms(const struct sums *s, enum where where)
{
	return (double)s->ns[where] / 1e6 / s->n;
}

static void print(const char *what, const struct sums *s)
{
	printf("%-6s %u files, %u differ; here %.3f ms a file; in a process of its own %.3f ms, ratio %.3f; "
	       "in one "
	       "for several %.3f ms, ratio %.3f\n",
	       what, s->n, s->differ, ms(s, HERE), ms(s, APART), ms(s, APART) / ms(s, HERE),
	       ms(s, APART_AGAIN), ms(s, APART_AGAIN) / ms(s, HERE));
}

/*
 * A nursery, and a first job of each kind, which waits until that is ready; an empty request is refused. The
 * agent's nursery has no memory of jobs that were done before it was forked.
 */
static void start(void)
{
	(void)malloc_trim(0);
	if (parser_start(operations, ARRAY_SIZE(operations)) < 0)
		exit(2);
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		struct parser_call call = {.operation = operations[i], .of_system = true};
		_cleanup_buf_ struct buf answer = {0};

		if (parser_call(&call, &answer) != -EINVAL)
			exit(2);
	}
}

static void measure_file(const char *path, unsigned rounds, struct sums *tables, struct sums *names)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct outcome table[WHERES] = {0}, name[WHERES] = {0};
	uint64_t addrs[ADDRESSES];
	size_t n = fd < 0 ? 0 : addresses_of(fd, addrs);

	if (!n)
		return;
	for (unsigned i = 0; i < WHERES * rounds; i++) {
		const enum where where = i % WHERES;

		if (where != HERE) /* without a nursery, it is done here */
			start();
		keep_least(&table[where], make_table(fd, path, where == APART_AGAIN));
		keep_least(&name[where], find_names(fd, addrs, n, where == APART_AGAIN));
		parser_stop();
	}
	compare(tables, "table", path, table);
	compare(names, "names", path, name);
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
