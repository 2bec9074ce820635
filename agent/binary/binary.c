// SPDX-License-Identifier: Apache-2.0
#include "agent/binary/binary.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/proc/root.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
DEFINE_CLEANUP(struct binary *, binary_free)

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

/* Sets the executable range, in ELF virtual addresses; for a file that is not ELF it is all of the file. */
static void module_range(struct binary *b)
{
	bool any = false;

	b->module.limit = b->size;
	for (size_t i = 0; i < b->n_segments; i++) {
		const struct elf_segment *s = &b->segments[i];

		if (!s->executable)
			continue;
		if (!any || s->va < b->module.start) {
			b->module.start = s->va;
			b->module.file_offset = s->offset;
		}
		if (!any || s->va + s->mem_bytes > b->module.limit)
			b->module.limit = s->va + s->mem_bytes;
		any = true;
	}
}

static int read_elf(struct binary *b)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	const struct elf_segment *segments;
	uint8_t id[BUILD_ID_MAX];
	char hash[33];
	const char *go;
	size_t n;
	int r = elf_image_open(&img, b->fd);

	if (r == -ENOMEM)
		return r;
	if (r < 0) /* mapped executable, but no ELF file: its addresses are file offsets */
		return 0;
	segments = elf_image_segments(img, &n);
	if (n) {
		b->segments = malloc(n * sizeof *segments);
		if (!b->segments)
			return -ENOMEM;
		memcpy(b->segments, segments, n * sizeof *segments);
		b->n_segments = n;
	}
	n = elf_image_build_id(img, id);
	if (n && !(b->module.build_id_gnu = hex(id, n)))
		return -ENOMEM;
	go = elf_image_go_build_id(img);
	if (go && !(b->module.build_id_go = strdup(go)))
		return -ENOMEM;
	if (!n && !go && elf_image_htlhash(img, hash) == 0 && !(b->module.htlhash = strdup(hash)))
		return -ENOMEM;
	b->module.go = go || elf_image_has(img, ".gopclntab") || elf_image_has(img, ".data.rel.ro.gopclntab");
	return 0;
}

/* Most file systems on disks have inode generations that can be read; overlayfs, tmpfs and others do not. */
static void read_generation(struct binary *b)
{
	_cleanup_close_ int fd = fs_reopen(b->fd);
	int generation = 0;

	b->has_generation = fd >= 0 && ioctl(fd, FS_IOC_GETVERSION, &generation) == 0;
	b->generation = (uint32_t)generation;
}

int binary_new(struct binary **ret, int fd, const struct stat *st, const char *path)
{
	_cleanup_(binary_free_p) struct binary *b = calloc(1, sizeof *b);
	const char *slash;
	int r;

	if (!b)
		return -ENOMEM;
	b->fd = b->debug_fd = b->names_fd = -1;
	b->module.path = strdup(path);
	if (!b->module.path)
		return -ENOMEM;
	slash = strrchr(b->module.path, '/');
	b->module.name = slash && slash[1] ? slash + 1 : b->module.path;
	b->fd = fd;
	b->size = (uint64_t)st->st_size;
	b->dev = st->st_dev;
	b->inode = st->st_ino;
	b->mtime = st->st_mtim;
	b->ctime = st->st_ctim;
	read_generation(b);
	r = read_elf(b);
	if (r < 0) {
		b->fd = -1; /* stays the caller's */
		return r;
	}
	module_range(b);
	*ret = TAKE_PTR(b);
	return 0;
}

void binary_free(struct binary *b)
{
	if (!b)
		return;
	if (b->fd >= 0)
		close(b->fd);
	if (b->debug_fd >= 0)
		close(b->debug_fd);
	if (b->names_fd >= 0)
		close(b->names_fd);
	proc_root_unref(b->root);
	free(b->segments);
	free((char *)b->module.path);
	free((char *)b->module.build_id_gnu);
	free((char *)b->module.build_id_go);
	free((char *)b->module.htlhash);
	free(b);
}
