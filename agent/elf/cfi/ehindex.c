// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/ehindex.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/elf/cfi/dwarf_numbers.h"
#include "agent/elf/cfi/cfi_entry.h"
#include "agent/elf/file/elf_image.h"

#define PAIR_BYTES 8
#define ENTRY_ALIGN 4	/* bytes; alignment of entries in .eh_frame */
#define SEARCHES_MAX 64 /* linear searches, for entries on which the two tables disagree */
#define TABLE_ENCODING (DW_EH_PE_datarel | DW_EH_PE_sdata4)

static int32_t field(const struct eh_index *ix, size_t i, size_t at)
{
	int32_t value;

	memcpy(&value, ix->table + i * PAIR_BYTES + at, sizeof(value));
	return value;
}

uint64_t eh_index_start(const struct eh_index *ix, size_t i)
{
	return ix->base + (uint64_t)(int64_t)field(ix, i, 0);
}

uint64_t eh_index_offset(const struct eh_index *ix, size_t i)
{
	return ix->base + (uint64_t)(int64_t)field(ix, i, sizeof(int32_t)) - ix->section;
}

static bool find_header(const struct elf_image *img, struct elf_segment *ret)
{
	struct elf_section section;

	if (elf_image_program_header(img, PT_GNU_EH_FRAME, ret) == 0)
		return true;
	if (elf_image_find_section(img, ".eh_frame_hdr", &section) < 0)
		return false;
	*ret = (struct elf_segment){.offset = section.offset, .file_bytes = section.bytes, .va = section.va};
	return true;
}

/* Finds the table, which follows four bytes of header, the pointer to .eh_frame, and the count. */
static bool find_table(struct eh_index *ix, size_t len)
{
	const struct cfi_bases bases = {
		.bytes = ix->bytes, .section = ix->base, .data = ix->base, .has_data = true};
	struct cursor c = cursor_of(ix->bytes, len);
	uint64_t ignored, n;

	uint8_t version = cursor_u8(&c), pointer = cursor_u8(&c), count = cursor_u8(&c),
		table = cursor_u8(&c);
	if (c.bad || version != 1 || table != TABLE_ENCODING ||
	    !entry_pointer(&c, pointer, &bases, &ignored) || !entry_pointer(&c, count, &bases, &n))
		return false;
	ix->n = cursor_left(&c) / PAIR_BYTES;
	ix->n = n < ix->n ? n : ix->n;
	ix->table = c.pos;
	return true;
}

static int mark_known(struct eh_index *ix, size_t section_bytes)
{
	ix->n_words = section_bytes / ENTRY_ALIGN / 64 + 1;
	ix->known = calloc(ix->n_words, sizeof(*ix->known));
	if (!ix->known)
		return -ENOMEM;
	for (size_t i = 0; i < ix->n; i++) {
		uint64_t offset = eh_index_offset(ix, i);

		if (offset < section_bytes && offset % ENTRY_ALIGN == 0)
			ix->known[offset / ENTRY_ALIGN / 64] |= 1ull << (offset / ENTRY_ALIGN % 64);
	}
	return 0;
}

int eh_index_read(struct eh_index *ret, struct elf_image *img, const struct elf_data *eh_frame)
{
	struct eh_index ix = {.section = eh_frame->va, .searches = SEARCHES_MAX};
	struct elf_segment header;

	*ret = (struct eh_index){0};
	if (!find_header(img, &header))
		return 0;
	ix.base = header.va;
	int r = elf_image_pread_new(img, header.offset, header.file_bytes, &ix.bytes);
	if (r == 0 && find_table(&ix, header.file_bytes))
		r = mark_known(&ix, eh_frame->len);
	if (r < 0 || !ix.known) {
		eh_index_fini(&ix);
		return r == -ENOMEM ? r : 0;
	}
	*ret = ix;
	return 0;
}

void eh_index_fini(struct eh_index *ix)
{
	free(ix->bytes);
	free(ix->known);
	*ix = (struct eh_index){0};
}

uint64_t eh_index_next(const struct eh_index *ix, uint64_t offset)
{
	uint64_t at = (offset + ENTRY_ALIGN - 1) / ENTRY_ALIGN, word = at / 64;

	if (word >= ix->n_words)
		return UINT64_MAX;
	uint64_t bits = ix->known[word] & ~0ull << (at % 64);
	while (!bits) {
		if (++word == ix->n_words)
			return UINT64_MAX;
		bits = ix->known[word];
	}
	return (word * 64 + (uint64_t)__builtin_ctzll(bits)) * ENTRY_ALIGN;
}

size_t eh_index_find(struct eh_index *ix, uint64_t start)
{
	size_t at;

	if (ix->last + 1 < ix->n && eh_index_start(ix, ix->last + 1) == start)
		return ++ix->last;
	at = array_first(ix->n, i, eh_index_start(ix, i) >= start);
	if (at == ix->n || eh_index_start(ix, at) != start)
		return EH_INDEX_NONE;
	ix->last = at;
	return at;
}

size_t eh_index_of(struct eh_index *ix, uint64_t offset)
{
	if (ix->searches == 0 || eh_index_next(ix, offset) != offset)
		return EH_INDEX_NONE;
	ix->searches--;
	for (size_t i = 0; i < ix->n; i++) {
		if (eh_index_offset(ix, i) == offset)
			return i;
	}
	return EH_INDEX_NONE;
}
