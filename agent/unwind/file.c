// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/proc/root.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct unwind_file *, unwind_file_free)

static char *hex(const uint8_t *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	char *s = malloc(2 * n + 1);

	if (!s)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		s[2 * i] = digits[bytes[i] >> 4];
		s[2 * i + 1] = digits[bytes[i] & 15];
	}
	s[2 * n] = '\0';
	return s;
}

/* The executable range of the file, in ELF virtual addresses; of a file that is not ELF all of it, by offset.
 */
static void module_range(struct unwind_file *f)
{
	bool any = false;

	f->module.limit = f->size;
	for (size_t i = 0; i < f->n_segments; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (!s->executable)
			continue;
		if (!any || s->va < f->module.start) {
			f->module.start = s->va;
			f->module.file_offset = s->offset;
		}
		if (!any || s->va + s->mem_bytes > f->module.limit)
			f->module.limit = s->va + s->mem_bytes;
		any = true;
	}
}

static int read_elf(struct unwind_file *f)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	const struct elf_segment *segments;
	uint8_t id[BUILD_ID_MAX];
	const char *go;
	size_t n;
	int r = elf_image_open(&img, f->fd);

	if (r < 0)
		return r == -ENOMEM ? r
				    : 0; /* mapped executable, but no ELF file: addresses are file offsets */
	segments = elf_image_segments(img, &n);
	if (n) {
		f->segments = malloc(n * sizeof *segments);
		if (!f->segments)
			return -ENOMEM;
		memcpy(f->segments, segments, n * sizeof *segments);
		f->n_segments = n;
	}
	n = elf_image_build_id(img, id);
	if (n && !(f->module.build_id_gnu = hex(id, n)))
		return -ENOMEM;
	go = elf_image_go_build_id(img);
	if (go && !(f->module.build_id_go = strdup(go)))
		return -ENOMEM;
	f->module.go = go || elf_image_has(img, ".gopclntab") || elf_image_has(img, ".data.rel.ro.gopclntab");
	return 0;
}

int unwind_file_new(struct unwind_file **ret, int fd, const struct stat *st, const char *path)
{
	_cleanup_(unwind_file_free_p) struct unwind_file *f = calloc(1, sizeof *f);
	const char *slash;
	int r;

	if (!f)
		return -ENOMEM;
	f->fd = f->debug_fd = f->names_fd = -1;
	f->module.path = strdup(path);
	if (!f->module.path)
		return -ENOMEM;
	slash = strrchr(f->module.path, '/');
	f->module.name = slash && slash[1] ? slash + 1 : f->module.path;
	f->fd = fd;
	f->size = (uint64_t)st->st_size;
	f->dev = st->st_dev;
	r = read_elf(f);
	if (r < 0) {
		f->fd = -1; /* stays the caller's */
		return r;
	}
	module_range(f);
	*ret = TAKE_PTR(f);
	return 0;
}

void unwind_file_free(struct unwind_file *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	if (f->debug_fd >= 0)
		close(f->debug_fd);
	if (f->names_fd >= 0)
		close(f->names_fd);
	proc_root_unref(f->root);
	free(f->segments);
	free(f->placed);
	free((char *)f->module.path);
	free((char *)f->module.build_id_gnu);
	free((char *)f->module.build_id_go);
	free((char *)f->module.htlhash);
	free(f);
}
