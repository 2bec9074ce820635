// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file/strtab.h"

#include <elf.h>
#include <string.h>

bool elf_strtab_open(struct elf_strtab *s, const struct elf_image *img, const struct elf_section *symbols)
{
	const uint64_t file_bytes = elf_image_file_bytes(img);
	struct elf_section table;

	if (!elf_image_section_header(img, symbols->link, &table) || table.type != SHT_STRTAB ||
	    table.offset > file_bytes || table.bytes > file_bytes - table.offset)
		return false;
	*s = (struct elf_strtab){.img = img, .offset = table.offset, .bytes = table.bytes};
	return true;
}

const char *elf_strtab_get(struct elf_strtab *s, uint64_t at)
{
	if (at >= s->bytes)
		return "";
	/* the window serves only if it holds the string's end, too */
	if (s->n_buf && at >= s->window && at - s->window < s->n_buf &&
	    memchr(s->buf + (at - s->window), 0, s->n_buf - (at - s->window)))
		return s->buf + (at - s->window);
	size_t len = s->bytes - at < ELF_STRING_MAX ? s->bytes - at : ELF_STRING_MAX;
	s->n_buf = 0;
	if (elf_image_pread(s->img, s->offset + at, s->buf, len) < 0)
		return "";
	s->buf[len] = '\0';
	s->n_buf = len;
	s->window = at;
	return s->buf;
}
