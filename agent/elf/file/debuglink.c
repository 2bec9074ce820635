// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file/debuglink.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"

#define DEBUG_DIR "/usr/lib/debug"
#define CRC_CHUNK (256u << 10)

int elf_debuglink_parse(const uint8_t *bytes, size_t len, struct elf_debuglink *ret)
{
	size_t name = strnlen((const char *)bytes, len), crc = (name + 4) & ~(size_t)3;
	struct elf_debuglink link = {0};

	if (name == 0 || name > DEBUGLINK_NAME_MAX || name == len || crc > len || len - crc < sizeof link.crc)
		return -EINVAL;
	memcpy(link.name, bytes, name);
	if (strchr(link.name, '/') || strcmp(link.name, ".") == 0 || strcmp(link.name, "..") == 0)
		return -EINVAL;
	memcpy(&link.crc, bytes + crc, sizeof link.crc);
	*ret = link;
	return 0;
}

int elf_debuglink_read(struct elf_image *img, struct elf_debuglink *ret)
{
	struct elf_data data;
	int r = elf_image_section(img, ".gnu_debuglink", &data);

	return r < 0 ? r : elf_debuglink_parse(data.bytes, data.len, ret);
}

int elf_debuglink_crc(int fd, uint32_t *ret)
{
	_cleanup_free_ uint8_t *chunk = NULL;
	uLong crc = crc32(0, NULL, 0);
	struct stat st;
	off_t at = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > DEBUGLINK_CRC_MAX)
		return -EFBIG;
	chunk = malloc(CRC_CHUNK);
	if (!chunk)
		return -ENOMEM;
	while (at < st.st_size) { /* not further: the file may grow while it is read */
		ssize_t n = pread(fd, chunk, CRC_CHUNK, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		crc = crc32(crc, chunk, (uInt)n);
		at += n;
	}
	*ret = (uint32_t)crc;
	return 0;
}

static int id_path(struct elf_image *img, struct buf *ret)
{
	struct elf_ids ids;
	int r = elf_image_ids(img, &ids);

	if (r < 0)
		return r;
	if (ids.n_gnu < 2)
		return -ENOENT;
	r = buf_printf(ret, DEBUG_DIR "/.build-id/%02x/", ids.gnu[0]);
	for (size_t i = 1; i < ids.n_gnu && r == 0; i++)
		r = buf_printf(ret, "%02x", ids.gnu[i]);
	return r < 0 ? r : buf_puts(ret, ".debug");
}

int elf_debug_path(struct elf_image *img, const struct elf_debuglink *link, const char *path, unsigned i,
		   struct buf *ret)
{
	const char *slash = strrchr(path, '/');
	int dir = slash ? (int)(slash - path) : 0;
	bool in_usr = strncmp(path, "/usr/", 5) == 0;

	buf_clear(ret);
	if (i > 0 && i < 5 && (!link->name[0] || path[0] != '/'))
		return -ENOENT;
	switch (i) {
	case 0:
		return id_path(img, ret);
	case 1:
		return buf_printf(ret, "%.*s/%s", dir, path, link->name);
	case 2:
		return buf_printf(ret, "%.*s/.debug/%s", dir, path, link->name);
	case 3:
		return buf_printf(ret, DEBUG_DIR "%.*s/%s", dir, path, link->name);
	case 4: /* of packages from before /lib became a link to /usr/lib */
		return in_usr ? buf_printf(ret, DEBUG_DIR "%.*s/%s", dir - 4, path + 4, link->name) : -ENOENT;
	default:
		return -ERANGE;
	}
}

static const struct elf_segment *first_executable(const struct elf_image *img)
{
	size_t n;
	const struct elf_segment *s = elf_image_segments(img, &n);

	for (size_t i = 0; i < n; i++) {
		if (s[i].executable)
			return &s[i];
	}
	return NULL;
}

/*
 * Compares size and place of the code: of .text, or of the first executable segment where one of the files
 * has no sections. A debug file has the headers of both, without their content.
 */
static bool same_code(const struct elf_image *img, const struct elf_image *debug, uint64_t *ret_delta)
{
	const struct elf_segment *s, *t;
	struct elf_section a, b;

	if (elf_image_find_section(img, ".text", &a) == 0 &&
	    elf_image_find_section(debug, ".text", &b) == 0) {
		*ret_delta = a.va - b.va;
		return a.bytes == b.bytes;
	}
	s = first_executable(img);
	t = first_executable(debug);
	if (!s || !t)
		return false;
	*ret_delta = s->va - t->va;
	return s->mem_bytes == t->mem_bytes;
}

int elf_debug_match(struct elf_image *img, struct elf_image *debug, int fd, const struct elf_debuglink *link,
		    uint64_t *ret_delta)
{
	struct elf_ids ids, others;
	uint64_t delta;
	uint32_t crc;
	int r = elf_image_ids(img, &ids);

	if (r == 0)
		r = elf_image_ids(debug, &others);
	if (r < 0)
		return r;

	if (elf_image_machine(img) != elf_image_machine(debug) || !same_code(img, debug, &delta))
		return -ESTALE;
	if (ids.n_gnu && others.n_gnu) {
		if (ids.n_gnu != others.n_gnu || memcmp(ids.gnu, others.gnu, ids.n_gnu) != 0)
			return -ESTALE;
	} else {
		if (!link->name[0])
			return -ESTALE;
		r = elf_debuglink_crc(fd, &crc);
		if (r < 0)
			return r;
		if (crc != link->crc)
			return -ESTALE;
	}
	*ret_delta = delta;
	return 0;
}
