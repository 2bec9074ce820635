// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/names/symsource.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/debugdata.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

/* Which sections hold code. */
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

/* 0, -ENOENT without such a table, -ENOMEM. Takes nothing over on error. */
static int open_table(struct symsource *ret, const struct elf_image *img, uint32_t type, uint64_t delta)
{
	struct symsource s = {.img = img, .delta = delta};

	if (elf_image_find_section_type(img, type, &s.table) < 0 ||
	    s.table.bytes > elf_image_file_bytes(img) || !elf_strtab_open(&s.strings, img, &s.table))
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

int symsources_open(struct symsource ret[SYMSOURCES_MAX], unsigned *ret_n, struct elf_image *img,
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
	if (r == -ENOENT) { /* a debug file has all of it */
		r = open_debugdata(&ret[n], img);
		n += r == 0;
	}
	*ret_n = n;
	return r == -ENOMEM ? r : 0;
}

void symsource_fini(struct symsource *s)
{
	elf_image_free(s->owned);
	free(s->executable);
	*s = (struct symsource){0};
}
