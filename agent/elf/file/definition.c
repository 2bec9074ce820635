// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file/definition.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/file/strtab.h"

#define SYMBOLS_PER_READ 512u
#define CHAIN_MAX 1024u /* symbols of one bucket; linkers make buckets for a few */

/* Whether the symbol has an address in the file's image. Those of thread-local variables are offsets. */
static bool is_definition(const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	return sym->st_shndx != SHN_UNDEF && sym->st_value &&
	       (type == STT_OBJECT || type == STT_FUNC || type == STT_NOTYPE);
}

static void found(struct elf_definition *d, const Elf64_Sym *sym)
{
	d->found = true;
	d->va = sym->st_value;
	d->bytes = sym->st_size;
}

/* --- by .gnu.hash: header, Bloom filter, buckets, chains */

struct gnu_hash {
	const struct elf_image *img;
	struct elf_section section, symbols;
	struct elf_strtab strings;
	struct {
		uint32_t n_buckets, first_symbol, n_bloom, shift;
	} head;
};

static bool gnu_hash_read(const struct gnu_hash *g, uint64_t at, void *ret, size_t len)
{
	return at <= g->section.bytes && len <= g->section.bytes - at &&
	       elf_image_pread(g->img, g->section.offset + at, ret, len) == 0;
}

static bool gnu_hash_open(struct gnu_hash *g, const struct elf_image *img)
{
	g->img = img;
	return elf_image_find_section_type(img, SHT_GNU_HASH, &g->section) == 0 &&
	       elf_image_section_header(img, g->section.link, &g->symbols) && g->symbols.type == SHT_DYNSYM &&
	       gnu_hash_read(g, 0, &g->head, sizeof g->head) && g->head.n_buckets && g->head.n_bloom &&
	       elf_strtab_open(&g->strings, img, &g->symbols);
}

static uint32_t hash_of(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

/* Whether symbol `i` has that name and is defined. */
static bool gnu_hash_is(struct gnu_hash *g, uint64_t i, struct elf_definition *d)
{
	Elf64_Sym sym;

	if (i >= g->symbols.bytes / sizeof sym ||
	    elf_image_pread(g->img, g->symbols.offset + i * sizeof sym, &sym, sizeof sym) < 0 ||
	    !is_definition(&sym) || strcmp(elf_strtab_get(&g->strings, sym.st_name), d->name) != 0)
		return false;
	found(d, &sym);
	return true;
}

static void gnu_hash_find(struct gnu_hash *g, struct elf_definition *d)
{
	const uint32_t hash = hash_of(d->name);
	const uint64_t buckets = sizeof g->head + 8ull * g->head.n_bloom;
	const uint64_t chains = buckets + 4ull * g->head.n_buckets;
	const uint64_t bits = 1ull << (hash & 63) | 1ull << (hash >> (g->head.shift & 31) & 63);
	uint64_t bloom;
	uint32_t bucket, other;

	if (!gnu_hash_read(g, sizeof g->head + 8ull * (hash / 64 % g->head.n_bloom), &bloom, sizeof bloom) ||
	    (bloom & bits) != bits ||
	    !gnu_hash_read(g, buckets + 4ull * (hash % g->head.n_buckets), &bucket, sizeof bucket) ||
	    bucket < g->head.first_symbol)
		return;
	for (uint64_t i = 0; i < CHAIN_MAX; i++) {
		if (!gnu_hash_read(g, chains + 4 * (bucket - g->head.first_symbol + i), &other, sizeof other))
			return;
		if ((other | 1) == (hash | 1) && gnu_hash_is(g, bucket + i, d))
			return;
		if (other & 1) /* the bucket's last one */
			return;
	}
}

/* --- by a pass over all symbols */

struct pass {
	const struct elf_image *img;
	struct elf_section symbols;
	uint8_t *strings; /* owned */
	uint64_t strings_bytes;
};

static void match(const struct pass *p, const Elf64_Sym *sym, struct elf_definition *d, size_t n)
{
	if (sym->st_name >= p->strings_bytes || !is_definition(sym))
		return;
	for (size_t i = 0; i < n; i++) {
		const size_t len = strlen(d[i].name) + 1;

		if (!d[i].found && len <= p->strings_bytes - sym->st_name &&
		    memcmp(p->strings + sym->st_name, d[i].name, len) == 0)
			found(&d[i], sym);
	}
}

static void pass_run(const struct pass *p, struct elf_definition *d, size_t n)
{
	Elf64_Sym symbols[SYMBOLS_PER_READ];
	const uint64_t count = p->symbols.bytes / sizeof symbols[0];

	for (uint64_t first = 0; first < count; first += SYMBOLS_PER_READ) {
		const uint64_t left = count - first, here = left < SYMBOLS_PER_READ ? left : SYMBOLS_PER_READ;

		if (elf_image_pread(p->img, p->symbols.offset + first * sizeof symbols[0], symbols,
				    here * sizeof symbols[0]) < 0)
			return; /* the file is truncated: what was found is right */
		for (uint64_t i = 0; i < here; i++)
			match(p, &symbols[i], d, n);
	}
}

static int find_in_table(struct elf_image *img, uint32_t type, struct elf_definition *d, size_t n)
{
	struct pass p = {.img = img};
	struct elf_section strings;
	int r;

	if (elf_image_find_section_type(img, type, &p.symbols) < 0 ||
	    !elf_image_section_header(img, p.symbols.link, &strings) || strings.type != SHT_STRTAB ||
	    strings.bytes > ELF_DEFINITION_STRINGS_MAX || elf_image_is_hole(img, p.symbols.bytes))
		return 0;
	r = elf_image_pread_new(img, strings.offset, strings.bytes, &p.strings);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	p.strings_bytes = strings.bytes;
	pass_run(&p, d, n);
	free(p.strings);
	return 0;
}

int elf_definitions_find_dynamic(struct elf_image *img, struct elf_definition *d, size_t n)
{
	struct gnu_hash g;

	if (!gnu_hash_open(&g, img))
		return find_in_table(img, SHT_DYNSYM, d, n);
	for (size_t i = 0; i < n; i++)
		if (!d[i].found)
			gnu_hash_find(&g, &d[i]);
	return 0;
}

int elf_definitions_find_static(struct elf_image *img, struct elf_definition *d, size_t n)
{
	return find_in_table(img, SHT_SYMTAB, d, n);
}
