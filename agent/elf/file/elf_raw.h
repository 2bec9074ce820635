// SPDX-License-Identifier: Apache-2.0
/* What the files of this folder see of an image. Rank 1, private to elf/. */
#ifndef PROFLET_ELF_RAW_H
#define PROFLET_ELF_RAW_H

#include <gelf.h>
#include <libelf.h>

#include "agent/elf/file/elf_image.h"

/* A section or segment part that was read; lives as long as the image, so that borrowed bytes stay valid. */
struct image_chunk {
	struct image_chunk *next;
	uint64_t key; /* section index, or IMAGE_KEY_* */
	struct elf_data data;
	uint8_t *owned;
};

#define IMAGE_KEY_EH_SEGMENT UINT64_MAX

struct elf_image {
	int fd;
	uint64_t file_bytes;
	uint64_t disk_bytes; /* of these; 0: its file system does not say */
	uint16_t machine;
	Elf *elf; /* headers only: every content is read with pread by image_read */
	GElf_Phdr *phdrs;
	size_t n_phdrs;
	struct elf_segment *segments; /* the PT_LOADs of phdrs that do not wrap around */
	size_t n_segments;
	struct image_chunk *chunks;
	char *go_build_id;
	bool go_build_id_read;
};

/* Reads exactly `len` bytes at `offset`. 0, -EINVAL when the file ends before, -errno. */
int image_read(const struct elf_image *img, uint64_t offset, void *ret, size_t len);
/* The same into fresh memory. Additionally -EFBIG above ELF_SECTION_MAX, -ENOMEM. Free with free(). */
int image_read_new(const struct elf_image *img, uint64_t offset, uint64_t len, uint8_t **ret);
/* First section of that name. 0 or -ENOENT. */
int image_find_section(const struct elf_image *img, const char *name, GElf_Shdr *ret, size_t *ret_index);
/* First section of that type. 0 or -ENOENT. */
int image_find_section_type(const struct elf_image *img, uint32_t type, GElf_Shdr *ret);
/* Remembers owned bytes under `key`; takes them over on success only. 0 or -ENOMEM. */
int image_keep(struct elf_image *img, uint64_t key, uint8_t *owned, struct elf_data data);
const struct image_chunk *image_kept(const struct elf_image *img, uint64_t key);
/* Undoes SHF_COMPRESSED (gABI, Elf64_Chdr). Errors as elf_image_section. Free *ret with free(). */
int image_decompress(const uint8_t *bytes, size_t len, uint8_t **ret, size_t *ret_len);
/* The PT_LOAD whose file bytes hold `va`, or NULL. Borrowed. */
const struct elf_segment *image_segment_at(const struct elf_image *img, uint64_t va);

#endif
