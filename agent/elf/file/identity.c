// SPDX-License-Identifier: Apache-2.0
/*
 * What identifies an image: GNU and Go build ids, which are ELF notes, and the hash that OpenTelemetry
 * defines for files without them. As for the headers, the agent itself reads the notes, so that their limits
 * hold for all notes of a file together.
 */
#include "agent/elf/file/elf_image_internal.h"

#include <endian.h>
#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/cursor.h"

#define NT_GO_BUILD_ID 4
#define HASHED_BYTES 4096 /* at each end of the file */

/* A place of the file with notes: a program header or a section. */
struct place {
	uint64_t offset, bytes, align;
};

struct search {
	const struct elf_image *img;
	struct elf_ids *ids;
	bool has_gnu, has_go;		    /* even if it is too long */
	struct place places[ELF_NOTES_MAX]; /* that were read */
	size_t n_places;
	uint64_t n_bytes; /* of them */
};

static bool has_all(const struct search *s)
{
	return s->has_gnu && s->has_go;
}

static void take_gnu(struct search *s, const uint8_t *desc, size_t len)
{
	s->has_gnu = true;
	if (len > BUILD_ID_MAX)
		return;
	memcpy(s->ids->gnu, desc, len);
	s->ids->n_gnu = len;
}

static void take_go(struct search *s, const uint8_t *desc, size_t len)
{
	size_t n = strnlen((const char *)desc, len);

	s->has_go = true;
	if (n <= GO_BUILD_ID_MAX)
		memcpy(s->ids->go, desc, n); /* the rest is zero */
}

/* Moves to the next multiple of `align`, counted from `start`. */
static void skip_padding(struct cursor *c, const uint8_t *start, uint64_t align)
{
	const uint64_t at = (uint64_t)(c->pos - start);

	cursor_take(c, ((at + align - 1) & ~(align - 1)) - at);
}

static bool is_note(const uint8_t *name, size_t name_len, const char wanted[static 4])
{
	return name_len == 4 && memcmp(name, wanted, 4) == 0;
}

/* The first note of each kind counts. Nothing is taken behind one that does not fit. */
static void search_notes(struct search *s, const uint8_t *bytes, size_t len, uint64_t align)
{
	struct cursor c = cursor_of(bytes, len);

	while (cursor_left(&c) >= 3 * sizeof(uint32_t) && !has_all(s)) {
		uint32_t name_len = cursor_u32(&c), desc_len = cursor_u32(&c), type = cursor_u32(&c);
		const uint8_t *name = cursor_take(&c, name_len), *desc;

		skip_padding(&c, bytes, align);
		desc = cursor_take(&c, desc_len);
		if (c.bad)
			return;
		if (!s->has_gnu && type == NT_GNU_BUILD_ID && is_note(name, name_len, "GNU"))
			take_gnu(s, desc, desc_len);
		if (!s->has_go && type == NT_GO_BUILD_ID && is_note(name, name_len, "Go\0"))
			take_go(s, desc, desc_len);
		skip_padding(&c, bytes, align);
	}
}

static int search_place(struct search *s, struct place p)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	int r;

	if (s->n_places == ELF_NOTES_MAX || p.bytes > ELF_NOTES_BYTES_MAX - s->n_bytes)
		return 0;
	s->places[s->n_places++] = p;
	s->n_bytes += p.bytes;
	r = elf_image_pread_new(s->img, p.offset, p.bytes, &bytes);
	if (r < 0)
		return r == -EINVAL ? 0 : r; /* outside the file */
	search_notes(s, bytes, p.bytes, p.align == 8 ? 8 : 4);
	return 0;
}

/* Whether it was read already: the sections of a program header's notes lie in it. */
static bool is_known(const struct search *s, const struct place *p)
{
	for (size_t i = 0; i < s->n_places; i++) {
		const struct place *q = &s->places[i];

		if (p->offset >= q->offset && p->bytes <= q->bytes &&
		    p->offset - q->offset <= q->bytes - p->bytes && p->align == q->align)
			return true;
	}
	return false;
}

/* Program headers first: they remain when the section headers are stripped. */
int elf_image_ids(const struct elf_image *img, struct elf_ids *ret)
{
	struct elf_ids ids = {.n_gnu = 0};
	struct search s = {.img = img, .ids = &ids};
	int r = 0;

	for (size_t i = 0; i < img->n_phdrs && !has_all(&s) && r == 0; i++) {
		const Elf64_Phdr *h = &img->phdrs[i];

		if (h->p_type == PT_NOTE)
			r = search_place(&s, (struct place){h->p_offset, h->p_filesz, h->p_align});
	}
	for (size_t i = 1; i < img->n_sections && !has_all(&s) && r == 0; i++) {
		const Elf64_Shdr *h = &img->sections[i];
		const struct place p = {h->sh_offset, h->sh_size, h->sh_addralign};

		if (h->sh_type == SHT_NOTE && !is_known(&s, &p))
			r = search_place(&s, p);
	}
	if (r == 0)
		*ret = ids;
	return r;
}

/* Exactly `len` bytes. 0; -EINVAL: the file ends before; -errno. */
static int read_exactly(int fd, uint64_t offset, uint8_t *to, size_t len)
{
	while (len) {
		ssize_t n = pread(fd, to, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EINVAL;
		to += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int htlhash(int fd, uint64_t bytes, char ret[33])
{
	uint8_t first[HASHED_BYTES], last[HASHED_BYTES], digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx ctx;
	const size_t len = bytes < HASHED_BYTES ? bytes : HASHED_BYTES;
	const uint64_t length = htobe64(bytes);
	int r = read_exactly(fd, 0, first, len);

	if (r == 0)
		r = read_exactly(fd, bytes - len, last, len);
	if (r < 0)
		return r;
	sha256_init(&ctx);
	sha256_update(&ctx, len, first);
	sha256_update(&ctx, len, last);
	sha256_update(&ctx, sizeof length, (const uint8_t *)&length);
	sha256_digest(&ctx, sizeof digest, digest);
	for (size_t i = 0; i < 16; i++)
		snprintf(ret + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

int elf_image_htlhash(struct elf_image *img, char ret[33])
{
	return htlhash(img->fd, img->file_bytes, ret);
}

int elf_file_htlhash(int fd, char ret[33])
{
	struct stat st;

	return fstat(fd, &st) < 0 ? -errno : htlhash(fd, (uint64_t)st.st_size, ret);
}
