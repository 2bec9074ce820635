// SPDX-License-Identifier: Apache-2.0
/*
 * An opened ELF file: its segments, its sections, their bytes, and what identifies it.
 *
 * Everything is read with pread into memory, never mapped: a file that is truncated while it is read has to
 * give an error, not SIGBUS. Offsets and sizes in the headers are checked against the file's size.
 */
#ifndef PROFLET_ELF_IMAGE_H
#define PROFLET_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;

/* A PT_LOAD program header; from elf_image_program_header, one of another type. */
struct elf_segment {
	uint64_t va, mem_bytes;
	uint64_t offset, file_bytes;
	bool executable, writable;
};

/* A section header. */
struct elf_section {
	size_t index;
	uint32_t type;	/* SHT_* */
	uint32_t link;	/* index of the section that it refers to */
	uint64_t flags; /* SHF_* */
	uint64_t va, offset, bytes;
	uint64_t entry_bytes;
};

/* Bytes of the file that have an address when it is loaded. */
struct elf_data {
	const uint8_t *bytes; /* borrowed from the image, until it is freed */
	size_t len;
	uint64_t va; /* of bytes[0] */
};

#define ELF_SECTION_MAX (256ull << 20) /* most bytes of one section, as stored and decompressed */
/*
 * A header may claim a large size for a hole in the file. More than ELF_SECTION_SMALL bytes are read only if
 * the file occupies at least 1/ELF_DISK_RATIO of them on its disk (the file system may compress).
 */
#define ELF_SECTION_SMALL (16ull << 20)
#define ELF_DISK_RATIO 8
/* Files with more, or with more bytes of section names, are refused: no real one has nearly as many. */
#define ELF_SEGMENTS_MAX 1024u
#define ELF_SECTIONS_MAX 65535u
#define ELF_SECTION_NAMES_MAX (1u << 20)
/* The ELF header, 56 bytes for each segment, 64 for each section, names. */
#define ELF_HEADERS_MAX (128 + 56 * ELF_SEGMENTS_MAX + 64 * ELF_SECTIONS_MAX + ELF_SECTION_NAMES_MAX)
#define BUILD_ID_MAX 64	    /* bytes; a longer GNU build id is ignored */
#define GO_BUILD_ID_MAX 255 /* the same for those of Go, which have 83 */
/* Notes are read in at most so many places of a file, and so many bytes; what is beyond is ignored. */
#define ELF_NOTES_MAX 64u
#define ELF_NOTES_BYTES_MAX (1u << 20)

/*
 * Opens the file that `fd` refers to, which may be opened with O_PATH: the image then opens the file once
 * more. It does not use `fd` afterwards, and never its file offset. Reads all headers, ELF_HEADERS_MAX bytes
 * at most; later calls do not read them again. 0; -ENOEXEC: not a little-endian ELF64 file, or its headers
 * are malformed or above a limit; -ENOMEM; -errno.
 */
int elf_image_open(struct elf_image **ret, int fd);
/* The same for a file that is in memory. Takes `bytes`, which malloc has made, on success. */
int elf_image_open_bytes(struct elf_image **ret, uint8_t *bytes, size_t len);
void elf_image_free(struct elf_image *img);
uint16_t elf_image_machine(const struct elf_image *img); /* EM_X86_64, EM_AARCH64, ... */
uint64_t elf_image_file_bytes(const struct elf_image *img);
uint16_t elf_image_type(const struct elf_image *img);  /* ET_EXEC, ET_DYN, ... */
uint64_t elf_image_entry(const struct elf_image *img); /* address of the entry point; 0: none */

/* --- segments */

/* All PT_LOADs but those whose ranges overflow 64 bits. Borrowed. */
const struct elf_segment *elf_image_segments(const struct elf_image *img, size_t *n);
/* The PT_LOAD with the address `va` in its file bytes, or NULL. Borrowed. */
const struct elf_segment *elf_image_segment_at(const struct elf_image *img, uint64_t va);
/* The first program header of this type (PT_*). 0 or -ENOENT. */
int elf_image_program_header(const struct elf_image *img, uint32_t type, struct elf_segment *ret);
/*
 * Translates a file offset in an executable PT_LOAD to its ELF virtual address. Mappings begin at page
 * boundaries: an offset before the segment's first byte, but in the same page, belongs to the segment, unless
 * it lies in another executable segment. Pages have 4 KiB, and on aarch64 up to 64 KiB. 0 or -ENOENT.
 */
int elf_image_offset_to_va(const struct elf_image *img, uint64_t offset, uint64_t *ret_va);

/* --- sections */

/* Number of section headers, with the empty one at index 0; 0 when the file has none, or was cut off. */
size_t elf_image_n_sections(const struct elf_image *img);
/* The header of section `index`. False: there is none. */
bool elf_image_section_header(const struct elf_image *img, size_t index, struct elf_section *ret);
/* The first section of that name, of that type (SHT_*). 0 or -ENOENT. */
int elf_image_find_section(const struct elf_image *img, const char *name, struct elf_section *ret);
int elf_image_find_section_type(const struct elf_image *img, uint32_t type, struct elf_section *ret);
/* Whether there is a section of that name with content in the file. Reads nothing. */
bool elf_image_has(const struct elf_image *img, const char *name);
/*
 * The bytes of the section of that name, decompressed where it is SHF_COMPRESSED. The image stores them, so
 * that they are read once. 0; -ENOENT: no such section, or SHT_NOBITS; -EINVAL: outside the file, or
 * compressed badly; -EFBIG: more than ELF_SECTION_MAX bytes; -ENOTSUP: compressed by something other than
 * zlib and zstd; -ENOMEM; -errno.
 */
int elf_image_section(struct elf_image *img, const char *name, struct elf_data *ret);

/* --- bytes */

/* Reads exactly `len` bytes at a file offset. 0, -EINVAL when the file ends before, -errno. */
int elf_image_pread(const struct elf_image *img, uint64_t offset, void *ret, size_t len);
/* The same into new memory: free(). Also -EFBIG (see ELF_SECTION_MAX, ELF_SECTION_SMALL) and -ENOMEM. */
int elf_image_pread_new(const struct elf_image *img, uint64_t offset, uint64_t len, uint8_t **ret);
/* Whether so many bytes of the file must be a hole for the greater part (see ELF_DISK_RATIO). */
bool elf_image_is_hole(const struct elf_image *img, uint64_t len);
/* Reads code by its address. 0; -ENOENT: not in the file bytes of one executable segment; -EINVAL; -errno. */
int elf_image_read_code(const struct elf_image *img, uint64_t va, void *ret, size_t len);

/*
 * Bytes that a caller found by other means than a section's name, kept under a key of ELF_KEEP_* until the
 * image is freed. elf_image_keep takes `owned` over on success only. 0 or -ENOMEM; NULL: nothing is kept.
 */
#define ELF_KEEP_EH_FRAME UINT64_MAX /* smaller numbers are indices of sections */

int elf_image_keep(struct elf_image *img, uint64_t key, uint8_t *owned, struct elf_data data);
const struct elf_data *elf_image_kept(const struct elf_image *img, uint64_t key);

/* --- identity */

struct elf_ids {
	uint8_t gnu[BUILD_ID_MAX];    /* GNU build id */
	size_t n_gnu;		      /* bytes; 0: there is none */
	char go[GO_BUILD_ID_MAX + 1]; /* Go build id (.note.go.buildid); "": there is none */
};

/* The build ids that the file has now. 0; -ENOMEM; -errno. */
int elf_image_ids(const struct elf_image *img, struct elf_ids *ret);
/*
 * The hash that OpenTelemetry defines for files without a build id, in hex: the first 16 bytes of
 * SHA-256(first 4096 bytes, last 4096 bytes, length as big-endian u64). 0 or -errno.
 */
int elf_image_htlhash(struct elf_image *img, char ret[33]);
/* The same of any file, open for reading. */
int elf_file_htlhash(int fd, char ret[33]);

#endif
