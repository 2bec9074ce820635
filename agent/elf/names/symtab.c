// SPDX-License-Identifier: Apache-2.0
/*
 * The addresses are sorted once; then a binary search finds the addresses that each symbol affects. For each
 * address three results are stored: the best function with a size that covers it; the nearest label (a symbol
 * without a size) before it; and the nearest points before and behind it at which any function begins or
 * ends. Nothing changes between these two points, so they are the bounds of the result, and a label covers an
 * address if no other point lies between them, and if its function does not end before (label_end.h).
 *
 * A label or a point is stored with the nearest address only; a final pass over the addresses passes it on to
 * the next ones.
 */
#include "agent/elf/names/symtab.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/code/label_end.h"
#include "agent/elf/file/debugdata.h"
#include "agent/elf/names/extents.h"
#include "agent/elf/names/go_names.h"
#include "agent/elf/names/plt_names.h"
#include "agent/elf/file/strtab.h"

#define SYMBOLS_PER_READ 2048
#define LABELS_BYTES_MAX (8u << 20)

#define SYMSOURCES_MAX 3u

#define SYMBOLS_BYTES_MAX (1ull << 30) /* of a symbol table; a larger one is ignored */

/* One symbol table. */
struct symsource {
	const struct elf_image *img; /* borrowed */
	struct elf_image *owned;     /* `img` if the source owns it, else NULL */
	struct elf_section table;    /* section of the symbols */
	struct elf_strtab strings;
	uint64_t delta;	  /* to be added to the addresses of its symbols */
	bool *executable; /* owned; executable[i]: section i contains code */
	size_t n_sections;
};

/* A symbol that may name an address. */
struct candidate {
	uint64_t start;
	uint32_t name;	/* offset in the string table; 0: none */
	uint8_t rank;	/* smaller is better */
	uint8_t source; /* index of the source whose string table has the name */
};

struct target {
	uint64_t addr;
	size_t index; /* in the caller's arrays */
	struct candidate sized, label;
	uint64_t low, high; /* nearest points; low <= addr < high */
};

/* An address that lies behind the function of the label before it. */
struct left_label {
	size_t index; /* in the caller's arrays */
	struct candidate label;
	uint64_t end; /* of the function */
};

struct batch {
	struct symsource sources[SYMSOURCES_MAX];
	unsigned n_sources;
	struct target *targets; /* owned; sorted by address */
	size_t n;
	uint64_t label; /* the last one whose end was looked for; UINT64_MAX: none */
	uint64_t label_end;
	uint64_t label_bytes;	 /* of code that may still be read to find the ends of labels */
	struct left_label *left; /* owned */
	size_t n_left, cap_left;
	uint64_t budget; /* further visits of targets by symbols with a size, which may be nested */
};

/* --- sources */

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

/* Finds the sections with code. */
static int read_sections(struct symsource *s)
{
	struct elf_section section;

	s->n_sections = elf_image_n_sections(s->img);
	s->executable = calloc(s->n_sections + 1, sizeof(*s->executable));
	if (!s->executable)
		return -ENOMEM;
	for (size_t i = 1; i < s->n_sections; i++) {
		if (elf_image_section_header(s->img, i, &section))
			s->executable[i] = section.flags & SHF_EXECINSTR;
	}
	return 0;
}

/* Opens the first symbol table of this type. 0, -ENOENT, -ENOMEM. */
static int open_table(struct symsource *ret, const struct elf_image *img, uint32_t type, uint64_t delta)
{
	struct symsource s = {.img = img, .delta = delta};

	if (elf_image_find_section_type(img, type, &s.table) < 0 ||
	    s.table.bytes > elf_image_file_bytes(img) || s.table.bytes > SYMBOLS_BYTES_MAX ||
	    elf_image_is_hole(img, s.table.bytes) || !elf_strtab_open(&s.strings, img, &s.table))
		return -ENOENT;
	int r = read_sections(&s);
	if (r == 0)
		*ret = s;
	return r;
}

static int open_debugdata(struct symsource *ret, struct elf_image *img)
{
	_cleanup_(elf_image_free_p) struct elf_image *inner = NULL;
	int r = debugdata_open(&inner, img);

	if (r == 0)
		r = open_table(ret, inner, SHT_SYMTAB, 0);
	if (r == 0)
		ret->owned = TAKE_PTR(inner);
	return r;
}

/*
 * Opens all symbol tables for the functions of a file, and skips damaged ones. These are .symtab; or, if
 * there is none, .dynsym and the symbols that were removed when the file was stripped: .gnu_debugdata in the
 * file, or .symtab of its separate debug file. `debug` is that file, or NULL; `debug` and `img` are borrowed.
 * 0 (*ret_n may be 0) or -ENOMEM. Call symsource_fini for each, also on error.
 */
static int symsources_open(struct symsource ret[SYMSOURCES_MAX], unsigned *ret_n, struct elf_image *img,
			   struct elf_image *debug, uint64_t delta)
{
	unsigned n = 0;
	int r = open_table(&ret[0], img, SHT_SYMTAB, 0);

	*ret_n = r == 0;
	if (r != -ENOENT)
		return r;
	r = open_table(&ret[n], img, SHT_DYNSYM, 0);
	n += r == 0;
	if (r != -ENOMEM) {
		r = debug ? open_table(&ret[n], debug, SHT_SYMTAB, delta) : -ENOENT;
		n += r == 0;
	}
	if (r == -ENOENT) { /* the debug file has a complete symbol table */
		r = open_debugdata(&ret[n], img);
		n += r == 0;
	}
	*ret_n = n;
	return r == -ENOMEM ? r : 0;
}

static void symsource_fini(struct symsource *s)
{
	elf_image_free(s->owned);
	free(s->executable);
	*s = (struct symsource){0};
}

/* --- lookup */

static int compare_targets(const void *a, const void *b)
{
	const struct target *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* The first target at or behind `addr`. */
static size_t target_from(const struct batch *b, uint64_t addr)
{
	return array_first(b->n, i, b->targets[i].addr >= addr);
}

/* Records that a function begins or ends at `addr`. Returns the first target at or behind it. */
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

static const char *name_of(struct batch *b, const struct candidate *c)
{
	return elf_strtab_get(&b->sources[c->source].strings, c->name);
}

/* Length of a name without its version ("memcpy@@GLIBC_2.14"). */
static size_t bare_len(const char *s)
{
	size_t at = strcspn(s, "@");

	return at ? at : strlen(s);
}

/*
 * Compares names of the same function: prefers fewer leading underscores, then the shorter one, then
 * alphabetical order.
 */
static bool better_name(struct batch *b, const struct candidate *c, const struct candidate *than)
{
	char other[ELF_STRING_MAX + 1];

	const char *s = name_of(b, than);
	memcpy(other, s, strlen(s) + 1); /* the next name may take its place */
	s = name_of(b, c);
	unsigned ours = leading_underscores(s), theirs = leading_underscores(other);
	if (ours != theirs)
		return ours < theirs;
	size_t len = bare_len(s), other_len = bare_len(other);
	return len != other_len ? len < other_len : strcmp(s, other) < 0;
}

static void consider(struct batch *b, struct candidate *best, const struct candidate *c)
{
	if (best->name) {
		if (c->start != best->start) {
			if (c->start < best->start)
				return; /* the innermost function names the address */
		} else if (c->rank != best->rank) {
			if (c->rank > best->rank)
				return;
		} else if ((c->name == best->name && c->source == best->source) || !better_name(b, c, best)) {
			return;
		}
	}
	*best = *c;
}

/* Mapping symbols of aarch64 ("$x", "$d.12") mark kinds of bytes and are no functions. */
static bool is_mapping_symbol(const char *name)
{
	return name[0] == '$' && (name[1] == 'x' || name[1] == 'd') && (name[2] == '\0' || name[2] == '.');
}

static bool is_function(struct symsource *source, const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || sym->st_name == 0)
		return false;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return false;
	/* the index of the section is a reserved value (SHN_XINDEX, SHN_ABS): accept functions, not labels */
	if (sym->st_shndx >= source->n_sections)
		return type != STT_NOTYPE;
	if (!source->executable[sym->st_shndx])
		return false;
	return type != STT_NOTYPE || ELF64_ST_BIND(sym->st_info) != STB_LOCAL ||
	       !is_mapping_symbol(elf_strtab_get(&source->strings, sym->st_name));
}

static uint8_t rank_of(const Elf64_Sym *sym)
{
	uint8_t bind = ELF64_ST_BIND(sym->st_info) == STB_LOCAL ? 2 : ELF64_ST_BIND(sym->st_info) == STB_WEAK;

	return (uint8_t)((ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE ? 4 : 0) + bind);
}

static void add_symbol(struct batch *b, unsigned source, const Elf64_Sym *sym)
{
	uint64_t start = sym->st_value + b->sources[source].delta, end;

	if (!is_function(&b->sources[source], sym) || __builtin_add_overflow(start, sym->st_size, &end))
		return;
	const struct candidate c = {
		.start = start, .name = sym->st_name, .rank = rank_of(sym), .source = (uint8_t)source};
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

static int read_symbols(struct batch *b, unsigned source)
{
	_cleanup_free_ Elf64_Sym *symbols = calloc(SYMBOLS_PER_READ, sizeof(*symbols));
	const struct symsource *s = &b->sources[source];
	uint64_t n = s->table.bytes / sizeof(*symbols);

	if (!symbols)
		return -ENOMEM;
	b->budget = 64 * (n + b->n);
	for (uint64_t first = 0; first < n; first += SYMBOLS_PER_READ) {
		uint64_t left = n - first, here = left < SYMBOLS_PER_READ ? left : SYMBOLS_PER_READ;

		if (elf_image_pread(s->img, s->table.offset + first * sizeof(*symbols), symbols,
				    here * sizeof(*symbols)) < 0)
			return 0; /* the file is truncated: use the names found so far */
		for (uint64_t i = 0; i < here; i++)
			add_symbol(b, source, &symbols[i]);
	}
	return 0;
}

/* Ends of sections with code are points, too, so that a label does not extend beyond them. */
static void add_sections(struct batch *b, const struct elf_image *img)
{
	const size_t n = elf_image_n_sections(img);
	struct elf_section section;

	for (size_t i = 1; i < n; i++) {
		if (!elf_image_section_header(img, i, &section) || !(section.flags & SHF_EXECINSTR))
			continue;
		add_point(b, section.va);
		add_point(b, section.va + section.bytes);
	}
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

/* A copy without the version, or NULL without memory. */
static char *copy_name(const char *s)
{
	return strndup(s, bare_len(s));
}

/*
 * Whether the label names the address. If its function ends before, it is remembered: an FDE may say that the
 * function goes on.
 */
static int is_in_label(struct batch *b, struct target *t, const struct elf_image *img)
{
	if (!t->label.name || t->label.start != t->low)
		return 0;
	if (b->label != t->low) {
		b->label = t->low;
		b->label_end = label_end(img, t->low, t->high, &b->label_bytes);
	}
	if (t->addr < b->label_end) {
		t->high = b->label_end;
		return 1;
	}
	if (array_reserve(&b->left, &b->cap_left, b->n_left + 1, sizeof *b->left) < 0)
		return -ENOMEM;
	b->left[b->n_left++] = (struct left_label){t->index, t->label, b->label_end};
	return 0;
}

static int write_answers(struct batch *b, const struct elf_image *img, struct elf_symbol *ret)
{
	b->label = UINT64_MAX;
	b->label_bytes = LABELS_BYTES_MAX;
	b->n_left = 0;
	for (size_t i = 0; i < b->n; i++) {
		struct target *t = &b->targets[i];
		const int in_label = t->sized.name ? 0 : is_in_label(b, t, img);
		const struct candidate *c = t->sized.name ? &t->sized : in_label ? &t->label : NULL;

		if (in_label < 0)
			return in_label;
		ret[t->index].start = t->low;
		ret[t->index].end = t->high;
		if (!c)
			continue;
		ret[t->index].name = copy_name(name_of(b, c));
		if (!ret[t->index].name)
			return -ENOMEM;
	}
	return 0;
}

/* Decides on the addresses behind the functions of labels, when the FDEs are known. */
static int name_left(struct batch *b, struct elf_symbol *ret)
{
	for (size_t i = 0; i < b->n_left; i++) {
		const struct left_label *l = &b->left[i];
		struct elf_symbol *s = &ret[l->index];

		if (s->name)
			continue;
		if (!s->unnamed) {
			s->start = s->start > l->end ? s->start : l->end;
		} else if (s->start == l->label.start) {
			s->unnamed = false;
			s->name = copy_name(name_of(b, &l->label));
			if (!s->name)
				return -ENOMEM;
		}
	}
	return 0;
}

static int find_functions(struct batch *b, const struct elf_image *img, const uint64_t *addrs,
			  struct elf_symbol *ret)
{
	int r = 0;

	free(b->targets);
	b->targets = calloc(b->n + 1, sizeof(*b->targets));
	if (!b->targets)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++)
		b->targets[i] = (struct target){.addr = addrs[i], .index = i, .high = UINT64_MAX};
	qsort(b->targets, b->n, sizeof(*b->targets), compare_targets);
	add_sections(b, img);
	for (unsigned i = 0; i < b->n_sources && r == 0; i++)
		r = read_symbols(b, i);
	if (r < 0)
		return r;
	carry_on(b);
	return write_answers(b, img, ret);
}

/*
 * Names slots like "strlen@plt" whose function is selected when the program starts, by the symbol of its
 * resolver.
 */
static int name_ifunc_slots(struct batch *b, const struct elf_image *img, const struct plt_ifuncs *slots,
			    struct elf_symbol *ret)
{
	_cleanup_free_ struct elf_symbol *resolvers = calloc(slots->n + 1, sizeof(*resolvers));
	int r;

	if (!resolvers)
		return -ENOMEM;
	/* the indices of b->left are those of the caller's addresses */
	struct left_label *left = TAKE_PTR(b->left);
	const size_t n_left = b->n_left;
	b->cap_left = 0;
	b->n = slots->n;
	r = find_functions(b, img, slots->resolvers, resolvers);
	free(b->left);
	b->left = left;
	b->n_left = b->cap_left = n_left;
	for (size_t i = 0; i < slots->n && r == 0; i++)
		r = plt_name_slot(&ret[slots->slots[i].index], &slots->slots[i], resolvers[i].name);
	for (size_t i = 0; i < slots->n; i++)
		free(resolvers[i].name);
	return r;
}

static int resolve(struct batch *b, struct elf_image *img, const uint64_t *addrs, size_t n, bool lines,
		   struct elf_symbol *ret)
{
	_cleanup_(plt_ifuncs_fini) struct plt_ifuncs slots = {0};
	int r;

	b->n = n;
	r = find_functions(b, img, addrs, ret);
	if (r == 0)
		r = plt_resolve(img, addrs, n, ret, &slots);
	if (r == 0 && slots.n)
		r = name_ifunc_slots(b, img, &slots, ret);
	if (r == 0)
		r = gonames_resolve(img, addrs, n, lines, ret);
	if (r == 0)
		r = extents_resolve(img, addrs, n, ret);
	return r == 0 ? name_left(b, ret) : r;
}

static int resolve_all(struct elf_image *img, struct elf_image *debug, uint64_t delta, const uint64_t *addrs,
		       size_t n, bool lines, struct elf_symbol *ret)
{
	struct batch *b = calloc(1, sizeof(*b));
	int r;

	memset(ret, 0, n * sizeof(*ret));
	if (!b)
		return -ENOMEM;
	r = symsources_open(b->sources, &b->n_sources, img, debug, delta);
	if (r == 0)
		r = resolve(b, img, addrs, n, lines, ret);
	for (unsigned i = 0; i < SYMSOURCES_MAX; i++)
		symsource_fini(&b->sources[i]);
	free(b->targets);
	free(b->left);
	free(b);
	for (size_t i = 0; r < 0 && i < n; i++) {
		free(ret[i].name);
		free(ret[i].lines);
		ret[i].name = NULL;
		ret[i].lines = NULL;
	}
	return r;
}

int elf_symtab_resolve(struct elf_image *img, const uint64_t *addrs, size_t n, struct elf_symbol *ret)
{
	return resolve_all(img, NULL, 0, addrs, n, false, ret);
}

int elf_symtab_resolve_with(struct elf_image *img, struct elf_image *debug, uint64_t delta,
			    const uint64_t *addrs, size_t n, struct elf_symbol *ret)
{
	return resolve_all(img, debug, delta, addrs, n, true, ret);
}
