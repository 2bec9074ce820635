// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/debugfile.h"

#include <errno.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/file/debuglink.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/unwind_table.h"

#define FRAMES ".debug_frame"
#define DELETED " (deleted)"
/* Search only if more text than this has no rows: the start code of a C program has none, and is shorter. */
#define WORTH_BYTES 512u

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct elf_rows *, elf_rows_free)

/* What `fd` is. -ENOENT: it lacks the section (NULL: any will do); -ESTALE: it is not the binary's. */
static int open_file(struct debug_file *ret, struct elf_image *img, const struct elf_debuglink *link, int fd,
		     const char *section)
{
	_cleanup_(elf_image_free_p) struct elf_image *debug = NULL;
	struct elf_version version;
	uint64_t delta;
	int r = elf_version_open(&debug, fd, NULL);

	if (r < 0)
		return r == -ENOEXEC ? -ESTALE : r;
	if (section && !elf_image_has(debug, section))
		return -ENOENT;
	r = elf_version_read(&version, debug);
	if (r == 0)
		r = elf_debug_match(img, debug, fd, link, &delta);
	if (r < 0)
		return r;
	*ret = (struct debug_file){.img = TAKE_PTR(debug), .delta = delta, .version = version};
	return 0;
}

/* The file at one path. */
static int try_path(struct debug_file *ret, struct elf_image *img, struct debug_place *place,
		    const struct elf_debuglink *link, const char *path, const char *section)
{
	const unsigned number = place->n_opened++;
	_cleanup_close_ int fd = place->open(path, place->data);
	int r = fd < 0 ? fd : open_file(ret, img, link, fd, section);

	if (r == 0)
		ret->number = number;
	return r;
}

/* The path without what the kernel appends to the names of deleted files. */
static int binary_path(const struct debug_place *place, struct buf *ret)
{
	const size_t deleted = sizeof DELETED - 1;
	size_t len = strlen(place->path);

	if (len > deleted && strcmp(place->path + len - deleted, DELETED) == 0)
		len -= deleted;
	return buf_append(ret, place->path, len);
}

int debug_file_find(struct debug_file *ret, struct elf_image *img, struct debug_place *place,
		    const char *section)
{
	_cleanup_buf_ struct buf binary = {0}, path = {0};
	struct elf_debuglink link = {0};
	int r, error = -ENOENT;

	if (!place->open)
		return -ENOENT;
	r = elf_debuglink_read(img, &link); /* without one there is still the build id */
	if (r == -ENOMEM)
		return r;
	r = binary_path(place, &binary);
	for (unsigned i = 0; r != -ERANGE; i++) {
		r = elf_debug_path(img, &link, buf_str(&binary), i, &path);
		if (r == 0)
			r = try_path(ret, img, place, &link, buf_str(&path), section);
		if (r == 0 || r == -ENOMEM || r == -EMFILE || r == -ENFILE)
			return r;
		if (r != -ENOENT && r != -ERANGE)
			error = r;
	}
	return error;
}

int debug_file_reopen(struct debug_file *ret, struct elf_image *img, int fd)
{
	struct elf_debuglink link = {0};
	int r;

	(void)elf_debuglink_read(img, &link);
	r = open_file(ret, img, &link, fd, NULL);
	if (r == 0)
		ret->number = DEBUG_FILE_GIVEN;
	return r;
}

void debug_file_fini(struct debug_file *f)
{
	elf_image_free(f->img);
	*f = DEBUG_FILE_NONE;
}

static bool is_whole(const struct elf_rows *rows)
{
	return rows->text_bytes < rows->described_bytes + WORTH_BYTES;
}

/* Replaces *rows (NULL: none) by rows of the binary and its debug file together. */
static int complete(struct elf_rows **rows, struct elf_image *img, struct debug_place *place,
		    struct debug_file *debug)
{
	_cleanup_(elf_rows_free_p) struct elf_rows *both = NULL;
	int r = debug_file_find(debug, img, place, FRAMES);

	if (r < 0)
		return r;
	r = elf_rows_build_with(&both, img, debug->img, debug->delta);
	if (r < 0) {
		debug_file_fini(debug);
		return r;
	}
	both->build_ns += *rows ? (*rows)->build_ns : 0;
	elf_rows_free(*rows);
	*rows = TAKE_PTR(both);
	return 0;
}

int debug_file_rows(struct elf_rows **ret, struct elf_image *img, struct debug_place *place,
		    struct debug_file *debug)
{
	_cleanup_(elf_rows_free_p) struct elf_rows *rows = NULL;
	int r = elf_rows_build_with(&rows, img, debug->img, debug->delta);

	if ((r == -ENODATA || (r == 0 && !is_whole(rows))) && !debug->img &&
	    complete(&rows, img, place, debug) == 0)
		r = 0;
	if (r == 0)
		*ret = TAKE_PTR(rows);
	return r;
}
