// SPDX-License-Identifier: Apache-2.0
/* The fields of struct elf_image, for elf_image.c, headers.c, identity.c and version.c. */
#ifndef PROFLET_ELF_IMAGE_INTERNAL_H
#define PROFLET_ELF_IMAGE_INTERNAL_H

#include <elf.h>
#include <sys/stat.h>

#include "agent/elf/file/elf_image.h"

/* Bytes that were read; they live as long as the image, so that borrowed pointers stay valid. */
struct elf_chunk {
	struct elf_chunk *next;
	uint64_t key; /* index of the section, or ELF_KEEP_* */
	struct elf_data data;
	uint8_t *owned;
};

struct elf_image {
	int fd;		/* -1: the file is in memory */
	uint8_t *bytes; /* then; owned */
	uint64_t file_bytes;
	uint64_t disk_bytes; /* bytes that the file occupies on its disk; 0: unknown */
	uint16_t machine, type;
	uint64_t entry;
	Elf64_Phdr *phdrs;
	size_t n_phdrs;
	struct elf_segment *segments; /* the PT_LOADs of phdrs whose ranges do not overflow */
	size_t n_segments;
	Elf64_Shdr *sections;
	size_t n_sections;
	char *names; /* of sections; not all need to end in it */
	size_t names_bytes;
	struct elf_chunk *chunks;
	struct stat opened;	   /* before anything was read */
	uint64_t opened_before_ns; /* by elf_version_open, see elf_version_of_stat */
};

/* Reads all headers. 0; -ENOEXEC: not a little-endian ELF64 file, or above a limit; -ENOMEM; -errno. */
int elf_headers_read(struct elf_image *img);
/* Whether the section has that name, of `len` bytes. */
bool elf_headers_is_named(const struct elf_image *img, const Elf64_Shdr *section, const char *name,
			  size_t len);

#endif
