// SPDX-License-Identifier: Apache-2.0
/*
 * python_lines: reads, from standard input, line tables with the lines that CPython itself finds in them
 * (dump.py), and compares those of agent/runtime/cpython_lines. A table that is cut in the middle must give
 * the same lines, or none. Prints the number of tables, of lines, and of differences.
 */
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/runtime/cpython_lines.h"

#define UNIT_BYTES 2u
#define LENGTH_MAX (64u << 20)
#define SHOWN_MAX 20u

struct table_header {
	uint32_t format, first_line, name_bytes, table_bytes, n_lines;
};

static struct {
	uint64_t tables, lines, without, differences, cut_lines, cut_known;
} n;

static void *read_bytes(size_t bytes)
{
	void *data = malloc(bytes + 1);

	if (!data || fread(data, 1, bytes, stdin) != bytes) {
		fprintf(stderr, "python_lines: the input ends inside a table, or is too large\n");
		exit(2);
	}
	((char *)data)[bytes] = '\0';
	return data;
}

static void differ(const char *name, const char *what, size_t i, uint32_t ours, uint32_t theirs)
{
	if (n.differences++ < SHOWN_MAX)
		printf("%s: %s, unit %zu: line %u, CPython %u\n", name, what, i, ours, theirs);
}

static void compare(const struct table_header *h)
{
	_cleanup_free_ char *name = read_bytes(h->name_bytes);
	_cleanup_free_ uint8_t *bytes = read_bytes(h->table_bytes);
	_cleanup_free_ uint32_t *lines = read_bytes(h->n_lines * sizeof *lines);
	const struct cpython_lines_table whole = {.bytes = bytes,
						  .len = h->table_bytes,
						  .format = (enum cpython_lines)h->format,
						  .first_line = h->first_line};
	struct cpython_lines_table half = whole;

	half.len /= 2;
	half.cut = true;
	n.tables++;
	for (size_t i = 0; i < h->n_lines; i++) {
		uint32_t line = cpython_line(&whole, (uint32_t)i * UNIT_BYTES);

		n.lines++;
		n.without += !lines[i];
		if (line != lines[i])
			differ(name, "whole", i, line, lines[i]);
		line = cpython_line(&half, (uint32_t)i * UNIT_BYTES);
		n.cut_lines++;
		n.cut_known += line != 0;
		if (line && line != lines[i])
			differ(name, "cut", i, line, lines[i]);
	}
}

int main(void)
{
	struct table_header h;

	while (fread(&h, sizeof h, 1, stdin) == 1) {
		if (h.format >= CPYTHON_LINES_N || h.name_bytes > LENGTH_MAX || h.table_bytes > LENGTH_MAX ||
		    h.n_lines > LENGTH_MAX) {
			fprintf(stderr, "python_lines: no table\n");
			return 2;
		}
		compare(&h);
	}
	printf("%llu tables, %llu lines (%llu none), %llu of tables cut in half (%llu known), %llu "
	       "differences\n",
	       (unsigned long long)n.tables, (unsigned long long)n.lines, (unsigned long long)n.without,
	       (unsigned long long)n.cut_lines, (unsigned long long)n.cut_known,
	       (unsigned long long)n.differences);
	return n.differences ? 1 : 0;
}
