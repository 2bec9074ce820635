// SPDX-License-Identifier: Apache-2.0
/*
 * The addresses are sorted once; each symbol then finds by binary search which of them it touches. For each
 * address three things are kept: the best function of known size that covers it, the nearest label without a
 * size before it, and the nearest points before and behind it where any function begins or ends. Nothing
 * changes between those two points, so they bound the range for which the answer holds, and a label covers an
 * address if no other point is between them.
 *
 * A label or a point concerns the next address only; a pass over the addresses at the end carries it on.
 */
#include "agent/elf/symtab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/gonames.h"
#include "agent/elf/plt.h"
#include "agent/elf/strtab.h"

#define SYMBOLS_PER_READ 2048

/* A function that may give an address its name. */
struct candidate {
	uint64_t start;
	uint32_t name; /* in the string table; 0: none */
	uint8_t rank;  /* smaller is better */
};

struct target {
	uint64_t addr;
	size_t index; /* in the caller's arrays */
	struct candidate sized, label;
	uint64_t low, high; /* nearest points: low <= addr < high */
};

struct batch {
	struct elf_image *img;
	struct elf_strtab strings;
	struct target *targets; /* owned; by address */
	size_t n;
	uint64_t budget;  /* further targets that sized symbols may visit: nested ones could cost symbols *
			     targets */
	bool *executable; /* owned; by section index */
	size_t n_sections;
};

static int compare_targets(const void *a, const void *b)
{
	const struct target *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* First target at or behind `addr`. */
static size_t target_from(const struct batch *b, uint64_t addr)
{
	size_t low = 0, n = b->n;

	while (n > 0) {
		size_t half = n / 2;

		if (b->targets[low + half].addr < addr) {
			low += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return low;
}

/* Notes that a function begins or ends at `addr`; returns the first target at or behind it. */
static size_t add_point(struct batch *b, uint64_t addr)
{
	size_t i = target_from(b, addr);

	if (i < b->n && addr > b->targets[i].low)
		b->targets[i].low = addr;
	if (i > 0 && addr < b->targets[i - 1].high)
		b->targets[i - 1].high = addr;
	return i;
}

static unsigned leading_underscores(const char *s)
{
	return (unsigned)strspn(s, "_");
}

/* Among names of one thing: fewer leading underscores, then shorter, then by the alphabet. */
static bool better_name(struct batch *b, uint32_t name, uint32_t than)
{
	char other[ELF_STRING_MAX + 1];

	strcpy(other, elf_strtab_get(&b->strings, than));
	const char *s = elf_strtab_get(&b->strings, name);
	unsigned ours = leading_underscores(s), theirs = leading_underscores(other);
	if (ours != theirs)
		return ours < theirs;
	size_t len = strlen(s), other_len = strlen(other);
	return len != other_len ? len < other_len : strcmp(s, other) < 0;
}

static void consider(struct batch *b, struct candidate *best, const struct candidate *c)
{
	if (best->name) {
		if (c->start != best->start) {
			if (c->start < best->start)
				return; /* the inner one names the address */
		} else if (c->rank != best->rank) {
			if (c->rank > best->rank)
				return;
		} else if (c->name == best->name || !better_name(b, c->name, best->name)) {
			return;
		}
	}
	*best = *c;
}

/* Mapping symbols of aarch64 ("$x", "$d.12") say what the bytes are, not whose. */
static bool is_mapping_symbol(const char *name)
{
	return name[0] == '$' && (name[1] == 'x' || name[1] == 'd') && (name[2] == '\0' || name[2] == '.');
}

static bool is_function(struct batch *b, const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || sym->st_name == 0)
		return false;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return false;
	/* an index in a reserved range (SHN_XINDEX, SHN_ABS) is of no use here: trust functions, not labels
	 */
	if (sym->st_shndx >= b->n_sections)
		return type != STT_NOTYPE;
	if (!b->executable[sym->st_shndx])
		return false;
	return type != STT_NOTYPE || ELF64_ST_BIND(sym->st_info) != STB_LOCAL ||
	       !is_mapping_symbol(elf_strtab_get(&b->strings, sym->st_name));
}

static uint8_t rank_of(const Elf64_Sym *sym)
{
	uint8_t bind = ELF64_ST_BIND(sym->st_info) == STB_LOCAL ? 2 : ELF64_ST_BIND(sym->st_info) == STB_WEAK;

	return (uint8_t)((ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE ? 4 : 0) + bind);
}

static void add_symbol(struct batch *b, const Elf64_Sym *sym)
{
	uint64_t end;

	if (!is_function(b, sym) || __builtin_add_overflow(sym->st_value, sym->st_size, &end))
		return;
	const struct candidate c = {.start = sym->st_value, .name = sym->st_name, .rank = rank_of(sym)};
	size_t i = add_point(b, c.start);
	if (end == c.start) {
		if (i < b->n)
			consider(b, &b->targets[i].label, &c);
		return;
	}
	add_point(b, end);
	if (i < b->n && b->targets[i].addr < end)
		consider(b, &b->targets[i].sized, &c);
	for (i++; i < b->n && b->targets[i].addr < end && b->budget > 0; i++, b->budget--)
		consider(b, &b->targets[i].sized, &c);
}

static int read_symbols(struct batch *b, const GElf_Shdr *table)
{
	_cleanup_free_ Elf64_Sym *symbols = calloc(SYMBOLS_PER_READ, sizeof(*symbols));
	uint64_t n = table->sh_size / sizeof(*symbols);

	if (!symbols)
		return -ENOMEM;
	b->budget = 64 * (n + b->n);
	for (uint64_t first = 0; first < n; first += SYMBOLS_PER_READ) {
		uint64_t left = n - first, here = left < SYMBOLS_PER_READ ? left : SYMBOLS_PER_READ;

		if (image_read(b->img, table->sh_offset + first * sizeof(*symbols), symbols,
			       here * sizeof(*symbols)) < 0)
			return 0; /* cut short: names that were found stay */
		for (uint64_t i = 0; i < here; i++)
			add_symbol(b, &symbols[i]);
	}
	return 0;
}

/* Which sections hold code; their ends are points, too: labels do not reach over them. */
static int read_sections(struct batch *b)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	if (elf_getshdrnum(b->img->elf, &b->n_sections) < 0)
		b->n_sections = 0;
	b->executable = calloc(b->n_sections + 1, sizeof(*b->executable));
	if (!b->executable)
		return -ENOMEM;
	while ((scn = elf_nextscn(b->img->elf, scn))) {
		if (!gelf_getshdr(scn, &shdr) || !(shdr.sh_flags & SHF_EXECINSTR) ||
		    elf_ndxscn(scn) >= b->n_sections)
			continue;
		b->executable[elf_ndxscn(scn)] = true;
		add_point(b, shdr.sh_addr);
		add_point(b, shdr.sh_addr + shdr.sh_size);
	}
	return 0;
}

static void carry_on(struct batch *b)
{
	for (size_t i = 1; i < b->n; i++) {
		struct target *t = &b->targets[i], *before = &b->targets[i - 1];

		if (before->low > t->low)
			t->low = before->low;
		if (before->label.name && (!t->label.name || before->label.start > t->label.start))
			t->label = before->label;
	}
	for (size_t i = b->n; i-- > 1;) {
		if (b->targets[i].high < b->targets[i - 1].high)
			b->targets[i - 1].high = b->targets[i].high;
	}
}

/* A copy without the version ("memcpy@@GLIBC_2.14"), NULL when memory is short. */
static char *copy_name(const char *s)
{
	const char *at = strchr(s, '@');

	return at && at != s ? strndup(s, (size_t)(at - s)) : strdup(s);
}

static int write_answers(struct batch *b, struct elf_symbol *ret)
{
	for (size_t i = 0; i < b->n; i++) {
		struct target *t = &b->targets[i];
		const struct candidate *c = t->sized.name ? &t->sized : NULL;

		if (!c && t->label.name && t->label.start == t->low)
			c = &t->label;
		ret[t->index].start = t->low;
		ret[t->index].end = t->high;
		if (!c)
			continue;
		ret[t->index].name = copy_name(elf_strtab_get(&b->strings, c->name));
		if (!ret[t->index].name)
			return -ENOMEM;
	}
	return 0;
}

static int resolve_functions(struct batch *b, const uint64_t *addrs, struct elf_symbol *ret)
{
	GElf_Shdr table;

	b->targets = calloc(b->n + 1, sizeof(*b->targets));
	if (!b->targets)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++)
		b->targets[i] = (struct target){.addr = addrs[i], .index = i, .high = UINT64_MAX};
	qsort(b->targets, b->n, sizeof(*b->targets), compare_targets);
	int r = read_sections(b);
	if (r < 0)
		return r;
	if ((image_find_section_type(b->img, SHT_SYMTAB, &table) == 0 ||
	     image_find_section_type(b->img, SHT_DYNSYM, &table) == 0) &&
	    elf_strtab_open(&b->strings, b->img, &table)) {
		r = read_symbols(b, &table);
		if (r < 0)
			return r;
	}
	carry_on(b);
	return write_answers(b, ret);
}

int elf_symtab_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret)
{
	struct batch *b = calloc(1, sizeof(*b));

	memset(ret, 0, n * sizeof(*ret));
	if (!b)
		return -ENOMEM;
	b->img = img;
	b->n = n;
	int r = resolve_functions(b, addrs, ret);
	free(b->targets);
	free(b->executable);
	free(b);
	if (r == 0)
		r = plt_resolve(img, addrs, n, ret);
	if (r == 0)
		r = gonames_resolve(img, addrs, n, ret);
	for (size_t i = 0; r < 0 && i < n; i++) {
		free(ret[i].name);
		ret[i].name = NULL;
	}
	return r;
}
