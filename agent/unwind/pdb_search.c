// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/pdb_search.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "agent/base/fs.h"
#include "agent/proc/beneath.h"
#include "agent/proc/maps.h"
#include "agent/proc/root.h"

#define PATIENCE_MS 1000u      /* for a file system */
#define NO_ADDRESS (1ll << 56) /* no process has memory there */
#define MAPPED_MAX 4096u       /* files */
#define READABLE (S_IRUSR | S_IRGRP | S_IROTH)

DEFINE_CLEANUP(struct proc_root *, proc_root_unref)

/* --- in another process */

/* The two strings follow: the assembly's path below the root, the name of the file. */
struct wish {
	uint64_t inode; /* of the assembly that is mapped */
};

/* Whether who made the assembly could have put the file there, and who may read it may read the file. */
static bool is_trusted(const struct stat *file, const struct stat *assembly)
{
	const bool same = file->st_uid == assembly->st_uid && file->st_gid == assembly->st_gid;

	return S_ISREG(file->st_mode) && file->st_dev == assembly->st_dev &&
	       (file->st_uid == 0 || file->st_uid == assembly->st_uid) && !(file->st_mode & S_IWOTH) &&
	       (file->st_mode & S_IROTH || (same && !(assembly->st_mode & ~file->st_mode & READABLE)));
}

/* The path of the file beside the assembly. 0; -EINVAL; -ENOMEM. */
static int path_beside(struct buf *ret, const char *assembly, const char *name)
{
	const char *slash = strrchr(assembly, '/');
	int r = slash && *name && !strchr(name, '/')
			? buf_append(ret, assembly, (size_t)(slash + 1 - assembly))
			: -EINVAL;

	return r == 0 ? buf_puts(ret, name) : r;
}

static int open_beside(int root_fd, const struct wish *wish, const char *assembly, const char *name)
{
	_cleanup_buf_ struct buf path = {0};
	_cleanup_close_ int assembly_fd = -1, path_fd = -1;
	struct stat file, st;
	int r = path_beside(&path, assembly, name);

	if (r < 0)
		return r;
	assembly_fd = proc_beneath_find(root_fd, assembly);
	if (assembly_fd < 0)
		return assembly_fd;
	if (fstat(assembly_fd, &st) < 0 || st.st_ino != wish->inode)
		return -ESTALE;
	path_fd = proc_beneath_find(root_fd, buf_str(&path));
	if (path_fd < 0)
		return path_fd;
	if (fstat(path_fd, &file) < 0 || !is_trusted(&file, &st))
		return -EPERM;
	return proc_beneath_reopen(path_fd, &file);
}

static int run(struct parser_job *job)
{
	struct flat_reader request = flat_read(job->request, job->request_len);
	_cleanup_close_ int fd = -1;
	const char *assembly, *name;
	struct wish wish;

	flat_get(&request, &wish, sizeof wish);
	assembly = flat_string(&request);
	name = flat_string(&request);
	if (!flat_done(&request) || job->n_fds != 2)
		return -EINVAL;
	fd = open_beside(job->fds[0], &wish, assembly, name);
	return fd < 0 ? fd : parser_fd_send(job->fds[1], fd);
}

const struct parser_operation pdb_open_operation = {
	.name = "lines of .NET", .answer_max = 0, .run = run, .opens = true};

/* --- in the agent, on a worker thread */

/* Where a file is mapped from its beginning on. */
struct pdb_mapped {
	uint64_t base, inode;
	char *path; /* owned */
};

static int take_mapped(const struct proc_maps_line *line, void *data)
{
	struct pdb_search *s = data;
	struct pdb_mapped x = {.base = line->start, .inode = line->inode};
	int r;

	if (line->offset || !line->inode || line->deleted || s->n == MAPPED_MAX)
		return 0;
	r = array_reserve(&s->mapped, &s->cap, s->n + 1, sizeof s->mapped[0]);
	if (r == 0)
		r = proc_maps_path(line, &x.path);
	if (r == 0)
		s->mapped[s->n++] = x;
	return r == -ENOENT ? 0 : r;
}

void pdb_search_fini(struct pdb_search *s)
{
	while (s->n)
		free(s->mapped[--s->n].path);
	free(s->mapped);
	s->mapped = NULL;
	s->cap = 0;
	s->has_maps = false;
}

/* What is mapped at `base`; NULL: no file from its beginning on. Mappings are in ascending order. */
static const struct pdb_mapped *find_mapped(const struct pdb_search *s, uint64_t base)
{
	const size_t i = array_first(s->n, k, s->mapped[k].base >= base);

	return i < s->n && s->mapped[i].base == base ? &s->mapped[i] : NULL;
}

/* Whether the memory is still that of a process: else the pid may be another's. */
static bool is_alive(int mem)
{
	char byte;

	return pread(mem, &byte, 1, NO_ADDRESS) < 0;
}

static int call_opener(const struct proc_root *root, const struct pdb_mapped *x, const char *name, int to)
{
	struct parser_call call = {.operation = &pdb_open_operation,
				   .fds = {root->fd, to},
				   .n_fds = 2,
				   .patience_ms = PATIENCE_MS};
	const struct wish wish = {.inode = x->inode};
	_cleanup_buf_ struct buf none = {0};
	int r = buf_append(&call.request, &wish, sizeof wish);

	if (r == 0)
		r = flat_put_string(&call.request, proc_root_strip(root, x->path));
	if (r == 0)
		r = flat_put_string(&call.request, name);
	if (r == 0)
		r = parser_call(&call, &none);
	buf_fini(&call.request);
	return r;
}

/* Has the file sent to `to`. */
static int search(struct pdb_search *s, uint64_t base, const char *name, int to)
{
	_cleanup_(proc_root_unref_p) struct proc_root *root = NULL;
	_cleanup_close_ int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct pdb_mapped *x;
	int r = proc < 0 ? -errno : 0;

	if (r == 0 && !s->has_maps) {
		pdb_search_fini(s); /* what was read before an error */
		r = proc_maps_read_all(proc, s->pid, take_mapped, s);
		s->has_maps = r >= 0;
	}
	if (r < 0)
		return r;
	x = find_mapped(s, base);
	if (!x)
		return -ENOENT;
	r = proc_root_open(&root, proc, s->pid);
	if (r == 0 && !is_alive(s->mem))
		r = -ESRCH;
	return r == 0 ? call_opener(root, x, name, to) : r;
}

static bool is_absent(const struct pdb_absent *a, uint64_t base)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (a->base[i] == base)
			return true;
	return a->n == PDB_ABSENT_MAX;
}

/* A file system that does not answer is not waited for again. */
static void take_result(struct pdb_search *s, uint64_t base, int r)
{
	if (r == 0)
		s->opened++;
	else if (r == -ETIMEDOUT)
		s->absent->n = PDB_ABSENT_MAX;
	else if (!fs_is_short(r))
		s->absent->base[s->absent->n++] = base;
}

int pdb_search_answer(const void *query, size_t len, void *data)
{
	struct pdb_search *s = data;
	struct flat_reader from = flat_read(query, len);
	_cleanup_close_ int ours = -1, its = -1;
	char name[PDB_NAME_MAX + 1];
	struct pdb_query q;
	int sockets[2], r;

	flat_get(&from, &q, sizeof q);
	len = (size_t)(from.end - from.at);
	if (from.bad || !len || len > PDB_NAME_MAX || memchr(from.at, 0, len))
		return -EINVAL;
	memcpy(name, from.at, len);
	name[len] = '\0';
	if (is_absent(s->absent, q.base))
		return -ENOENT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -errno;
	ours = sockets[0];
	its = sockets[1];
	r = search(s, q.base, name, ours);
	take_result(s, q.base, r);
	return r < 0 ? r : TAKE_FD(its);
}
