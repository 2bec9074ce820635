// SPDX-License-Identifier: Apache-2.0
/*
 * One byte of options, two of the length of the text, the text, then a function table of Go, all put into a
 * small ELF file: the table of rows must be well formed, and names must stay inside their functions.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/elf/file/elf_image.h"
#include "agent/elf/unwind_table.h"
#include "agent/elf/names/symtab.h"

enum { OPTION_ARM64 = 1, OPTION_NO_SECTIONS = 2, OPTION_OTHER_SECTION = 4 };

#define TEXT_VA 0x1000
#define TABLE_VA 0x100000
#define NAMES "\0.text\0.gopclntab\0.go.buildinfo"

static void require(int condition)
{
	if (!condition)
		abort();
}

struct headers {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
	Elf64_Shdr sh[4];
	char names[sizeof(NAMES)];
};

static void put_headers(struct headers *h, uint8_t options, size_t n_text, size_t n_table)
{
	*h = (struct headers){
		.eh = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		       .e_type = ET_EXEC,
		       .e_machine = options & OPTION_ARM64 ? EM_AARCH64 : EM_X86_64,
		       .e_version = EV_CURRENT,
		       .e_phoff = offsetof(struct headers, ph),
		       .e_ehsize = sizeof(h->eh),
		       .e_phentsize = sizeof(h->ph[0]),
		       .e_phnum = 2},
		.names = NAMES,
	};
	h->ph[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = sizeof(*h)};
	h->ph[0].p_vaddr = TEXT_VA;
	h->ph[0].p_filesz = h->ph[0].p_memsz = n_text;
	h->ph[1] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R, .p_offset = sizeof(*h) + n_text};
	h->ph[1].p_vaddr = TABLE_VA;
	h->ph[1].p_filesz = h->ph[1].p_memsz = n_table;
	if (options & OPTION_NO_SECTIONS)
		return;
	h->eh.e_shoff = offsetof(struct headers, sh);
	h->eh.e_shentsize = sizeof(h->sh[0]);
	h->eh.e_shnum = 4;
	h->eh.e_shstrndx = 3;
	for (int i = 0; i < 2; i++) {
		h->sh[1 + i] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC};
		h->sh[1 + i].sh_addr = h->ph[i].p_vaddr;
		h->sh[1 + i].sh_offset = h->ph[i].p_offset;
		h->sh[1 + i].sh_size = h->ph[i].p_filesz;
	}
	h->sh[1].sh_flags |= SHF_EXECINSTR;
	h->sh[1].sh_name = 1;					    /* .text */
	h->sh[2].sh_name = options & OPTION_OTHER_SECTION ? 18 : 7; /* .go.buildinfo or .gopclntab */
	h->sh[3] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct headers, names)};
	h->sh[3].sh_size = sizeof(h->names);
}

static void check_rows(struct elf_image *img, uint64_t end)
{
	struct elf_rows *t = NULL;
	int r = elf_rows_build(&t, img);

	require(r == 0 || r == -ENODATA || r == -ENOMEM || r == -EFBIG);
	if (r < 0)
		return;
	require(t->n_rows >= 2 && t->rows[t->n_rows - 1].rule == 0);
	require(t->rows[0].va >= TEXT_VA - 1 && t->rows[t->n_rows - 1].va <= end);
	for (size_t i = 0; i < t->n_rows; i++) {
		require(t->rows[i].rule < t->n_rules);
		require(i == 0 ||
			(t->rows[i - 1].va < t->rows[i].va && t->rows[i - 1].rule != t->rows[i].rule));
	}
	elf_rows_free(t);
}

static void check_names(struct elf_image *img, uint64_t end)
{
	const uint64_t addrs[] = {0, TEXT_VA, TEXT_VA + 9, TEXT_VA + 0x40, end - 1, end, UINT64_MAX};
	enum { N = sizeof(addrs) / sizeof(addrs[0]) };
	struct elf_symbol found[N];

	if (elf_symtab_resolve_with(img, NULL, 0, addrs, N, found) < 0)
		return;
	for (size_t i = 0; i < N; i++) {
		require(found[i].start <= addrs[i] &&
			(addrs[i] < found[i].end || found[i].end == UINT64_MAX));
		require(!found[i].name || found[i].name[0]);
		require(!found[i].lines || (found[i].name && found[i].n_lines > 0));
		for (size_t k = 0; k < found[i].n_lines; k++)
			require(memchr(found[i].lines[k].function, 0, 5000) &&
				memchr(found[i].lines[k].file, 0, 5000));
		free(found[i].lines);
		free(found[i].name);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image *img = NULL;
	struct headers h;

	if (size < 3)
		return 0;
	size_t n_text = (size_t)(data[1] | data[2] << 8), n = size - 3;
	if (n_text > n)
		n_text = n;
	put_headers(&h, data[0], n_text, n - n_text);
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(fd >= 0);
	require(write(fd, &h, sizeof(h)) == (ssize_t)sizeof(h) && write(fd, data + 3, n) == (ssize_t)n);
	int r = elf_image_open(&img, fd);
	close(fd);
	require(r == 0);
	check_rows(img, TEXT_VA + n_text);
	check_names(img, TEXT_VA + n_text);
	elf_image_free(img);
	return 0;
}
