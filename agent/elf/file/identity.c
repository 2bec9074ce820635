// SPDX-License-Identifier: Apache-2.0
/*
 * What identifies an image: GNU and Go build ids, which are ELF notes, and the hash that OpenTelemetry
 * defines for files without them.
 */
#include "agent/elf/file/elf_image_internal.h"

#include <endian.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/cursor.h"

#define NOTES_MAX (1u << 20) /* bytes; a larger note segment is ignored */
#define NT_GO_BUILD_ID 4
#define HASHED_BYTES 4096 /* at each end of the file */

DEFINE_CLEANUP(EVP_MD_CTX *, EVP_MD_CTX_free)

struct note {
	const char *name; /* with its NUL */
	size_t name_len;
	uint32_t type;
};

static uint64_t align_up(uint64_t n, uint64_t align)
{
	return (n + align - 1) & ~(align - 1);
}

/* Finds the note `want` in `bytes`. Its description (borrowed), or NULL. */
static const uint8_t *find_note(const uint8_t *bytes, size_t len, uint64_t align, const struct note *want,
				size_t *ret_len)
{
	struct cursor c = cursor_of(bytes, len);

	while (cursor_left(&c) >= 3 * sizeof(uint32_t)) {
		uint32_t name_len = cursor_u32(&c), desc_len = cursor_u32(&c), type = cursor_u32(&c);
		const uint8_t *name = cursor_take(&c, name_len);

		cursor_take(&c, align_up((uint64_t)(c.pos - bytes), align) - (uint64_t)(c.pos - bytes));
		const uint8_t *desc = cursor_take(&c, desc_len);
		if (c.bad)
			return NULL;
		if (type == want->type && name_len == want->name_len &&
		    memcmp(name, want->name, name_len) == 0) {
			*ret_len = desc_len;
			return desc;
		}
		cursor_take(&c, align_up((uint64_t)(c.pos - bytes), align) - (uint64_t)(c.pos - bytes));
		if (c.bad)
			return NULL; /* only the last note may lack its padding */
	}
	return NULL;
}

/* Copies the description of a note that lies in [offset, offset + len) of the file. 0, -ENOENT, -errno. */
static int note_in_part(const struct elf_image *img, uint64_t offset, uint64_t len, uint64_t align,
			const struct note *want, uint8_t **ret, size_t *ret_len)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t desc_len;

	if (len > NOTES_MAX)
		return -ENOENT;
	int r = elf_image_pread_new(img, offset, len, &bytes);
	if (r < 0)
		return r == -EINVAL ? -ENOENT : r;
	const uint8_t *desc = find_note(bytes, len, align == 8 ? 8 : 4, want, &desc_len);
	if (!desc)
		return -ENOENT;
	uint8_t *copy = calloc(1, desc_len + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, desc, desc_len);
	*ret = copy;
	*ret_len = desc_len;
	return 0;
}

/* Program headers first: they remain when the section headers are stripped. */
static int note_in_image(const struct elf_image *img, const struct note *want, uint8_t **ret, size_t *ret_len)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	int r;

	for (size_t i = 0; i < img->n_phdrs; i++) {
		const GElf_Phdr *ph = &img->phdrs[i];

		if (ph->p_type != PT_NOTE)
			continue;
		r = note_in_part(img, ph->p_offset, ph->p_filesz, ph->p_align, want, ret, ret_len);
		if (r != -ENOENT)
			return r;
	}
	while ((scn = elf_nextscn(img->elf, scn))) {
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_NOTE)
			continue;
		r = note_in_part(img, shdr.sh_offset, shdr.sh_size, shdr.sh_addralign, want, ret, ret_len);
		if (r != -ENOENT)
			return r;
	}
	return -ENOENT;
}

size_t elf_image_build_id(struct elf_image *img, uint8_t id[BUILD_ID_MAX])
{
	const struct note want = {.name = "GNU", .name_len = sizeof("GNU"), .type = NT_GNU_BUILD_ID};
	_cleanup_free_ uint8_t *desc = NULL;
	size_t len;

	if (note_in_image(img, &want, &desc, &len) < 0 || len > BUILD_ID_MAX)
		return 0;
	memcpy(id, desc, len);
	return len;
}

const char *elf_image_go_build_id(struct elf_image *img)
{
	const struct note want = {.name = "Go\0", .name_len = 4, .type = NT_GO_BUILD_ID};
	uint8_t *desc;
	size_t len;

	if (!img->go_build_id_read) {
		if (note_in_image(img, &want, &desc, &len) == 0)
			img->go_build_id = (char *)desc;
		img->go_build_id_read = true;
	}
	return img->go_build_id && img->go_build_id[0] ? img->go_build_id : NULL;
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
	uint8_t first[HASHED_BYTES], last[HASHED_BYTES], digest[EVP_MAX_MD_SIZE];
	_cleanup_(EVP_MD_CTX_free_p) EVP_MD_CTX *ctx = NULL;
	const size_t len = bytes < HASHED_BYTES ? bytes : HASHED_BYTES;
	const uint64_t length = htobe64(bytes);
	int r = read_exactly(fd, 0, first, len);

	if (r == 0)
		r = read_exactly(fd, bytes - len, last, len);
	if (r < 0)
		return r;
	ctx = EVP_MD_CTX_new();
	if (!ctx || !EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) || !EVP_DigestUpdate(ctx, first, len) ||
	    !EVP_DigestUpdate(ctx, last, len) || !EVP_DigestUpdate(ctx, &length, sizeof(length)) ||
	    !EVP_DigestFinal_ex(ctx, digest, NULL))
		return -ENOMEM;
	/*
	 * frees OpenSSL's data of this thread now: an abandoned worker may still run while the process exits
	 */
	OPENSSL_thread_stop();
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
