// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the ELF header, the program headers, the section headers and the names of sections (gABI, "Object
 * Files"). The agent does so itself, with its capabilities, for files that tenants chose. So this is all
 * that it interprets of them, with the notes in identity.c: no library does it, each table has a limit
 * and is compared with the file's size before it is read, by one read, into memory of that size.
 */
#include "agent/elf/file/elf_image_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_header(struct elf_image *img, Elf64_Ehdr *ret)
{
	int r = elf_image_pread(img, 0, ret, sizeof *ret);

	if (r < 0)
		return r == -EINVAL ? -ENOEXEC : r;
	if (memcmp(ret->e_ident, ELFMAG, SELFMAG) != 0 || ret->e_ident[EI_CLASS] != ELFCLASS64 ||
	    ret->e_ident[EI_DATA] != ELFDATA2LSB || ret->e_ident[EI_VERSION] != EV_CURRENT)
		return -ENOEXEC;
	img->machine = ret->e_machine;
	img->type = ret->e_type;
	img->entry = ret->e_entry;
	return 0;
}

/* PN_XNUM, for more program headers than e_phnum can count, is above the limit, too. */
static int read_program_headers(struct elf_image *img, const Elf64_Ehdr *header)
{
	const size_t n = header->e_phoff ? header->e_phnum : 0;
	uint8_t *bytes;
	int r;

	if (header->e_phnum > ELF_SEGMENTS_MAX)
		return -ENOEXEC;
	if (n == 0)
		return 0;
	if (header->e_phentsize != sizeof *img->phdrs)
		return -ENOEXEC;
	r = elf_image_pread_new(img, header->e_phoff, n * sizeof *img->phdrs, &bytes);
	if (r < 0)
		return r == -EINVAL ? -ENOEXEC : r;
	img->phdrs = (Elf64_Phdr *)bytes;
	img->n_phdrs = n;
	return 0;
}

/*
 * A file whose section headers lie outside of it has none: it was cut off. e_shnum is 0 if there are too many
 * for it, and the first section header has their number.
 */
static int read_section_headers(struct elf_image *img, const Elf64_Ehdr *header)
{
	uint64_t n = header->e_shnum;
	Elf64_Shdr first;
	uint8_t *bytes;
	int r = 0;

	if (!header->e_shoff)
		return 0;
	if (header->e_shentsize != sizeof first)
		return -ENOEXEC;
	if (n == 0) {
		r = elf_image_pread(img, header->e_shoff, &first, sizeof first);
		n = r == 0 ? first.sh_size : 0;
	}
	if (n > ELF_SECTIONS_MAX)
		return -ENOEXEC;
	if (n > 0)
		r = elf_image_pread_new(img, header->e_shoff, n * sizeof first, &bytes);
	if (r < 0)
		return r == -EINVAL ? 0 : r;
	if (n > 0)
		img->sections = (Elf64_Shdr *)bytes;
	img->n_sections = n;
	return 0;
}

/* Sections of a file without a usable table of names have none. */
static int read_section_names(struct elf_image *img, const Elf64_Ehdr *header)
{
	uint64_t index = header->e_shstrndx;
	const Elf64_Shdr *table;
	uint8_t *bytes;
	int r;

	if (index == SHN_XINDEX && img->n_sections) /* it does not fit e_shstrndx */
		index = img->sections[0].sh_link;
	if (index == SHN_UNDEF || index >= img->n_sections)
		return 0;
	table = &img->sections[index];
	if (table->sh_size > ELF_SECTION_NAMES_MAX)
		return -ENOEXEC;
	if (table->sh_type != SHT_STRTAB || table->sh_flags & SHF_COMPRESSED)
		return 0;
	r = elf_image_pread_new(img, table->sh_offset, table->sh_size, &bytes);
	if (r < 0)
		return r == -EINVAL ? 0 : r;
	img->names = (char *)bytes;
	img->names_bytes = table->sh_size;
	return 0;
}

int elf_headers_read(struct elf_image *img)
{
	Elf64_Ehdr header;
	int r = read_header(img, &header);

	if (r == 0)
		r = read_program_headers(img, &header);
	if (r == 0)
		r = read_section_headers(img, &header);
	return r < 0 ? r : read_section_names(img, &header);
}

bool elf_headers_is_named(const struct elf_image *img, const Elf64_Shdr *section, const char *name,
			  size_t len)
{
	const uint64_t at = section->sh_name;

	return at < img->names_bytes && len < img->names_bytes - at &&
	       memcmp(img->names + at, name, len + 1) == 0;
}
