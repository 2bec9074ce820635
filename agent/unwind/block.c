// SPDX-License-Identifier: Apache-2.0
/*
 * Layout of a block: struct unwind_table, rules (most used first, so that they share the header's cache
 * line), index (one u32 a page of 128 bytes and one more), rows (u16), with one row before the first that
 * says what held there.
 *
 * Rows are taken greedily: a block ends where its dictionary, or its bytes, would overflow. Rows of equal
 * packed rules that follow each other (elf_rule differs in what the kernel does not tell apart) are merged on
 * the way.
 */
#include "agent/unwind/block.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "agent/elf/cfi/rows.h"
#include "agent/unwind/pack.h"

#define ROW_PAGE (1u << PAGE_SHIFT_ROWS)
#define NO_RULE 0xffffu
#define LONG_GAP (64ull * ROW_PAGE)
/* A block also fits into the segment that has the process table. */
#define BLOCK_BYTES_MAX (SEGMENT_BYTES - PROCESS_TABLE_BYTES)

/* The dictionary of the block that is being made. */
struct dictionary {
	const struct unwind_rule *packed; /* of every rule of the file */
	const uint32_t *first_like;	  /* file rule → the first one that is packed to the same */
	uint16_t *id_of;		  /* file rule → id in this block, NO_RULE; n_file of them */
	size_t n_file;
	struct unwind_rule rules[TABLE_RULES_MAX];
	uint32_t uses[TABLE_RULES_MAX];
	unsigned n;
};

/* A range of rows that becomes one block. */
struct span {
	size_t first, end; /* rows [first, end) of the file */
	uint64_t va, limit;
};

/* Nothing is known: what lies between blocks need not be in one. */
static bool is_gap(const struct unwind_rule *r)
{
	return r->kind == UNWIND_CFA_NONE && r->cfa != UNWIND_NONE_REFUSED;
}

/* Gives a file rule an id in this block. -1: the dictionary is full. */
static int dictionary_add(struct dictionary *d, uint32_t rule)
{
	uint32_t first = d->first_like[rule];

	if (d->id_of[first] == NO_RULE) {
		if (d->n == TABLE_RULES_MAX - 1) /* the last id is for the row before the first */
			return -1;
		d->rules[d->n] = d->packed[rule];
		d->uses[d->n] = 0;
		d->id_of[first] = (uint16_t)d->n++;
	}
	d->id_of[rule] = d->id_of[first];
	return d->id_of[rule];
}

/* The id of a file rule in this block, added when new. -1: the dictionary is full. */
static inline int dictionary_id(struct dictionary *d, uint32_t rule)
{
	return d->id_of[rule] != NO_RULE ? d->id_of[rule] : dictionary_add(d, rule);
}

static void dictionary_reset(struct dictionary *d)
{
	memset(d->id_of, 0xff, d->n_file * sizeof *d->id_of);
	d->n = 0;
}

static size_t block_bytes(uint64_t n_pages, size_t n_rules, size_t n_rows)
{
	return sizeof(struct unwind_table) + n_rules * sizeof(struct unwind_rule) + (n_pages + 1) * 4 +
	       (n_rows + 1) * 2;
}

/* How far a block that starts with row `first` goes; fills its dictionary. */
static struct span span_find(struct dictionary *d, const struct elf_rows *r, size_t first)
{
	const struct elf_row *rows = r->rows;
	const struct unwind_rule *packed = d->packed;
	struct span s = {.first = first, .va = rows[first].va};
	uint64_t page = s.va & ~(uint64_t)(ROW_PAGE - 1);
	size_t i, last = r->n_rows - 1; /* the last row only ends the table */

	dictionary_reset(d);
	for (i = first; i < last; i++) {
		uint64_t pages = (rows[i + 1].va - page + ROW_PAGE - 1) >> PAGE_SHIFT_ROWS;
		int id;

		/* a long gap ends the block: it would cost index entries for nothing */
		if (rows[i + 1].va - rows[i].va > LONG_GAP && i > first && is_gap(&packed[rows[i].rule]))
			break;
		if (block_bytes(pages, TABLE_RULES_MAX, i - first + 2) > BLOCK_BYTES_MAX)
			break;
		id = dictionary_id(d, rows[i].rule);
		if (id < 0)
			break;
		d->uses[id]++;
	}
	s.end = i;
	s.limit = rows[i].va;
	return s;
}

static int by_use(const void *a, const void *b, void *data)
{
	const struct dictionary *d = data;
	const uint16_t *x = a, *y = b;

	if (d->uses[*x] != d->uses[*y])
		return d->uses[*x] > d->uses[*y] ? -1 : 1;
	return *x - *y;
}

/* Gives the rules their final ids, most used first: order[rank] = id in the dictionary, and its inverse. */
static void dictionary_rank(struct dictionary *d, uint16_t order[TABLE_RULES_MAX],
			    uint8_t rank[TABLE_RULES_MAX])
{
	for (unsigned i = 0; i < d->n; i++)
		order[i] = (uint16_t)i;
	qsort_r(order, d->n, sizeof *order, by_use, d);
	for (unsigned i = 0; i < d->n; i++)
		rank[order[i]] = (uint8_t)i;
}

/*
 * Writes rows and index of the span behind the header and rules. Returns the number of rows. `index` is
 * zeroed; first, entry p + 1 is what page p's last row makes it, then the pages without rows take over their
 * predecessors': both without a branch for each row, which would be wrong too often.
 */
static uint32_t rows_write(const struct dictionary *d, const uint8_t *rank, const struct elf_rows *r,
			   struct span s, uint64_t page0, uint32_t n_pages, uint32_t *index, uint16_t *rows)
{
	const struct elf_row *row = r->rows + s.first, *end = r->rows + s.end;
	const uint16_t *id_of = d->id_of;
	uint32_t n = 0, last = UINT32_MAX;

	for (; row < end; row++) {
		uint8_t id = rank[id_of[row->rule]];
		uint64_t o = row->va - page0;

		rows[n] = (uint16_t)((o & (ROW_PAGE - 1)) << 8 | id);
		n += id != last;
		last = id;
		index[(o >> PAGE_SHIFT_ROWS) + 1] = n;
	}
	for (uint32_t page = 1; page <= n_pages; page++)
		index[page] = index[page] ? index[page] : index[page - 1];
	return n;
}

static int block_make(struct unwind_block *ret, struct dictionary *d, const struct elf_rows *r, struct span s)
{
	uint64_t page0 = s.va & ~(uint64_t)(ROW_PAGE - 1);
	uint32_t n_pages = (uint32_t)((s.limit - page0 + ROW_PAGE - 1) >> PAGE_SHIFT_ROWS);
	size_t n_rows = s.end - s.first, size = block_bytes(n_pages, d->n + 1u, n_rows + 1);
	uint16_t order[TABLE_RULES_MAX];
	uint8_t rank[TABLE_RULES_MAX], none;
	struct unwind_table *t;
	struct unwind_rule *rules;
	uint16_t *rows;

	ret->bytes = malloc(size);
	if (!ret->bytes)
		return -ENOMEM;
	dictionary_rank(d, order, rank);
	t = (struct unwind_table *)ret->bytes;
	rules = (struct unwind_rule *)(t + 1);
	for (unsigned i = 0; i < d->n; i++)
		rules[i] = d->rules[order[i]];
	none = (uint8_t)d->n; /* what holds before the first row */
	rules[none] = (struct unwind_rule){.kind = UNWIND_CFA_NONE};
	*t = (struct unwind_table){.va = page0, .n_pages = n_pages, .n_rules = d->n + 1u};
	t->index = (uint32_t)(sizeof *t + t->n_rules * sizeof *rules);
	t->rows = t->index + (n_pages + 1) * 4 + 2;
	memset(ret->bytes + t->index, 0, (n_pages + 1ul) * 4);
	rows = (uint16_t *)(ret->bytes + t->rows);
	rows[-1] = none;
	t->n_rows = rows_write(d, rank, r, s, page0, n_pages, (uint32_t *)(ret->bytes + t->index), rows);
	ret->va = s.va;
	ret->end = s.limit;
	ret->len = t->rows + t->n_rows * 2;
	return 0;
}

static int blocks_add(struct unwind_blocks *b, struct dictionary *d, const struct elf_rows *r, struct span s)
{
	int e = array_resize(&b->blocks, b->n + 1, sizeof *b->blocks);

	if (e < 0)
		return e;
	e = block_make(&b->blocks[b->n], d, r, s);
	if (e < 0)
		return e;
	b->bytes += b->blocks[b->n++].len;
	return 0;
}

/* Cuts the file's rows into blocks. */
static int encode(struct unwind_blocks *b, struct dictionary *d, const struct elf_rows *r)
{
	size_t i = 0;

	while (i + 1 < r->n_rows) {
		struct span s;
		int e;

		if (is_gap(&d->packed[r->rows[i].rule])) {
			i++;
			continue;
		}
		s = span_find(d, r, i);
		if (s.end == s.first) {
			/* one row over more text than a block can index: keep its beginning */
			d->uses[dictionary_id(d, r->rows[i].rule)] = 1;
			s.end = s.first + 1;
			s.limit = s.va + (BLOCK_BYTES_MAX / 8ull) * ROW_PAGE;
		}
		e = blocks_add(b, d, r, s);
		if (e < 0)
			return e;
		i = s.end;
	}
	return 0;
}

/* Sets first_like[rule] to the first rule that is packed to the same bytes. 0 or -ENOMEM. */
static int find_alike(const struct unwind_rule *packed, size_t n, uint32_t *first_like)
{
	size_t mask = 15;

	while (mask < 2 * n)
		mask = mask * 2 + 1;
	_cleanup_free_ uint32_t *slots = calloc(mask + 1, sizeof *slots); /* rule + 1 */
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t value;

		memcpy(&value, &packed[i], sizeof value);
		size_t at = hash_u64(value) & mask;
		while (slots[at] && memcmp(&packed[slots[at] - 1], &packed[i], sizeof *packed) != 0)
			at = (at + 1) & mask;
		slots[at] = slots[at] ? slots[at] : i + 1;
		first_like[i] = slots[at] - 1;
	}
	return 0;
}

int unwind_blocks_encode(struct unwind_blocks *ret, const struct elf_rows *rows, uint16_t machine)
{
	const size_t n = rows->n_rules;
	_cleanup_free_ struct unwind_rule *packed = calloc(n, sizeof *packed);
	_cleanup_free_ uint32_t *first_like = calloc(n, sizeof *first_like);
	_cleanup_free_ uint16_t *id_of = calloc(n, sizeof *id_of);
	_cleanup_free_ struct dictionary *d = calloc(1, sizeof *d);
	struct unwind_blocks b = {0};
	int r;

	if (!packed || !first_like || !id_of || !d)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		packed[i] = unwind_rule_pack(&rows->rules[i], machine);
	r = find_alike(packed, n, first_like);
	if (r < 0)
		return r;
	*d = (struct dictionary){.packed = packed, .first_like = first_like, .id_of = id_of, .n_file = n};
	r = encode(&b, d, rows);
	if (r < 0) {
		unwind_blocks_fini(&b);
		return r;
	}
	*ret = b;
	return 0;
}

/* Header: sizes and places follow from one another. */
static bool header_valid(const struct unwind_block *b, struct unwind_table *t)
{
	uint64_t page0 = b->va & ~(uint64_t)(ROW_PAGE - 1), bytes;

	if (b->len < sizeof *t || b->len > BLOCK_BYTES_MAX || b->va >= b->end ||
	    b->end > UINT64_MAX - ROW_PAGE)
		return false;
	memcpy(t, b->bytes, sizeof *t);
	bytes = (uint64_t)t->rows + 2ull * t->n_rows;
	return t->va == page0 && t->n_pages == (b->end - page0 + ROW_PAGE - 1) >> PAGE_SHIFT_ROWS &&
	       t->n_rules >= 1 && t->n_rules <= TABLE_RULES_MAX && !t->generation &&
	       t->index == sizeof *t + t->n_rules * sizeof(struct unwind_rule) &&
	       t->rows == t->index + (t->n_pages + 1ull) * 4 + 2 && bytes == b->len;
}

bool unwind_block_valid(const struct unwind_block *b)
{
	const uint32_t *index;
	const uint16_t *rows;
	struct unwind_table t;

	if (!header_valid(b, &t))
		return false;
	index = (const uint32_t *)(b->bytes + t.index);
	rows = (const uint16_t *)(b->bytes + t.rows);
	if (index[0] != 0 || index[t.n_pages] != t.n_rows || (rows[-1] & 0xff) >= t.n_rules)
		return false;
	for (uint32_t page = 0; page < t.n_pages; page++) {
		if (index[page] > index[page + 1] || index[page + 1] > t.n_rows ||
		    index[page + 1] - index[page] > ROW_PAGE)
			return false;
		for (uint32_t i = index[page]; i < index[page + 1]; i++)
			if ((rows[i] & 0xff) >= t.n_rules || rows[i] >> 8 >= ROW_PAGE ||
			    (i > index[page] && rows[i] >> 8 <= rows[i - 1] >> 8))
				return false;
	}
	return true;
}

void unwind_blocks_fini(struct unwind_blocks *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->blocks[i].bytes);
	free(b->blocks);
	*b = (struct unwind_blocks){0};
}

void unwind_block_place(uint8_t *bytes, uint32_t offset, uint32_t generation)
{
	struct unwind_table *t = (struct unwind_table *)bytes;

	t->index += offset;
	t->rows += offset;
	t->generation = generation;
}

int unwind_blocks_size(const struct elf_rows *rows, uint16_t machine, size_t *ret_bytes, size_t *ret_blocks)
{
	struct unwind_blocks b;
	int r = unwind_blocks_encode(&b, rows, machine);

	if (r < 0)
		return r;
	*ret_bytes = b.bytes;
	*ret_blocks = b.n;
	unwind_blocks_fini(&b);
	return 0;
}
