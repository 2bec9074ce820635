// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/pdb_search.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/flat.h"
#include "agent/proc/beneath.h"
#include "agent/proc/maps.h"
#include "agent/proc/root.h"

#define PATIENCE_MS 1000u      /* for a file system */
#define NO_ADDRESS (1ll << 56) /* no process has memory there */
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

struct mapped {
	uint64_t base, inode;
	char *path; /* owned; NULL: not found */
};

static int find_mapped(const struct proc_maps_line *line, void *data)
{
	struct mapped *x = data;
	int r;

	if (line->start != x->base)
		return 0;
	x->inode = line->inode;
	r = line->offset || !line->inode || line->deleted ? -ENOENT : proc_maps_path(line, &x->path);
	return r < 0 ? r : -EALREADY;
}

/* Whether the memory is still that of a process: else the pid may be another's. */
static bool is_alive(int mem)
{
	char byte;

	return pread(mem, &byte, 1, NO_ADDRESS) < 0;
}

static int call_opener(const struct proc_root *root, const struct mapped *x, const char *name, int to)
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

/* Opens the root of the process, and has the file sent to `to`. */
static int search(const struct pdb_search *s, struct mapped *x, const char *name, int to)
{
	_cleanup_(proc_root_unref_p) struct proc_root *root = NULL;
	_cleanup_close_ int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = proc < 0 ? -errno : proc_maps_read_all(proc, s->pid, find_mapped, x);

	if (r != -EALREADY)
		return r < 0 ? r : -ENOENT;
	r = proc_root_open(&root, proc, s->pid);
	if (r == 0 && !is_alive(s->mem))
		r = -ESRCH;
	return r == 0 ? call_opener(root, x, name, to) : r;
}

/* Errors after which it is worth while to try again. */
static bool is_passing(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -EAGAIN;
}

static bool is_absent(const struct pdb_absent *a, uint64_t base)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (a->base[i] == base)
			return true;
	return a->n == PDB_ABSENT_MAX;
}

int pdb_search_answer(const void *query, size_t len, void *data)
{
	const struct pdb_search *s = data;
	struct flat_reader from = flat_read(query, len);
	_cleanup_close_ int ours = -1, its = -1;
	struct mapped x = {0};
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
	x.base = q.base;
	r = search(s, &x, name, ours);
	free(x.path);
	if (r < 0 && !is_passing(r))
		s->absent->base[s->absent->n++] = q.base;
	return r < 0 ? r : TAKE_FD(its);
}
