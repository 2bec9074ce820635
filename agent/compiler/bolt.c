// SPDX-License-Identifier: Apache-2.0
/*
 * Local symbols of one name are told apart as NAME/1, NAME/2 … in the order of their addresses, which BOLT
 * numbers in the same way.
 */
#include "agent/compiler/bolt.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/compiler/samples.h"
#include "agent/elf/file/elf_image.h"

#define SYMBOLS_MAX (16u << 20)

struct symbol {
	uint64_t va, bytes;
	const char *name; /* in the string table */
	uint32_t number;  /* of a local symbol among those of its name, from 1; 0: it is global */
	bool function;
};

struct symbols {
	struct symbol *v; /* owned; sorted by address */
	size_t n;
};

static void symbols_fini(struct symbols *s)
{
	free(s->v);
}

static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->va != y->va)
		return x->va < y->va ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

/* The name of a symbol with an address that is of interest here; NULL: of none. */
static const char *name_of(const Elf64_Sym *sym, const struct elf_data *strings)
{
	const char *name = (const char *)strings->bytes + sym->st_name;
	const unsigned type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || type == STT_SECTION || type == STT_FILE || type == STT_TLS ||
	    sym->st_name >= strings->len || !memchr(name, '\0', strings->len - sym->st_name) || !*name)
		return NULL;
	return name;
}

static int read_symbols(struct symbols *ret, struct elf_image *img)
{
	struct elf_data table, strings;
	int r = elf_image_section(img, ".symtab", &table);

	if (r == 0)
		r = elf_image_section(img, ".strtab", &strings);
	if (r < 0)
		return r == -ENOENT ? -ENODATA : r;
	if (table.len / sizeof(Elf64_Sym) > SYMBOLS_MAX)
		return -EFBIG;
	ret->v = calloc(table.len / sizeof(Elf64_Sym) + 1, sizeof *ret->v);
	if (!ret->v)
		return -ENOMEM;
	for (size_t at = 0; at + sizeof(Elf64_Sym) <= table.len; at += sizeof(Elf64_Sym)) {
		Elf64_Sym sym;
		const char *name;

		memcpy(&sym, table.bytes + at, sizeof sym);
		name = name_of(&sym, &strings);
		if (!name)
			continue;
		ret->v[ret->n++] = (struct symbol){.va = sym.st_value,
						   .bytes = sym.st_size,
						   .name = name,
						   .number = ELF64_ST_BIND(sym.st_info) == STB_LOCAL,
						   .function = ELF64_ST_TYPE(sym.st_info) == STT_FUNC};
	}
	qsort(ret->v, ret->n, sizeof *ret->v, compare);
	return 0;
}

/* How many local symbols have had that name. */
struct named {
	struct map_node node;
	const char *name;
	uint32_t n;
};

static bool named_is(const struct map_node *node, const void *key)
{
	return strcmp(container_of(node, struct named, node)->name, key) == 0;
}

/* Numbers the local symbols, which are sorted by address. */
static int number_locals(struct symbols *s)
{
	_cleanup_free_ struct named *entries = calloc(s->n + 1, sizeof *entries);
	struct map names;
	size_t n = 0;
	int r = 0;

	if (!entries)
		return -ENOMEM;
	map_init(&names, SYMBOLS_MAX);
	for (size_t i = 0; i < s->n && r == 0; i++) {
		const uint64_t hash = hash_bytes(s->v[i].name, strlen(s->v[i].name));
		struct map_node *node;

		if (!s->v[i].number)
			continue;
		node = map_find(&names, hash, named_is, s->v[i].name);
		if (!node) {
			entries[n].name = s->v[i].name;
			node = &entries[n++].node;
			r = map_insert(&names, node, hash);
		}
		s->v[i].number = ++container_of(node, struct named, node)->n;
	}
	map_fini(&names);
	return r;
}

/* The function that contains the address, by the last symbol in front of it; NULL: none. */
static const struct symbol *function_at(const struct symbols *s, uint64_t va)
{
	size_t low = 0, n = s->n;

	while (n) { /* the first symbol behind it */
		const size_t half = n / 2;

		if (s->v[low + half].va <= va) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	while (low-- > 0) {
		const struct symbol *x = &s->v[low];

		if (x->function && va - x->va < (x->bytes ?: 1))
			return x;
		if (x->function && x->bytes) /* functions do not contain others */
			return NULL;
	}
	return NULL;
}

/* BOLT separates fields by blanks, and takes a backslash as a mark in front of one in a name. */
static void put_name(FILE *f, const struct symbol *x)
{
	for (const char *c = x->name; *c; c++) {
		if (*c == ' ' || *c == '\\')
			fputc('\\', f);
		fputc(*c, f);
	}
	if (x->number)
		fprintf(f, "/%" PRIu32, x->number);
}

int compiler_bolt_write(struct compiler_samples *s, uint64_t *ret_left, FILE *f)
{
	_cleanup_(symbols_fini) struct symbols symbols = {0};
	const struct compiler_address *v;
	size_t n;
	int r = read_symbols(&symbols, compiler_samples_image(s));

	*ret_left = 0;
	if (r == 0)
		r = number_locals(&symbols);
	if (r == 0)
		r = compiler_samples_get(s, &v, &n);
	if (r < 0)
		return r;
	fputs("no_lbr cpu-clock\n", f);
	for (size_t i = 0; i < n; i++) {
		const struct symbol *x = function_at(&symbols, v[i].va);

		if (!x) {
			*ret_left += v[i].n;
			continue;
		}
		fputs("1 ", f);
		put_name(f, x);
		fprintf(f, " %" PRIx64 " %" PRIu64 "\n", v[i].va - x->va, v[i].n);
	}
	return fflush(f) != 0 || ferror(f) ? -EIO : 0;
}
