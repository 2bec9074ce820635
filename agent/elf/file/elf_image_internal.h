// SPDX-License-Identifier: Apache-2.0
/* The fields of struct elf_image, for elf_image.c, identity.c and version.c. */
#ifndef PROFLET_ELF_IMAGE_INTERNAL_H
#define PROFLET_ELF_IMAGE_INTERNAL_H

#include <gelf.h>
#include <libelf.h>
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
	int fd;
	uint64_t file_bytes;
	uint64_t disk_bytes; /* bytes that the file occupies on its disk; 0: unknown */
	uint16_t machine, type;
	uint64_t entry;
	Elf *elf; /* for headers only; all contents are read by elf_image_pread */
	GElf_Phdr *phdrs;
	size_t n_phdrs;
	struct elf_segment *segments; /* the PT_LOADs of phdrs whose ranges do not overflow */
	size_t n_segments;
	struct elf_chunk *chunks;
	char *go_build_id;
	bool go_build_id_read;
	struct stat opened; /* by elf_version_open; and when, see elf_version_of_stat */
	uint64_t opened_before_ns;
};

#endif
