// SPDX-License-Identifier: Apache-2.0
/*
 * What map_files gives is only named (O_PATH): most files are known by their stat(2), and a file that nobody
 * has open is one that its file system cannot hold us by, neither when it is closed nor at our exit.
 *
 * The file of a process that is gone already is looked for through its ancestors, which are mostly in the
 * same mount namespace, then among the files that are known, by build id or by device and inode. Where one of
 * that build id is known under the same path, that is it: thousands of short lives a second are such.
 */
#include "agent/track/track_open.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "agent/base/cleanup.h"
#include "agent/binary/registry.h"
#include "agent/elf/file/elf_image.h"
#include "agent/proc/root.h"
#include "agent/track/track_private.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)

static bool build_id_is(int fd, void *data)
{
	_cleanup_(elf_image_free_p) struct elf_image *img = NULL;
	const struct opening *o = data;
	uint8_t id[BUILD_ID_MAX];
	size_t n;

	if (elf_image_open(&img, fd) < 0)
		return false;
	n = elf_image_build_id(img, id);
	/* the kernel pads shorter ids with zeros and counts them */
	return n <= o->build_id_len && memcmp(id, o->build_id, n) == 0;
}

static void build_id_hex(const struct opening *o, char ret[2 * SIDEBAND_BUILD_ID_MAX + 1])
{
	ret[0] = '\0';
	for (size_t i = 0; i < o->build_id_len; i++)
		snprintf(ret + 2 * i, 3, "%02x", o->build_id[i]);
}

static bool file_is(const struct opening *o, const struct binary *f)
{
	char hex[2 * SIDEBAND_BUILD_ID_MAX + 1];
	const char *id = f->module.build_id_gnu;

	build_id_hex(o, hex);
	return !id || strncmp(hex, id, strlen(id)) == 0;
}

static void set_others(struct opening *o, const struct proc_table *table)
{
	const struct process *p = proc_table_get(table, o->req.pid);

	for (unsigned i = 0; p && i < OPENING_OTHERS; i++) {
		o->others[i] = p->parent_pid;
		p = p->parent_pid ? proc_table_get(table, p->parent_pid) : NULL;
	}
}

int opening_init(struct opening *o, const struct track *t, const struct proc_open_request *req)
{
	char hex[2 * SIDEBAND_BUILD_ID_MAX + 1];
	const struct binary *known = NULL;

	o->req = *req;
	o->opened.fd = -1;
	o->with_root = t->options.debug_files;
	o->path = strdup(req->path);
	if (!o->path)
		return -ENOMEM;
	o->req.path = o->path;
	o->req.unread = true;
	if (o->build_id_len) {
		o->req.check = build_id_is;
		build_id_hex(o, hex);
		known = binary_registry_get(t->binaries, binary_registry_find(t->binaries, hex));
		o->read = !known;
	}
	if (!known || strcmp(known->module.path, req->path) != 0)
		set_others(o, t->table);
	return 0;
}

void opening_fini(struct opening *o)
{
	if (o->opened.fd >= 0)
		close(o->opened.fd);
	binary_free(o->file);
	proc_root_unref(o->root);
	free(o->path);
	*o = (struct opening){.opened.fd = -1};
}

static bool is_gone(int error)
{
	return error == -ESRCH || error == -ENOENT;
}

static void find(struct opening *o, int proc_fd)
{
	o->tried = true;
	o->error = proc_open_mapping(proc_fd, &o->req, &o->opened);
	for (unsigned i = 0; i < OPENING_OTHERS && is_gone(o->error) && o->others[i]; i++)
		if (proc_open_other(proc_fd, o->others[i], &o->req, &o->opened) == 0)
			o->error = 0;
}

void opening_run(struct opening *o, int proc_fd, struct proc_open_watch *watch)
{
	uint32_t owner = o->req.pid;

	o->req.watch = watch;
	o->req.check_data = o;
	if (!o->tried)
		find(o, proc_fd);
	if (!o->read || o->error < 0 || o->file)
		return;
	o->error = binary_new(&o->file, o->opened.fd, &o->opened.st, o->path);
	if (o->error < 0)
		return;
	o->opened.fd = -1; /* the file's now */
	if (o->with_root && o->file->n_segments)
		(void)proc_root_open(&o->root, proc_fd, owner);
}

bool opening_again(struct track *t, struct opening *o)
{
	const struct binary *f;

	if (o->error < 0)
		return false;
	o->index = binary_registry_known(t->binaries, &o->opened.st);
	f = o->index ? binary_registry_get(t->binaries, o->index) : o->file;
	if (!f) {
		o->read = true;
		return true;
	}
	if (o->build_id_len && o->opened.way == PROC_OPEN_MAP_FILES && !file_is(o, f))
		o->error = -ESTALE; /* something else is mapped there by now */
	return false;
}

/* Among the files that are known. */
static uint32_t find_known(const struct track *t, const struct opening *o)
{
	char hex[2 * SIDEBAND_BUILD_ID_MAX + 1];

	build_id_hex(o, hex);
	if (o->build_id_len)
		return binary_registry_find(t->binaries, hex);
	if (!o->req.has_inode)
		return 0;
	return binary_registry_find_inode(t->binaries, makedev(o->req.dev_major, o->req.dev_minor),
					  o->req.inode);
}

static void count(struct track *t, const struct opening *o, uint32_t known)
{
	if (o->error == 0) {
		t->stats.opened++;
		t->stats.open_other += o->opened.way == PROC_OPEN_OTHER;
	} else if (known) {
		t->stats.open_known++;
	} else if (is_gone(o->error)) {
		t->stats.open_gone++;
	} else {
		t->stats.open_failed++;
	}
}

uint32_t opening_settle(struct track *t, struct opening *o)
{
	uint32_t index = o->error < 0 ? find_known(t, o) : o->index;

	count(t, o, index);
	if (index || o->error < 0)
		return index ?: PROC_FILE_NONE;
	if (binary_registry_enter(t->binaries, TAKE_PTR(o->file), &o->opened.st, &index) < 0)
		return PROC_FILE_NONE; /* at the maximum of files: counted there */
	if (o->root)
		binary_registry_set_root(t->binaries, index, o->root);
	unwind_tables_add(t->tables, index);
	return index;
}
