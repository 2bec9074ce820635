// SPDX-License-Identifier: Apache-2.0
/*
 * Mapping → open file → file index. The file is opened when the mapping is heard of: a short-lived process
 * takes its /proc entry, a container its root file system with it. Where that takes long, the mapping has a
 * ticket in place of the file; it is not published, so what lies there waits for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/probe/sideband.h"
#include "agent/proc/maps.h"
#include "agent/proc/history.h"
#include "agent/track/track_ask.h"
#include "agent/track/track_open.h"
#include "agent/track/track_private.h"

#define VDSO_NAME "[vdso]"
#define VDSO_MAX_BYTES 16384u /* more than any kernel's; the part that is mapped is copied */

/* The vDSO is the same memory in every process of an architecture, and there is no file of it: take our own
 * copy. */
int track_vdso_add(struct track *t)
{
	const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_close_ int fd = -1;
	struct stat st;
	size_t n = 0;
	int r;

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
	r = binary_registry_add(t->binaries, TAKE_FD(fd), &st, VDSO_NAME, &t->vdso);
	if (r == 0)
		unwind_tables_add(t->tables, t->vdso);
	return r;
}

/* Is the mapping's name that of a file at all? */
bool track_file_named(const char *name)
{
	return name[0] == '/' && strncmp(name, "//anon", 6) != 0 && strncmp(name, "/dev/zero", 9) != 0 &&
	       strncmp(name, "/SYSV", 5) != 0 && strncmp(name, "/anon_hugepage", 14) != 0;
}

/* The opening of one mapping's file. */
struct file_ask {
	struct ask ask;
	struct opening opening;
	struct process *process; /* one reference */
	uint32_t ticket;
};

static void file_run(struct ask *a)
{
	opening_run(&container_of(a, struct file_ask, ask)->opening, a->proc_fd, &a->watch);
}

static bool file_again(struct track *t, struct ask *a)
{
	return opening_again(t, &container_of(a, struct file_ask, ask)->opening);
}

static void file_free(struct ask *a)
{
	struct file_ask *f = container_of(a, struct file_ask, ask);

	opening_fini(&f->opening);
	process_unref(f->process);
	free(f);
}

#define LAG_NS (60 * NS_PER_SEC) /* more than events are ever late */

struct resolving {
	struct track *t;
	const struct file_ask *ask;
	uint32_t ticket, file;
};

/* Lists may be shared: the first who has one resolves it, and all of them are published again. */
static void resolve_process(struct process *p, void *data)
{
	struct resolving *r = data;

	if (p != r->ask->process && p->start_ns + LAG_NS < r->ask->ask.asked_ns)
		return; /* nobody's fork since */
	proc_history_replace_file(p, r->ticket, r->file);
	(void)proc_maps_replace_file(p->maps, r->ticket, r->file);
	if (!p->end_ns && publisher_outdated(r->t->publisher, p->maps))
		track_mark_dirty(r->t, p->pid);
}

/* What the ticket stands for is known: in the lists of the process, and of those that it has forked since. */
static void resolve(struct track *t, const struct file_ask *f, uint32_t file)
{
	struct resolving r = {.t = t, .ask = f, .ticket = f->ticket, .file = file};

	resolve_process(f->process, &r);
	proc_table_each(t->table, resolve_process, &r);
	t->epoch++; /* samples of a process that has ended wait as well */
}

static void file_late(struct track *t, struct ask *a)
{
	struct file_ask *f = container_of(a, struct file_ask, ask);

	resolve(t, f, opening_settle(t, &f->opening));
}

static void file_give_up(struct track *t, struct ask *a)
{
	t->stats.open_stuck++;
	resolve(t, container_of(a, struct file_ask, ask), PROC_FILE_NONE);
}

static const struct ask_kind file_kind = {
	.what = "opening a file that it has mapped",
	.run = file_run,
	.again = file_again,
	.late = file_late,
	.give_up = file_give_up,
	.free = file_free,
};

static uint32_t ticket_new(struct track *t)
{
	t->ticket = (t->ticket + 1) & ~PROC_FILE_OPENING;
	return t->ticket | PROC_FILE_OPENING;
}

/* `id`: the build id that the file must have, `id_len` 0: not known. */
static uint32_t file_open(struct track *t, const struct proc_open_request *req, const uint8_t *id,
			  uint8_t id_len)
{
	struct process *p = proc_table_get(t->table, req->pid);
	struct file_ask *f = p ? calloc(1, sizeof *f) : NULL;
	uint32_t file = PROC_FILE_NONE;

	if (!f)
		return PROC_FILE_NONE;
	f->process = process_ref(p);
	f->opening.build_id_len = id_len;
	if (id_len)
		memcpy(f->opening.build_id, id, id_len);
	if (opening_init(&f->opening, t, req) < 0) {
		file_free(&f->ask);
		return PROC_FILE_NONE;
	}
	switch (track_ask(t, &f->ask, &file_kind, req->pid)) {
	case ASK_LATER:
		return f->ticket = ticket_new(t);
	case ASK_HERE:
		break;
	case ASK_NEVER:
		f->opening.error = -ETIMEDOUT;
		break;
	}
	file = opening_settle(t, &f->opening);
	file_free(&f->ask);
	return file;
}

void track_request_of_line(struct proc_open_request *ret, uint32_t pid, const struct proc_maps_line *line,
			   const char *path)
{
	*ret = (struct proc_open_request){
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
}

uint32_t track_file_of_line(struct track *t, uint32_t pid, const struct proc_maps_line *line,
			    const char *path)
{
	struct proc_open_request req;

	if (strcmp(path, VDSO_NAME) == 0)
		return t->vdso;
	track_request_of_line(&req, pid, line, path);
	return track_file_named(path) ? file_open(t, &req, NULL, 0) : PROC_FILE_NONE;
}

uint32_t track_file_of_event(struct track *t, const struct sideband_event *e)
{
	struct proc_open_request req = {
		.pid = e->pid,
		.start = e->mmap.start,
		.end = e->mmap.start + e->mmap.len,
		.path = e->name,
		.has_inode = !e->mmap.has_build_id && e->mmap.inode,
		.inode = e->mmap.inode,
		.dev_major = e->mmap.dev_major,
		.dev_minor = e->mmap.dev_minor,
	};

	if (strcmp(e->name, VDSO_NAME) == 0)
		return t->vdso;
	if (!track_file_named(e->name))
		return PROC_FILE_NONE;
	return file_open(t, &req, e->mmap.build_id, e->mmap.has_build_id ? e->mmap.build_id_len : 0);
}
