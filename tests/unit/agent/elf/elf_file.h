// SPDX-License-Identifier: Apache-2.0
/* Writes small ELF files for the tests of agent/elf/: one PT_LOAD for each allocated section. */
#ifndef PROFLET_TESTS_ELF_FILE_H
#define PROFLET_TESTS_ELF_FILE_H

#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"

struct file_section {
	const char *name;
	uint32_t type;
	uint64_t flags, va;
	const void *data;
	size_t len;
	uint32_t link; /* index in the array + 1 */
	uint64_t entry_bytes;
};

#define FILE_NO_SECTIONS 1u /* without section headers, as after sstrip */

static inline void file_pad(struct buf *b)
{
	static const char zeros[16];

	cr_assert_eq(buf_append(b, zeros, -b->len & 15), 0);
}

static inline void file_segments(struct buf *b, const struct file_section *s, const uint64_t *offsets,
				 size_t n)
{
	for (size_t i = 0; i < n; i++) {
		Elf64_Phdr ph = {
			.p_type = PT_NULL,
			.p_flags = PF_R | (s[i].flags & SHF_EXECINSTR ? PF_X : 0) |
				   (s[i].flags & SHF_WRITE ? PF_W : 0),
			.p_offset = offsets[i],
			.p_vaddr = s[i].va,
			.p_filesz = s[i].type == SHT_NOBITS ? 0 : s[i].len,
			.p_memsz = s[i].len,
			.p_align = 4,
		};

		if (s[i].flags & SHF_ALLOC)
			ph.p_type = PT_LOAD;
		if (s[i].type == SHT_NOTE)
			ph.p_type = PT_NOTE;
		if (strcmp(s[i].name, ".eh_frame_hdr") == 0)
			ph.p_type = PT_GNU_EH_FRAME;
		memcpy(b->data + sizeof(Elf64_Ehdr) + i * sizeof(ph), &ph, sizeof(ph));
	}
}

static inline void file_section_headers(struct buf *b, const struct file_section *s, const uint64_t *offsets,
					size_t n)
{
	_cleanup_buf_ struct buf names = {0}, headers = {0};
	Elf64_Shdr sh = {0};

	buf_putc(&names, '\0');
	buf_append(&headers, &sh, sizeof(sh));
	for (size_t i = 0; i < n; i++) {
		sh = (Elf64_Shdr){
			.sh_name = (Elf64_Word)names.len,
			.sh_type = s[i].type,
			.sh_flags = s[i].flags,
			.sh_addr = s[i].va,
			.sh_offset = offsets[i],
			.sh_size = s[i].len,
			.sh_link = s[i].link,
			.sh_addralign = 4,
			.sh_entsize = s[i].entry_bytes,
		};
		buf_append(&names, s[i].name, strlen(s[i].name) + 1);
		buf_append(&headers, &sh, sizeof(sh));
	}
	sh = (Elf64_Shdr){.sh_name = (Elf64_Word)names.len,
			  .sh_type = SHT_STRTAB,
			  .sh_offset = b->len,
			  .sh_addralign = 1};
	buf_append(&names, ".shstrtab", sizeof(".shstrtab"));
	sh.sh_size = names.len;
	buf_append(&headers, &sh, sizeof(sh));
	cr_assert_eq(buf_append(b, names.data, names.len), 0);
	file_pad(b);
	Elf64_Ehdr *eh = (Elf64_Ehdr *)b->data;
	eh->e_shoff = b->len;
	eh->e_shentsize = sizeof(sh);
	eh->e_shnum = (Elf64_Half)(n + 2);
	eh->e_shstrndx = (Elf64_Half)(n + 1);
	cr_assert_eq(buf_append(b, headers.data, headers.len), 0);
}

/* Appends the file to `b`. */
static inline void file_write(struct buf *b, uint16_t machine, const struct file_section *s, size_t n,
			      unsigned flags)
{
	Elf64_Ehdr eh = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = machine,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(eh),
		.e_ehsize = sizeof(eh),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = (Elf64_Half)n,
	};
	uint64_t offsets[32];
	Elf64_Phdr none = {0};

	cr_assert_leq(n, ARRAY_SIZE(offsets));
	buf_append(b, &eh, sizeof(eh));
	for (size_t i = 0; i < n; i++)
		buf_append(b, &none, sizeof(none));
	for (size_t i = 0; i < n; i++) {
		file_pad(b);
		offsets[i] = b->len;
		if (s[i].type != SHT_NOBITS)
			cr_assert_eq(buf_append(b, s[i].data, s[i].len), 0);
	}
	file_pad(b);
	file_segments(b, s, offsets, n);
	if (!(flags & FILE_NO_SECTIONS))
		file_section_headers(b, s, offsets, n);
}

/* A memfd with these bytes; close it. */
static inline int file_fd(const void *data, size_t len)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);

	cr_assert_geq(fd, 0);
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, (const char *)data + done, len - done);

		cr_assert_gt(n, 0);
		done += (size_t)n;
	}
	return fd;
}

/* The same file with an entry point; type: ET_*. */
static inline void file_set_entry(struct buf *b, uint16_t type, uint64_t entry)
{
	Elf64_Ehdr *eh = (Elf64_Ehdr *)b->data;

	eh->e_type = type;
	eh->e_entry = entry;
}

static inline struct elf_image *file_open(const struct buf *b)
{
	_cleanup_close_ int fd = file_fd(b->data, b->len);
	struct elf_image *img = NULL;

	cr_assert_eq(elf_image_open(&img, fd), 0);
	return img;
}

static inline struct elf_image *file_image(uint16_t machine, const struct file_section *s, size_t n,
					   unsigned flags)
{
	_cleanup_buf_ struct buf b = {0};

	file_write(&b, machine, s, n, flags);
	return file_open(&b);
}

#endif
