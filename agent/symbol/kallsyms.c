// SPDX-License-Identifier: Apache-2.0
/*
 * Lines of /proc/kallsyms are "ADDRESS TYPE NAME"; lines of modules add a tab and "[MODULE]". They come
 * roughly, but not strictly, in the order of their addresses.
 *
 * A builder collects the text symbols. Only one piece of the text is in memory at a time, since the text is
 * some 5 to 15 MiB long and the agent's memory is limited. builder_finish then sorts the symbols, selects one
 * name per address, and stores addresses as 32-bit offsets.
 */
#include "agent/symbol/kallsyms.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"

#define PIECE_BYTES (32u << 10) /* longer than any line: names have up to 512 bytes, modules 56 */
#define NAMES_MAX (64u << 20)	/* bytes */
#define ZEROS_MEAN_LOCKED 4096u /* after so many text symbols at address 0 and no other, reading stops */

/*
 * Symbols whose distance from `base` fits into 32 bits: one group on x86-64, a few where modules lie far
 * away.
 */
struct kallsyms_group {
	uint64_t base;
	size_t first, n; /* indices into the arrays below */
};

struct kallsyms_owner {
	uint32_t name; /* in `names`; 0: the kernel itself */
	uint64_t start, end;
};

/*
 * Symbols in the order of their addresses, one per address. A symbol with name 0 marks the end of the one
 * before it and is no function.
 */
struct kallsyms {
	struct kallsyms_group *groups; /* owned, as all below */
	size_t n_groups;
	uint32_t *offsets; /* from the group's base */
	uint32_t *symbol_names;
	uint16_t *symbol_owners;
	size_t n_symbols;
	char *names; /* NUL terminated strings; the first is "" */
	size_t names_bytes;
	struct kallsyms_owner *owners;
	size_t n_owners;
	size_t n_skipped;
};

struct line {
	uint64_t addr;
	char type;
	const char *name, *module; /* borrowed from the text; module is NULL for the kernel */
	size_t name_len, module_len;
};

/* A symbol as the builder collects it. */
struct raw {
	uint64_t addr;
	uint32_t name;
	uint16_t owner;
	uint16_t rank; /* of several names of an address, the one with the lowest rank is used */
};

#define RANK_GAP UINT16_MAX /* a mark of the linker script, not a function */

struct builder {
	struct raw *raws; /* owned */
	size_t n_raws, cap;
	struct buf names;
	size_t last_name;	       /* offset of the name added last */
	struct kallsyms_owner *owners; /* owned, KALLSYMS_MODULES_MAX of them; [0] is the kernel */
	size_t n_owners, last_owner;
	uint64_t etext;
	size_t n_text, n_nonzero, n_skipped;
};

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses a line without its newline. False: it is not a symbol. */
static bool line_parse(const char *p, size_t len, struct line *ret)
{
	const char *end = p + len, *start = p, *tab;

	*ret = (struct line){0};
	for (; p < end && hex_digit(*p) >= 0; p++)
		ret->addr = ret->addr << 4 | (uint64_t)hex_digit(*p);
	if (p == start || p - start > 16 || end - p < 4 || p[0] != ' ' || p[2] != ' ')
		return false;
	ret->type = p[1];
	ret->name = p + 3;
	tab = memchr(ret->name, '\t', (size_t)(end - ret->name));
	ret->name_len = (size_t)((tab ? tab : end) - ret->name);
	if (tab) {
		if (end - tab < 4 || tab[1] != '[' || end[-1] != ']')
			return false;
		ret->module = tab + 2;
		ret->module_len = (size_t)(end - 1 - ret->module);
	}
	return ret->name_len && !memchr(ret->name, '\0', len - (size_t)(ret->name - start));
}

static bool line_named(const struct line *l, const char *name)
{
	return l->name_len == strlen(name) && memcmp(l->name, name, l->name_len) == 0;
}

static bool name_ends(const struct line *l, const char *suffix)
{
	size_t n = strlen(suffix);

	return l->name_len > n && memcmp(l->name + l->name_len - n, suffix, n) == 0;
}

/* Marks that the linker script puts between functions (include/asm-generic/vmlinux.lds.h). */
static bool is_mark(const struct line *l)
{
	static const char *const marks[] = {"_text",	  "_stext",	"_etext",    "_sinittext",
					    "_einittext", "_sexittext", "_eexittext"};

	if (l->module || l->name[0] != '_')
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (line_named(l, marks[i]))
			return true;
	return name_ends(l, "_text_start") || name_ends(l, "_text_end");
}

/* The rank of a line's name among the names of its address (see struct raw), or RANK_GAP. */
static uint16_t line_rank(const struct line *l)
{
	bool weak = l->type == 'w' || l->type == 'W', local = l->type == 't';
	uint16_t underscores = 0;

	if (is_mark(l))
		return RANK_GAP;
	while (underscores < l->name_len && underscores < 31 && l->name[underscores] == '_')
		underscores++;
	return (uint16_t)(weak << 6 | local << 5 | underscores);
}

static void builder_fini(struct builder *b)
{
	free(b->raws);
	free(b->owners);
	buf_fini(&b->names);
}

static int builder_init(struct builder *b)
{
	buf_init(&b->names, NAMES_MAX);
	b->n_owners = 1;
	b->owners = calloc(KALLSYMS_MODULES_MAX, sizeof *b->owners);
	if (!b->owners)
		return -ENOMEM;
	return buf_putc(&b->names, '\0');
}

static int add_string(struct builder *b, const char *s, size_t len, uint32_t *ret)
{
	size_t at = b->names.len;
	int r = buf_reserve(&b->names, len + 1);

	if (r < 0)
		return r;
	r = buf_append(&b->names, s, len);
	if (r >= 0)
		r = buf_putc(&b->names, '\0');
	if (r >= 0)
		*ret = (uint32_t)at;
	return r;
}

/*
 * Kernels built with call thunks list "__pfx_NAME" in front of each NAME. Then NAME is stored as the end of
 * that string.
 */
static int add_name(struct builder *b, const struct line *l, uint32_t *ret)
{
	static const char prefix[] = "__pfx_";
	size_t n = sizeof prefix - 1, last_len = b->last_name ? b->names.len - 1 - b->last_name : 0;
	const char *last = (const char *)b->names.data + b->last_name;
	int r;

	if (last_len == l->name_len + n && memcmp(last, prefix, n) == 0 &&
	    memcmp(last + n, l->name, l->name_len) == 0) {
		*ret = (uint32_t)(b->last_name + n);
		return 0;
	}
	r = add_string(b, l->name, l->name_len, ret);
	if (r >= 0)
		b->last_name = *ret;
	return r;
}

static bool owner_is(const struct builder *b, size_t i, const struct line *l)
{
	const char *name = (const char *)b->names.data + b->owners[i].name;

	return strncmp(name, l->module, l->module_len) == 0 && !name[l->module_len];
}

/*
 * Finds the index of the line's module, or adds it. Lines of a module are adjacent, so the last module found
 * is nearly always the right one.
 */
static int find_owner(struct builder *b, const struct line *l, uint16_t *ret)
{
	uint32_t name;
	int r;

	if (!l->module) {
		*ret = 0;
		return 0;
	}
	if (!b->last_owner || !owner_is(b, b->last_owner, l)) {
		size_t i = 1;

		while (i < b->n_owners && !owner_is(b, i, l))
			i++;
		if (i == KALLSYMS_MODULES_MAX)
			return -ENOSPC;
		if (i == b->n_owners) {
			r = add_string(b, l->module, l->module_len, &name);
			if (r < 0)
				return r;
			b->owners[b->n_owners++].name = name;
		}
		b->last_owner = i;
	}
	*ret = (uint16_t)b->last_owner;
	return 0;
}

static int raws_reserve(struct builder *b)
{
	if (b->n_raws == b->cap && b->n_raws >= KALLSYMS_SYMBOLS_MAX)
		return -ENOSPC;
	return array_reserve(&b->raws, &b->cap, b->n_raws + 1, sizeof *b->raws);
}

static int add_symbol(struct builder *b, const struct line *l)
{
	struct raw raw = {.addr = l->addr, .rank = line_rank(l)};
	int r = raws_reserve(b);

	if (r >= 0)
		r = find_owner(b, l, &raw.owner);
	if (r >= 0 && raw.rank != RANK_GAP)
		r = add_name(b, l, &raw.name);
	if (r >= 0)
		b->raws[b->n_raws++] = raw;
	return r;
}

static int add_line(struct builder *b, const char *p, size_t len)
{
	struct line l;
	int r;

	if (!line_parse(p, len, &l)) {
		b->n_skipped++;
		return 0;
	}
	if (!strchr("tTwW", l.type) || !l.type)
		return 0;
	b->n_text++;
	if (!l.addr)
		return b->n_text >= ZEROS_MEAN_LOCKED && !b->n_nonzero ? -EPERM : 0;
	b->n_nonzero++;
	if (!l.module && line_named(&l, "_etext"))
		b->etext = l.addr;
	r = add_symbol(b, &l);
	if (r == -ENOSPC || r == -EOVERFLOW) {
		b->n_skipped++;
		return 0;
	}
	return r;
}

/* Adds the complete lines of a piece. Returns the number of bytes consumed, or negative errno. */
static ssize_t add_piece(struct builder *b, const char *piece, size_t len)
{
	size_t at = 0;

	for (;;) {
		const char *end = memchr(piece + at, '\n', len - at);
		int r;

		if (!end)
			return (ssize_t)at;
		r = add_line(b, piece + at, (size_t)(end - piece) - at);
		if (r < 0)
			return r;
		at = (size_t)(end - piece) + 1;
	}
}

void kallsyms_free(struct kallsyms *t)
{
	if (!t)
		return;
	free(t->groups);
	free(t->offsets);
	free(t->symbol_names);
	free(t->symbol_owners);
	free(t->names);
	free(t->owners);
	free(t);
}

/* End of symbol `i` of group `g` as kallsyms.h defines it. */
static uint64_t symbol_end(const struct kallsyms *t, size_t g, size_t i)
{
	const struct kallsyms_group *group = &t->groups[g];
	uint64_t start = group->base + t->offsets[i], max = KALLSYMS_TAIL_MAX, next = UINT64_MAX;

	if (i + 1 < group->first + group->n)
		next = group->base + t->offsets[i + 1];
	else if (g + 1 < t->n_groups)
		next = t->groups[g + 1].base;
	if (i + 1 < t->n_symbols && t->symbol_owners[i] == t->symbol_owners[i + 1])
		max = KALLSYMS_FUNCTION_MAX;
	return next - start < max ? next : start + max;
}

DEFINE_CLEANUP(struct kallsyms *, kallsyms_free)

static int compare_raws(const void *pa, const void *pb)
{
	const struct raw *a = pa, *b = pb;

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

static void sort_raws(struct builder *b)
{
	size_t n = 0;

	qsort(b->raws, b->n_raws, sizeof *b->raws, compare_raws);
	for (size_t i = 0; i < b->n_raws; i++)
		if (!n || b->raws[n - 1].addr != b->raws[i].addr)
			b->raws[n++] = b->raws[i];
	b->n_raws = n;
}

static size_t count_groups(const struct builder *b)
{
	uint64_t base = 0;
	size_t n = 0;

	for (size_t i = 0; i < b->n_raws; i++)
		if (!n || b->raws[i].addr - base > UINT32_MAX) {
			base = b->raws[i].addr;
			n++;
		}
	return n;
}

static void fill_symbols(struct kallsyms *t, const struct builder *b)
{
	struct kallsyms_group *g = NULL;

	for (size_t i = 0; i < b->n_raws; i++) {
		const struct raw *raw = &b->raws[i];

		if (!g || raw->addr - g->base > UINT32_MAX) {
			g = &t->groups[t->n_groups++];
			*g = (struct kallsyms_group){raw->addr, i, 0};
		}
		g->n++;
		t->offsets[i] = (uint32_t)(raw->addr - g->base);
		t->symbol_names[i] = raw->name;
		t->symbol_owners[i] = raw->owner;
	}
}

/*
 * Sets the address range of each module. The kernel ends at _etext: its init text lies behind that and is
 * freed after boot.
 */
static void fill_ranges(struct kallsyms *t, uint64_t etext)
{
	for (size_t g = 0; g < t->n_groups; g++) {
		for (size_t i = t->groups[g].first; i < t->groups[g].first + t->groups[g].n; i++) {
			struct kallsyms_owner *o = &t->owners[t->symbol_owners[i]];
			uint64_t start = t->groups[g].base + t->offsets[i];

			if (!t->symbol_names[i] || (!t->symbol_owners[i] && etext && start >= etext))
				continue;
			if (!o->end)
				o->start = start;
			o->end = symbol_end(t, g, i);
		}
	}
}

/* Makes the table and moves the strings into it. 0, -EPERM, -ENODATA, -ENOMEM as kallsyms_read. */
static int builder_finish(struct builder *b, struct kallsyms **ret)
{
	_cleanup_(kallsyms_free_p) struct kallsyms *t = NULL;

	if (!b->n_raws)
		return b->n_text && !b->n_nonzero ? -EPERM : -ENODATA;
	sort_raws(b);
	t = calloc(1, sizeof *t);
	if (!t)
		return -ENOMEM;
	t->groups = calloc(count_groups(b), sizeof *t->groups);
	t->offsets = malloc(b->n_raws * sizeof *t->offsets);
	t->symbol_names = malloc(b->n_raws * sizeof *t->symbol_names);
	t->symbol_owners = malloc(b->n_raws * sizeof *t->symbol_owners);
	t->owners = calloc(b->n_owners, sizeof *t->owners);
	if (!t->groups || !t->offsets || !t->symbol_names || !t->symbol_owners || !t->owners)
		return -ENOMEM;
	t->n_symbols = b->n_raws;
	t->n_owners = b->n_owners;
	t->n_skipped = b->n_skipped;
	memcpy(t->owners, b->owners, b->n_owners * sizeof *t->owners);
	fill_symbols(t, b);
	fill_ranges(t, b->etext);
	t->names_bytes = b->names.len;
	(void)array_resize(&b->names.data, b->names.len,
			   1); /* on failure the block stays larger than necessary */
	t->names = (char *)b->names.data;
	b->names = (struct buf){0};
	*ret = TAKE_PTR(t);
	return 0;
}

int kallsyms_parse(struct kallsyms **ret, const char *text, size_t len)
{
	_cleanup_(builder_fini) struct builder b = {0};
	ssize_t taken;
	int r = builder_init(&b);

	if (r < 0)
		return r;
	taken = add_piece(&b, text, len);
	if (taken < 0)
		return (int)taken;
	if ((size_t)taken < len)
		r = add_line(&b, text + taken, len - (size_t)taken);
	return r < 0 ? r : builder_finish(&b, ret);
}

/* Adds the lines of a file. A piece without a newline is discarded. */
static int add_file(struct builder *b, int fd, char *piece)
{
	size_t have = 0;

	for (;;) {
		ssize_t n = read(fd, piece + have, PIECE_BYTES - have), taken;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return have ? add_line(b, piece, have) : 0;
		have += (size_t)n;
		taken = add_piece(b, piece, have);
		if (taken < 0)
			return (int)taken;
		if (!taken && have == PIECE_BYTES) {
			taken = PIECE_BYTES;
			b->n_skipped++;
		}
		have -= (size_t)taken;
		memmove(piece, piece + taken, have);
	}
}

int kallsyms_read(struct kallsyms **ret, int fd)
{
	_cleanup_(builder_fini) struct builder b = {0};
	_cleanup_free_ char *piece = malloc(PIECE_BYTES);
	int r = builder_init(&b);

	if (r < 0)
		return r;
	if (!piece)
		return -ENOMEM;
	r = add_file(&b, fd, piece);
	return r < 0 ? r : builder_finish(&b, ret);
}

/* Finds the last group whose base is at or below addr. */
static bool find_group(const struct kallsyms *t, uint64_t addr, size_t *ret)
{
	size_t next = array_first(t->n_groups, i, t->groups[i].base > addr);

	*ret = next - 1;
	return next > 0;
}

int kallsyms_lookup(const struct kallsyms *t, uint64_t addr, struct kallsyms_symbol *ret)
{
	const struct kallsyms_group *group;
	size_t g, at;
	uint64_t end;

	if (!find_group(t, addr, &g))
		return -ENOENT;
	group = &t->groups[g];
	/* the group's first symbol stands at its base, so there is one at or below addr */
	at = group->first + array_first(group->n, i, t->offsets[group->first + i] > addr - group->base) - 1;
	end = symbol_end(t, g, at);
	if (addr >= end || !t->symbol_names[at])
		return -ENOENT;
	ret->name = t->names + t->symbol_names[at];
	ret->module_index = t->symbol_owners[at];
	ret->module = ret->module_index ? t->names + t->owners[ret->module_index].name : NULL;
	ret->start = group->base + t->offsets[at];
	ret->end = end;
	return 0;
}

int kallsyms_module(const struct kallsyms *t, size_t index, struct kallsyms_module *ret)
{
	const struct kallsyms_owner *owner;

	if (index >= t->n_owners)
		return -ENOENT;
	owner = &t->owners[index];
	*ret = (struct kallsyms_module){index ? t->names + owner->name : NULL, owner->start, owner->end};
	return 0;
}

void kallsyms_table_stats(const struct kallsyms *t, struct kallsyms_stats *ret)
{
	*ret = (struct kallsyms_stats){
		.n_symbols = t->n_symbols,
		.n_modules = t->n_owners - 1,
		.n_skipped = t->n_skipped,
		.bytes = sizeof *t + t->n_groups * sizeof *t->groups + t->n_owners * sizeof *t->owners +
			 t->n_symbols *
				 (sizeof *t->offsets + sizeof *t->symbol_names + sizeof *t->symbol_owners) +
			 t->names_bytes,
	};
}
