// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file/strtab.h"

#include <string.h>

bool elf_strtab_open(struct elf_strtab *s, const struct elf_image *img, const GElf_Shdr *symbols)
{
	Elf_Scn *scn = elf_getscn(img->elf, symbols->sh_link);
	GElf_Shdr shdr;

	if (!scn || !gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_STRTAB ||
	    shdr.sh_offset > img->file_bytes || shdr.sh_size > img->file_bytes - shdr.sh_offset)
		return false;
	*s = (struct elf_strtab){.img = img, .offset = shdr.sh_offset, .bytes = shdr.sh_size};
	return true;
}

const char *elf_strtab_get(struct elf_strtab *s, uint64_t at)
{
	if (at >= s->bytes)
		return "";
	/* in the window only if its end is, too */
	if (s->n_buf && at >= s->window && at - s->window < s->n_buf &&
	    memchr(s->buf + (at - s->window), 0, s->n_buf - (at - s->window)))
		return s->buf + (at - s->window);
	size_t len = s->bytes - at < ELF_STRING_MAX ? s->bytes - at : ELF_STRING_MAX;
	s->n_buf = 0;
	if (image_read(s->img, s->offset + at, s->buf, len) < 0)
		return "";
	s->buf[len] = '\0';
	s->n_buf = len;
	s->window = at;
	return s->buf;
}
