// SPDX-License-Identifier: Apache-2.0
/*
 * Mapping → open file → file index. The file is opened when the mapping is heard of: a short-lived process
 * takes its /proc entry, a container its root file system with it. What is gone already is looked for by
 * build id.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/elf/image.h"
#include "agent/probe/sideband.h"
#include "agent/proc/maps.h"
#include "agent/proc/open.h"
#include "agent/proc/root.h"
#include "agent/track_private.h"

#define VDSO_NAME "[vdso]"
#define VDSO_MAX_BYTES 16384u /* more than any kernel's; the part that is mapped is copied */

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

/* The vDSO is the same memory in every process of an architecture, and there is no file of it: take our own
 * copy. */
int track_vdso_add(struct track *t)
{
	const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_close_ int fd = -1;
	struct stat st;
	size_t n = 0;

	if (!vdso)
		return 0;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* page by page: the write of an address that is not mapped fails instead of killing us */
	while (n < VDSO_MAX_BYTES && write(fd, vdso + n, 4096) == 4096)
		n += 4096;
	if (fstat(fd, &st) < 0)
		return -errno;
	return unwind_cache_add(t->cache, TAKE_FD(fd), &st, VDSO_NAME, &t->vdso);
}

struct expected_id {
	const uint8_t *bytes;
	size_t len;
};

static bool build_id_is(int fd, void *data)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	const struct expected_id *want = data;
	uint8_t id[BUILD_ID_MAX];

	if (elf_image_open(&img, fd) < 0)
		return false;
	/* the kernel pads shorter ids with zeros and counts them */
	return elf_image_build_id(img, id) <= want->len &&
	       memcmp(id, want->bytes, elf_image_build_id(img, id)) == 0;
}

/* Is the mapping's name that of a file at all? */
static bool is_file_name(const char *name)
{
	return name[0] == '/' && strncmp(name, "//anon", 6) != 0 && strncmp(name, "/dev/zero", 9) != 0 &&
	       strncmp(name, "/SYSV", 5) != 0 && strncmp(name, "/anon_hugepage", 14) != 0;
}

static uint32_t by_build_id(const struct track *t, const struct expected_id *id)
{
	char hex[2 * SIDEBAND_BUILD_ID_MAX + 1];

	for (size_t i = 0; i < id->len; i++)
		snprintf(hex + 2 * i, 3, "%02x", id->bytes[i]);
	return id->len ? unwind_cache_find(t->cache, hex) : 0;
}

/* Files of one process come together: its root is opened once. NULL when it is gone. */
static struct proc_root *root_of(struct track *t, uint32_t pid)
{
	if (t->root && t->root_pid == pid)
		return t->root;
	track_root_forget(t);
	if (proc_root_open(&t->root, t->proc_fd, pid) < 0)
		return NULL;
	t->root_pid = pid;
	return t->root;
}

void track_root_forget(struct track *t)
{
	proc_root_unref(TAKE_PTR(t->root));
}

static void debug_file_place(struct track *t, uint32_t pid, uint32_t index)
{
	struct proc_root *root;

	if (!t->options.debug_files || !unwind_cache_wants_root(t->cache, index))
		return;
	root = root_of(t, pid);
	if (root)
		unwind_cache_set_root(t->cache, index, root);
}

static uint32_t file_open(struct track *t, const struct proc_open_request *req, const struct expected_id *id)
{
	struct proc_opened opened;
	uint32_t index;
	int r = proc_open_mapping(t->proc_fd, req, &opened);

	if (r < 0) {
		index = id ? by_build_id(t, id) : 0;
		if (!index && (r == -ESRCH || r == -ENOENT))
			t->stats.open_gone++;
		else if (!index)
			t->stats.open_failed++;
		return index ?: PROC_FILE_NONE;
	}
	t->stats.opened++;
	if (unwind_cache_add(t->cache, opened.fd, &opened.st, req->path, &index) < 0)
		return PROC_FILE_NONE; /* at the maximum of files: counted there */
	debug_file_place(t, req->pid, index);
	return index;
}

uint32_t track_file_of_line(struct track *t, uint32_t pid, const struct proc_maps_line *line,
			    const char *path)
{
	struct proc_open_request req = {
		.pid = pid,
		.start = line->start,
		.end = line->end,
		.path = path,
		.deleted = line->deleted,
		.has_inode = line->inode != 0,
		.inode = line->inode,
		.dev_major = line->dev_major,
		.dev_minor = line->dev_minor,
	};

	if (strcmp(path, VDSO_NAME) == 0)
		return t->vdso;
	return is_file_name(path) ? file_open(t, &req, NULL) : PROC_FILE_NONE;
}

uint32_t track_file_of_event(struct track *t, const struct sideband_event *e)
{
	struct expected_id id = {e->mmap.build_id, e->mmap.build_id_len};
	struct proc_open_request req = {
		.pid = e->pid,
		.start = e->mmap.start,
		.end = e->mmap.start + e->mmap.len,
		.path = e->name,
		.has_inode = !e->mmap.has_build_id && e->mmap.inode,
		.inode = e->mmap.inode,
		.dev_major = e->mmap.dev_major,
		.dev_minor = e->mmap.dev_minor,
		.check = e->mmap.has_build_id ? build_id_is : NULL,
		.check_data = &id,
	};

	if (strcmp(e->name, VDSO_NAME) == 0)
		return t->vdso;
	return is_file_name(e->name) ? file_open(t, &req, e->mmap.has_build_id ? &id : NULL) : PROC_FILE_NONE;
}
