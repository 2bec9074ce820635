// SPDX-License-Identifier: Apache-2.0
/*
 * An opened ELF file: segments, sections, notes, identity. Reads with pread (never mmap: a file that is
 * truncated while it is read must give an error, not SIGBUS). Rank 1.
 */
#ifndef PROFLET_ELF_IMAGE_H
#define PROFLET_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;

/* One PT_LOAD. */
struct elf_segment {
	uint64_t va, mem_bytes;
	uint64_t offset, file_bytes;
	bool executable;
};

/* A section's bytes (decompressed where SHF_COMPRESSED), or a segment part when section headers are stripped.
 */
struct elf_data {
	const uint8_t *bytes; /* borrowed from the image, until it is freed */
	size_t len;
	uint64_t va; /* address of bytes[0] when loaded */
};

#define ELF_SECTION_MAX (256ull << 20) /* bytes of one section that are read, or left after decompression */
/* More than this is read only of a file that has as much on its disk: headers may claim what is a hole. */
#define ELF_SECTION_SMALL (16ull << 20)
#define ELF_DISK_RATIO 8 /* of a file system that compresses */
#define BUILD_ID_MAX 64	 /* bytes of a GNU build id that are kept; longer ones are refused */

/* `fd` stays the caller's, is opened anew and may have O_PATH. 0, -ENOEXEC (not ELF64 little endian, or
 * malformed headers), -errno, -ENOMEM. */
int elf_image_open(struct elf_image **ret, int fd);
void elf_image_free(struct elf_image *img);
uint16_t elf_image_machine(const struct elf_image *img); /* EM_X86_64, EM_AARCH64 */
const struct elf_segment *elf_image_segments(const struct elf_image *img, size_t *n);
/* Translates a file offset inside an executable PT_LOAD to its ELF virtual address. 0 or -ENOENT. Page
 * rounding of mappings is taken into account: an offset in the same page (4 KiB; 64 KiB on aarch64, whose
 * kernels may have such pages) before the segment's first byte belongs to it, unless it lies inside another
 * executable segment. */
int elf_image_offset_to_va(const struct elf_image *img, uint64_t offset, uint64_t *ret_va);
/* Bytes of an executable segment that the file holds, at an ELF virtual address. 0, -ENOENT, -EINVAL when the
 * file ends before, -errno. */
int elf_image_read(const struct elf_image *img, uint64_t va, void *ret, size_t len);
/* The section's bytes. 0, -ENOENT (also for SHT_NOBITS), -EINVAL (outside the file, or compressed badly),
 * -EFBIG (above ELF_SECTION_MAX, as stored or decompressed), -ENOTSUP (compressed by a method that is neither
 * zlib nor zstd), -ENOMEM, -errno of the read. */
int elf_image_section(struct elf_image *img, const char *name, struct elf_data *ret);
/* Whether there is a section of that name with content in the file. Reads headers only. */
bool elf_image_has(const struct elf_image *img, const char *name);
/* GNU build id: number of bytes written to `id`, 0 when there is none. */
size_t elf_image_build_id(struct elf_image *img, uint8_t id[BUILD_ID_MAX]);
/* Go build id (.note.go.buildid) as a NUL terminated string, borrowed; NULL when there is none. */
const char *elf_image_go_build_id(struct elf_image *img);
/* First 16 bytes, in hex, of SHA-256(first 4096 bytes ‖ last 4096 bytes ‖ length as big-endian u64). 0 or
 * -errno. */
int elf_image_htlhash(struct elf_image *img, char ret[33]);

#endif
