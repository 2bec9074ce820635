// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/code/cold_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/file/strtab.h"

#define MARK ".cold"
#define MARK_BYTES (sizeof MARK - 1)
#define CHUNK_BYTES (64u << 10)
#define NAMES_MAX (1u << 20)

static int add(struct cold_names *c, uint64_t start, uint64_t mark)
{
	int r = array_reserve(&c->v, &c->cap, c->n + 1, sizeof *c->v);

	if (r == 0)
		c->v[c->n++] = (struct cold_name){start, mark};
	return r;
}

/*
 * Adds the names in the chunk, which is at offset `at` of the table and has `n` bytes, and one more, 0 behind
 * the table's end. *start: where the string begins that goes on at the chunk's begin, then at its end.
 */
static int search(struct cold_names *c, const char *chunk, size_t n, uint64_t at, uint64_t *start)
{
	const char *from = chunk, *found, *zero;
	int r = 0;

	while (r == 0 && (found = memmem(from, n - (size_t)(from - chunk), MARK, MARK_BYTES))) {
		zero = memrchr(from, 0, (size_t)(found - from));
		if (zero)
			*start = at + (uint64_t)(zero + 1 - chunk);
		from = found + MARK_BYTES;
		if ((!*from || *from == '.') && c->n < NAMES_MAX)
			r = add(c, *start, at + (uint64_t)(found - chunk));
	}
	zero = memrchr(from, 0, n - (size_t)(from - chunk));
	if (zero)
		*start = at + (uint64_t)(zero + 1 - chunk);
	return r;
}

int cold_names_read(struct cold_names *ret, const struct elf_strtab *strings)
{
	_cleanup_free_ char *chunk = malloc(CHUNK_BYTES + MARK_BYTES + 1);
	uint64_t at = 0, start = 0;
	int r = chunk ? 0 : -ENOMEM;

	*ret = (struct cold_names){0};
	/* chunks overlap by what a mark may lack at the end of one */
	while (r == 0 && at < strings->bytes) {
		const uint64_t left = strings->bytes - at;
		const size_t n = left < CHUNK_BYTES + MARK_BYTES ? left : CHUNK_BYTES + MARK_BYTES;

		r = elf_image_pread(strings->img, strings->offset + at, chunk, n);
		if (r == 0) {
			chunk[n] = '\0';
			r = search(ret, chunk, n == left ? n : n - 1, at, &start);
		}
		at += n == left ? n : CHUNK_BYTES;
	}
	return r;
}

void cold_names_fini(struct cold_names *c)
{
	free(c->v);
	*c = (struct cold_names){0};
}

bool cold_names_has(const struct cold_names *c, uint64_t name)
{
	const size_t i = array_first(c->n, k, c->v[k].mark >= name);

	return i < c->n && c->v[i].start <= name;
}
