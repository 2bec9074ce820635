// SPDX-License-Identifier: Apache-2.0
/* Contents of an image by section name. */
#include "agent/elf/file/elf_raw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"

int image_find_section(const struct elf_image *img, const char *name, GElf_Shdr *ret, size_t *ret_index)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	size_t names;

	if (elf_getshdrstrndx(img->elf, &names) < 0)
		return -ENOENT;
	while ((scn = elf_nextscn(img->elf, scn))) {
		if (!gelf_getshdr(scn, &shdr))
			continue;
		const char *s = elf_strptr(img->elf, names, shdr.sh_name);
		if (s && strcmp(s, name) == 0) {
			*ret = shdr;
			*ret_index = elf_ndxscn(scn);
			return 0;
		}
	}
	return -ENOENT;
}

int image_find_section_type(const struct elf_image *img, uint32_t type, GElf_Shdr *ret)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	while ((scn = elf_nextscn(img->elf, scn))) {
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == type) {
			*ret = shdr;
			return 0;
		}
	}
	return -ENOENT;
}

int image_keep(struct elf_image *img, uint64_t key, uint8_t *owned, struct elf_data data)
{
	struct image_chunk *chunk = calloc(1, sizeof(*chunk));

	if (!chunk)
		return -ENOMEM;
	*chunk = (struct image_chunk){.next = img->chunks, .key = key, .data = data, .owned = owned};
	img->chunks = chunk;
	return 0;
}

const struct image_chunk *image_kept(const struct elf_image *img, uint64_t key)
{
	for (const struct image_chunk *c = img->chunks; c; c = c->next) {
		if (c->key == key)
			return c;
	}
	return NULL;
}

bool elf_image_has(const struct elf_image *img, const char *name)
{
	GElf_Shdr shdr;
	size_t index;

	return image_find_section(img, name, &shdr, &index) == 0 && shdr.sh_type != SHT_NOBITS &&
	       shdr.sh_size > 0;
}

int elf_image_section(struct elf_image *img, const char *name, struct elf_data *ret)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	GElf_Shdr shdr;
	size_t index;

	int r = image_find_section(img, name, &shdr, &index);
	if (r < 0)
		return r;
	const struct image_chunk *kept = image_kept(img, index);
	if (kept) {
		*ret = kept->data;
		return 0;
	}
	if (shdr.sh_type == SHT_NOBITS)
		return -ENOENT;
	r = image_read_new(img, shdr.sh_offset, shdr.sh_size, &bytes);
	if (r < 0)
		return r;
	struct elf_data data = {.bytes = bytes, .len = shdr.sh_size, .va = shdr.sh_addr};
	if (shdr.sh_flags & SHF_COMPRESSED) {
		uint8_t *plain;

		r = image_decompress(bytes, data.len, &plain, &data.len);
		if (r < 0)
			return r;
		free(bytes);
		data.bytes = bytes = plain;
	}
	r = image_keep(img, index, bytes, data);
	if (r < 0)
		return r;
	TAKE_PTR(bytes);
	*ret = data;
	return 0;
}
