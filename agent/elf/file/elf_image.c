// SPDX-License-Identifier: Apache-2.0
/*
 * Content is read with pread, after its bounds were compared with the size that the file had when it was
 * opened. If the file shrinks meanwhile, the read comes back short and fails (-EINVAL).
 */
#include "agent/elf/file/elf_image_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/elf/file/arch.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

/* Bytes of one read: on a slow disk, a page of the agent's own program has to wait until that is done. */
#define READ_MAX ((size_t)256 << 10)

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

static struct elf_segment segment_of(const Elf64_Phdr *ph)
{
	return (struct elf_segment){
		.va = ph->p_vaddr,
		.mem_bytes = ph->p_memsz,
		.offset = ph->p_offset,
		.file_bytes = ph->p_filesz,
		.executable = ph->p_flags & PF_X,
		.writable = ph->p_flags & PF_W,
	};
}

static int list_segments(struct elf_image *img)
{
	img->segments = calloc(img->n_phdrs + 1, sizeof(*img->segments));
	if (!img->segments)
		return -ENOMEM;
	for (size_t i = 0; i < img->n_phdrs; i++) {
		const Elf64_Phdr *ph = &img->phdrs[i];

		if (ph->p_type != PT_LOAD || ph->p_vaddr + ph->p_memsz < ph->p_vaddr ||
		    ph->p_offset + ph->p_filesz < ph->p_offset)
			continue;
		img->segments[img->n_segments++] = segment_of(ph);
	}
	return 0;
}

/* A descriptor for reading. Where no file can be opened (agent/parser), `fd` is one already. */
static int readable(int fd)
{
	int flags = fcntl(fd, F_GETFL), copy;

	if (flags < 0)
		return -errno;
	if (flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY)
		return fs_reopen(fd);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return copy < 0 ? -errno : copy;
}

static int read_headers(struct elf_image *img)
{
	int r = elf_headers_read(img);

	return r < 0 ? r : list_segments(img);
}

int elf_image_open_bytes(struct elf_image **ret, uint8_t *bytes, size_t len)
{
	struct elf_image *img = calloc(1, sizeof(*img));
	int r;

	if (!img)
		return -ENOMEM;
	img->fd = -1;
	img->bytes = bytes;
	img->file_bytes = len;
	r = read_headers(img);
	if (r < 0) {
		img->bytes = NULL; /* stay the caller's */
		elf_image_free(img);
		return r;
	}
	*ret = img;
	return 0;
}

int elf_image_open(struct elf_image **ret, int fd)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = calloc(1, sizeof(*img));
	int r;

	if (!img)
		return -ENOMEM;
	img->fd = readable(fd);
	if (img->fd < 0)
		return img->fd;
	if (fstat(img->fd, &img->opened) < 0)
		return -errno;
	img->file_bytes = img->opened.st_size > 0 ? (uint64_t)img->opened.st_size : 0;
	img->disk_bytes = (uint64_t)img->opened.st_blocks * 512;
	r = read_headers(img);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(img);
	return 0;
}

void elf_image_free(struct elf_image *img)
{
	if (!img)
		return;
	while (img->chunks) {
		struct elf_chunk *next = img->chunks->next;

		free(img->chunks->owned);
		free(img->chunks);
		img->chunks = next;
	}
	if (img->fd >= 0)
		close(img->fd);
	free(img->bytes);
	free(img->phdrs);
	free(img->segments);
	free(img->sections);
	free(img->names);
	free(img);
}

uint16_t elf_image_machine(const struct elf_image *img)
{
	return img->machine;
}

uint16_t elf_image_type(const struct elf_image *img)
{
	return img->type;
}

uint64_t elf_image_entry(const struct elf_image *img)
{
	return img->entry;
}

const struct elf_segment *elf_image_segments(const struct elf_image *img, size_t *n)
{
	*n = img->n_segments;
	return img->segments;
}

uint64_t elf_image_file_bytes(const struct elf_image *img)
{
	return img->file_bytes;
}

int elf_image_program_header(const struct elf_image *img, uint32_t type, struct elf_segment *ret)
{
	for (size_t i = 0; i < img->n_phdrs; i++) {
		if (img->phdrs[i].p_type == type) {
			*ret = segment_of(&img->phdrs[i]);
			return 0;
		}
	}
	return -ENOENT;
}

static const struct elf_segment *segment_of_offset(const struct elf_image *img, uint64_t offset,
						   uint64_t page)
{
	for (size_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *s = &img->segments[i];

		if (s->executable && offset >= (s->offset & ~(page - 1)) &&
		    offset < s->offset + s->file_bytes)
			return s;
	}
	return NULL;
}

int elf_image_offset_to_va(const struct elf_image *img, uint64_t offset, uint64_t *ret_va)
{
	const struct elf_arch *arch = elf_arch(img->machine);
	const struct elf_segment *s = segment_of_offset(img, offset, 1);

	if (!s)
		s = segment_of_offset(img, offset, 4096);
	if (!s && arch)
		s = segment_of_offset(img, offset, arch->page_bytes_max);
	if (!s)
		return -ENOENT;
	*ret_va = s->va + (offset - s->offset); /* an offset before the segment wraps around, as it should */
	return 0;
}

const struct elf_segment *elf_image_segment_at(const struct elf_image *img, uint64_t va)
{
	for (size_t i = 0; i < img->n_segments; i++) {
		const struct elf_segment *s = &img->segments[i];

		if (va >= s->va && va - s->va < s->file_bytes)
			return s;
	}
	return NULL;
}

int elf_image_read_code(const struct elf_image *img, uint64_t va, void *ret, size_t len)
{
	const struct elf_segment *s = elf_image_segment_at(img, va);

	if (!s || !s->executable || len > s->file_bytes - (va - s->va))
		return -ENOENT;
	return elf_image_pread(img, s->offset + (va - s->va), ret, len);
}

int elf_image_pread(const struct elf_image *img, uint64_t offset, void *ret, size_t len)
{
	uint8_t *to = ret;

	if (offset > img->file_bytes || len > img->file_bytes - offset)
		return -EINVAL;
	if (img->bytes) {
		memcpy(ret, img->bytes + offset, len);
		return 0;
	}
	while (len > 0) {
		ssize_t n = pread(img->fd, to, len < READ_MAX ? len : READ_MAX, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EINVAL;
		to += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

bool elf_image_is_hole(const struct elf_image *img, uint64_t len)
{
	return len > ELF_SECTION_SMALL && img->disk_bytes && len / ELF_DISK_RATIO > img->disk_bytes;
}

int elf_image_pread_new(const struct elf_image *img, uint64_t offset, uint64_t len, uint8_t **ret)
{
	_cleanup_free_ uint8_t *bytes = NULL;

	if (offset > img->file_bytes || len > img->file_bytes - offset)
		return -EINVAL;
	if (len > ELF_SECTION_MAX || elf_image_is_hole(img, len))
		return -EFBIG;
	bytes = malloc(len + 1);
	if (!bytes)
		return -ENOMEM;
	int r = elf_image_pread(img, offset, bytes, len);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(bytes);
	return 0;
}

size_t elf_image_n_sections(const struct elf_image *img)
{
	return img->n_sections;
}

static struct elf_section section_of(const struct elf_image *img, size_t index)
{
	const Elf64_Shdr *header = &img->sections[index];

	return (struct elf_section){
		.index = index,
		.type = header->sh_type,
		.link = header->sh_link,
		.flags = header->sh_flags,
		.va = header->sh_addr,
		.offset = header->sh_offset,
		.bytes = header->sh_size,
		.entry_bytes = header->sh_entsize,
	};
}

bool elf_image_section_header(const struct elf_image *img, size_t index, struct elf_section *ret)
{
	if (index >= img->n_sections)
		return false;
	*ret = section_of(img, index);
	return true;
}

int elf_image_find_section(const struct elf_image *img, const char *name, struct elf_section *ret)
{
	const size_t len = strlen(name);

	for (size_t i = 1; i < img->n_sections; i++) {
		if (elf_headers_is_named(img, &img->sections[i], name, len)) {
			*ret = section_of(img, i);
			return 0;
		}
	}
	return -ENOENT;
}

int elf_image_find_section_type(const struct elf_image *img, uint32_t type, struct elf_section *ret)
{
	for (size_t i = 1; i < img->n_sections; i++) {
		if (img->sections[i].sh_type == type) {
			*ret = section_of(img, i);
			return 0;
		}
	}
	return -ENOENT;
}

bool elf_image_has(const struct elf_image *img, const char *name)
{
	struct elf_section section;

	return elf_image_find_section(img, name, &section) == 0 && section.type != SHT_NOBITS &&
	       section.bytes > 0;
}

int elf_image_keep(struct elf_image *img, uint64_t key, uint8_t *owned, struct elf_data data)
{
	struct elf_chunk *chunk = calloc(1, sizeof(*chunk));

	if (!chunk)
		return -ENOMEM;
	*chunk = (struct elf_chunk){.next = img->chunks, .key = key, .data = data, .owned = owned};
	img->chunks = chunk;
	return 0;
}

const struct elf_data *elf_image_kept(const struct elf_image *img, uint64_t key)
{
	for (const struct elf_chunk *c = img->chunks; c; c = c->next) {
		if (c->key == key)
			return &c->data;
	}
	return NULL;
}

static int inflate_zlib(const uint8_t *bytes, size_t len, uint8_t *to, size_t to_len)
{
	uLongf written = to_len;

	int r = uncompress(to, &written, bytes, len);
	if (r == Z_MEM_ERROR)
		return -ENOMEM;
	return r == Z_OK && written == to_len ? 0 : -EINVAL;
}

static int inflate_zstd(const uint8_t *bytes, size_t len, uint8_t *to, size_t to_len)
{
	size_t r = ZSTD_decompress(to, to_len, bytes, len);

	return !ZSTD_isError(r) && r == to_len ? 0 : -EINVAL;
}

/*
 * Decompresses a section that is SHF_COMPRESSED (gABI "Section Compression"). The size that the file
 * claims is checked against ELF_SECTION_MAX and against
 * the number of bytes that the decoder writes. Errors as of elf_image_section. Free *ret with free().
 */
static int decompress(const uint8_t *bytes, size_t len, uint8_t **ret, size_t *ret_len)
{
	_cleanup_free_ uint8_t *plain = NULL;
	Elf64_Chdr header;
	int r;

	if (len < sizeof(header))
		return -EINVAL;
	memcpy(&header, bytes, sizeof(header));
	if (header.ch_size > ELF_SECTION_MAX)
		return -EFBIG;
	plain = malloc(header.ch_size + 1);
	if (!plain)
		return -ENOMEM;
	bytes += sizeof(header);
	len -= sizeof(header);
	if (header.ch_type == ELFCOMPRESS_ZLIB)
		r = inflate_zlib(bytes, len, plain, header.ch_size);
	else if (header.ch_type == ELFCOMPRESS_ZSTD)
		r = inflate_zstd(bytes, len, plain, header.ch_size);
	else
		r = -ENOTSUP;
	if (r < 0)
		return r;
	*ret = TAKE_PTR(plain);
	*ret_len = header.ch_size;
	return 0;
}

int elf_image_section(struct elf_image *img, const char *name, struct elf_data *ret)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct elf_section section;

	int r = elf_image_find_section(img, name, &section);
	if (r < 0)
		return r;
	const struct elf_data *kept = elf_image_kept(img, section.index);
	if (kept) {
		*ret = *kept;
		return 0;
	}
	if (section.type == SHT_NOBITS)
		return -ENOENT;
	r = elf_image_pread_new(img, section.offset, section.bytes, &bytes);
	if (r < 0)
		return r;
	struct elf_data data = {.bytes = bytes, .len = section.bytes, .va = section.va};
	if (section.flags & SHF_COMPRESSED) {
		uint8_t *plain;

		r = decompress(bytes, data.len, &plain, &data.len);
		if (r < 0)
			return r;
		free(bytes);
		data.bytes = bytes = plain;
	}
	r = elf_image_keep(img, section.index, bytes, data);
	if (r < 0)
		return r;
	TAKE_PTR(bytes);
	*ret = data;
	return 0;
}
