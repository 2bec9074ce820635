// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/frame_section.h"

#include "agent/elf/image_private.h"

static bool section_address(const struct elf_image *img, const char *name, uint64_t *ret)
{
	GElf_Shdr shdr;
	size_t index;

	if (image_find_section(img, name, &shdr, &index) < 0)
		return false;
	*ret = shdr.sh_addr;
	return true;
}

static struct cfi_section section_of(const struct elf_image *img, const struct elf_data *data)
{
	struct cfi_section s = {
		.bytes = data->bytes,
		.len = data->len,
		.machine = img->machine,
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
	bool until_zero;
	int r = elf_image_eh_frame(img, &data, &until_zero);

	if (r < 0)
		return r;
	*ret = section_of(img, &data);
	ret->until_zero = until_zero;
	return 0;
}

int frame_section_debug(struct elf_image *img, struct cfi_section *ret)
{
	struct elf_data data;
	int r = elf_image_section(img, ".debug_frame", &data);

	if (r < 0)
		return r;
	*ret = section_of(img, &data);
	ret->debug = true;
	return 0;
}
