// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/names/go_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/go/gocode.h"
#include "agent/elf/go/golines.h"
#include "agent/elf/file/strtab.h"

#define DEPTHS_MAX (64u << 10) /* bytes of stack depths that are read to find the end of a function */

struct gonames {
	struct gopclntab table;
	struct golines lines;
	bool with_lines;
	uint8_t depths[DEPTHS_MAX];
	char name[ELF_STRING_MAX + 1];
};

/*
 * The end of a function. The next one may start far behind it: C code may lie between them, or follow the
 * last one.
 */
static uint64_t end_of(struct gonames *g, const struct gopclntab_function *fn)
{
	struct gopclntab_values v;
	uint64_t from;

	gopclntab_depths(&g->table, fn, g->depths, sizeof(g->depths), &v);
	while (gopclntab_values_next(&v, &from))
		;
	return v.c.bad || v.pc == fn->start || v.pc > fn->end ? fn->end : v.pc;
}

static void narrow(struct elf_symbol *s, uint64_t start, uint64_t end)
{
	s->start = start > s->start ? start : s->start;
	s->end = end < s->end ? end : s->end;
}

/* Adds source lines. The result then applies to fewer addresses. */
static int add_lines(struct gonames *g, uint64_t i, uint64_t addr, struct elf_symbol *ret)
{
	uint64_t start, end;
	int r = golines_find(&g->lines, i, addr, &ret->lines, &ret->n_lines, &start, &end);

	if (r == 0)
		narrow(ret, start, end);
	return r == -ENOMEM ? r : 0;
}

static int resolve_one(struct gonames *g, uint64_t addr, struct elf_symbol *ret)
{
	struct gopclntab_function fn;
	uint64_t i;

	int r = gopclntab_find(&g->table, addr, &i);
	if (r < 0) {
		if (r == -ENOENT && !ret->name && gopclntab_function(&g->table, 0, &fn) == 0 &&
		    addr < fn.start)
			narrow(ret, 0, fn.start);
		return 0;
	}
	if (gopclntab_function(&g->table, i, &fn) < 0)
		return 0;
	uint64_t end = addr < fn.end ? end_of(g, &fn) : fn.end;
	if (addr >= end) { /* behind the last function, or in code between two that is not Go */
		if (!ret->name)
			narrow(ret, end, addr < fn.end ? fn.end : UINT64_MAX);
		return 0;
	}
	gopclntab_name(&g->table, fn.name, g->name, sizeof(g->name));
	if (!g->name[0])
		return 0;
	char *name = strdup(g->name);
	if (!name)
		return -ENOMEM;
	free(ret->name);
	ret->name = name;
	ret->start = fn.start;
	ret->end = end;
	return g->with_lines ? add_lines(g, i, addr, ret) : 0;
}

int gonames_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, bool lines,
		    struct elf_symbol *ret)
{
	_cleanup_free_ struct gonames *g = NULL;
	enum go_prologue prologue;

	g = malloc(sizeof(*g));
	if (!g)
		return -ENOMEM;
	int r = gopclntab_open(&g->table, img);
	if (r == 0)
		r = gocode_find_text(&g->table, &prologue);
	g->with_lines = lines;
	if (r == 0 && lines)
		r = golines_open(&g->lines, &g->table);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < n && r == 0; i++)
		r = resolve_one(g, addrs[i], &ret[i]);
	return r;
}
