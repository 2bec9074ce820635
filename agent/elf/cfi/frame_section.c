// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/cfi/frame_section.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"

#define SEARCHED_MAX (64u << 20) /* bytes of a segment in which .eh_frame is searched */
#define EH_FRAME_HDR_MAX 32	 /* bytes: version, three encodings, the pointer */

/* Reads eh_frame_ptr from the .eh_frame_hdr that `hdr` describes. */
static int eh_frame_va(const struct elf_image *img, const struct elf_segment *hdr, uint64_t *ret)
{
	uint8_t header[EH_FRAME_HDR_MAX];
	size_t len = hdr->file_bytes < sizeof(header) ? hdr->file_bytes : sizeof(header);

	int r = elf_image_pread(img, hdr->offset, header, len);
	if (r < 0)
		return r;
	struct cursor c = cursor_of(header, len);
	uint8_t version = cursor_u8(&c);
	uint8_t encoding = cursor_u8(&c);
	cursor_u16(&c); /* encodings of the search table, which are not needed here */
	const struct cfi_bases bases = {
		.section = hdr->va, .bytes = header, .data = hdr->va, .has_data = true};
	if (c.bad || version != 1 || !entry_pointer(&c, encoding, &bases, ret))
		return -EINVAL;
	return 0;
}

/* True for a CIE followed by an FDE of it that describes code: random bytes are unlikely to be both. */
static bool begins_eh_frame(const struct elf_image *img, const uint8_t *bytes, size_t len, uint64_t va)
{
	const struct cfi_section s = {.bytes = bytes,
				      .len = len,
				      .bases = {.bytes = bytes, .section = va},
				      .arch = elf_arch(elf_image_machine(img))};
	struct cfi_entry entry;
	struct cfi_cie cie;
	struct cfi_fde fde;
	uint64_t offset = 0;

	if (entry_next(&s, &offset, &entry) <= 0 || !entry.is_cie)
		return false;
	entry_cie(&s, entry.offset, &cie);
	if (cie.error || entry_next(&s, &offset, &entry) <= 0 || entry.is_cie || entry.cie != 0 ||
	    entry_fde(&s, &cie, &entry, &fde))
		return false;
	const struct elf_segment *code = elf_image_segment_at(img, fde.start);
	return code && code->executable && fde.end > fde.start;
}

/* Finds the start of .eh_frame in a segment, by the bytes with which every compiler begins it. */
static const uint8_t *find_eh_frame(const struct elf_image *img, const uint8_t *bytes, size_t len,
				    uint64_t va)
{
	static const uint8_t start[] = {0, 0, 0, 0, 1, 'z', 'R', 0}; /* id, version, augmentation */
	const uint8_t *end = bytes + len, *p = bytes;

	while ((p = memmem(p, (size_t)(end - p), start, sizeof(start)))) {
		const uint8_t *entry = p - sizeof(uint32_t);

		p++;
		if (entry < bytes || (va + (size_t)(entry - bytes)) % 4 != 0)
			continue;
		if (begins_eh_frame(img, entry, (size_t)(end - entry), va + (size_t)(entry - bytes)))
			return entry;
	}
	return NULL;
}

/* Static programs may have no PT_GNU_EH_FRAME: their start code contains the address of .eh_frame. */
static int eh_frame_by_search(struct elf_image *img, struct elf_data *ret)
{
	size_t n;
	const struct elf_segment *segments = elf_image_segments(img, &n);

	for (size_t i = 0; i < n; i++) {
		const struct elf_segment *s = &segments[i];
		_cleanup_free_ uint8_t *bytes = NULL;
		const uint8_t *found;
		int r;

		if (s->file_bytes > SEARCHED_MAX)
			continue;
		r = elf_image_pread_new(img, s->offset, s->file_bytes, &bytes);
		if (r == -ENOMEM)
			return r;
		found = r == 0 ? find_eh_frame(img, bytes, s->file_bytes, s->va) : NULL;
		if (!found)
			continue;
		struct elf_data data = {.bytes = found, .len = s->file_bytes - (size_t)(found - bytes)};
		data.va = s->va + (size_t)(found - bytes);
		r = elf_image_keep(img, ELF_KEEP_EH_FRAME, bytes, data);
		if (r < 0)
			return r;
		TAKE_PTR(bytes);
		*ret = data;
		return 0;
	}
	return -ENOENT;
}

static int eh_frame_by_segment(struct elf_image *img, struct elf_data *ret)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct elf_segment hdr;
	uint64_t va;

	if (elf_image_program_header(img, PT_GNU_EH_FRAME, &hdr) < 0)
		return eh_frame_by_search(img, ret);
	int r = eh_frame_va(img, &hdr, &va);
	if (r < 0)
		return r;
	const struct elf_segment *s = elf_image_segment_at(img, va);
	if (!s)
		return -EINVAL;
	struct elf_data data = {.len = s->file_bytes - (va - s->va), .va = va};
	r = elf_image_pread_new(img, s->offset + (va - s->va), data.len, &bytes);
	if (r < 0)
		return r;
	data.bytes = bytes;
	r = elf_image_keep(img, ELF_KEEP_EH_FRAME, bytes, data);
	if (r < 0)
		return r;
	TAKE_PTR(bytes);
	*ret = data;
	return 0;
}

static int find_eh_frame_section(struct elf_image *img, struct elf_data *ret, bool *ret_until_zero)
{
	const struct elf_data *kept = elf_image_kept(img, ELF_KEEP_EH_FRAME);

	if (kept) {
		*ret = *kept;
		*ret_until_zero = true;
		return 0;
	}
	int r = elf_image_section(img, ".eh_frame", ret);
	if (r == 0)
		*ret_until_zero = false;
	if (r != -ENOENT || elf_image_n_sections(img) > 0)
		return r;
	r = eh_frame_by_segment(img, ret);
	if (r == 0)
		*ret_until_zero = true;
	return r;
}

static bool section_address(const struct elf_image *img, const char *name, uint64_t *ret)
{
	struct elf_section section;

	if (elf_image_find_section(img, name, &section) < 0)
		return false;
	*ret = section.va;
	return true;
}

static struct cfi_section section_of(const struct elf_image *img, const struct elf_data *data)
{
	struct cfi_section s = {
		.bytes = data->bytes,
		.len = data->len,
		.arch = elf_arch(elf_image_machine(img)),
		.bases = {.bytes = data->bytes, .section = data->va},
	};

	s.bases.has_text = section_address(img, ".text", &s.bases.text);
	s.bases.has_data = section_address(img, ".got.plt", &s.bases.data) ||
			   section_address(img, ".got", &s.bases.data);
	return s;
}

int frame_section_eh(struct elf_image *img, struct cfi_section *ret)
{
	struct elf_data data;
	bool until_zero = false;
	int r;

	if (!elf_arch(elf_image_machine(img)))
		return -ENOTSUP;
	r = find_eh_frame_section(img, &data, &until_zero);
	if (r < 0)
		return r;
	*ret = section_of(img, &data);
	ret->until_zero = until_zero;
	return 0;
}

int frame_section_debug(struct elf_image *img, struct cfi_section *ret)
{
	struct elf_data data;
	int r;

	if (!elf_arch(elf_image_machine(img)))
		return -ENOTSUP;
	r = elf_image_section(img, ".debug_frame", &data);
	if (r < 0)
		return r;
	*ret = section_of(img, &data);
	ret->debug = true;
	return 0;
}
