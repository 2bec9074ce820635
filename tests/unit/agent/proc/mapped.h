// SPDX-License-Identifier: Apache-2.0
/*
 * For the tests of agent/proc/open: a file that is mapped, and the expected result of an attempt to open it.
 */
#ifndef TESTS_UNIT_AGENT_PROC_MAPPED_H
#define TESTS_UNIT_AGENT_PROC_MAPPED_H

#include "tests/unit/agent/proc/tree.h"

#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "agent/proc/open.h"

#define OLD "the file that is mapped"
#define NEW "another file of that name"

/* Maps a file executable in this process, and so in each child that it forks. */
struct mapped {
	struct tree dir;
	char path[128];
	void *page;
	struct proc_open_request req;
};

UNUSED static void request_inode(struct proc_open_request *req, const struct stat *st)
{
	req->has_inode = true;
	req->inode = st->st_ino;
	req->dev_major = major(st->st_dev);
	req->dev_minor = minor(st->st_dev);
}

UNUSED static void map_fd(struct mapped *m, int fd)
{
	struct stat st;

	m->page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	cr_assert_neq(m->page, MAP_FAILED);
	cr_assert_eq(fstat(fd, &st), 0);
	m->req = (struct proc_open_request){.start = (uint64_t)(uintptr_t)m->page, .path = m->path};
	m->req.end = m->req.start + 4096;
	request_inode(&m->req, &st);
}

UNUSED static void mapped_make(struct mapped *m)
{
	_cleanup_close_ int fd = -1;

	tree_make(&m->dir);
	tree_text(&m->dir, "lib.so", OLD);
	snprintf(m->path, sizeof m->path, "%s/lib.so", m->dir.path);
	fd = open(m->path, O_RDONLY | O_CLOEXEC);
	map_fd(m, fd);
}

/* Also removes the mapping from this process, so that only the children have it. */
UNUSED static void mapped_remove(struct mapped *m)
{
	munmap(m->page, 4096);
	tree_remove(&m->dir);
}

UNUSED static void expect_content(const struct proc_opened *o, enum proc_open_way way, const char *text)
{
	char got[64] = "";

	cr_expect_str_eq(proc_open_way_name(o->way), proc_open_way_name(way));
	cr_expect_eq(lseek(o->fd, 0, SEEK_CUR), 0);
	cr_expect_eq(read(o->fd, got, sizeof got - 1), (ssize_t)strlen(text));
	cr_expect_str_eq(got, text);
	cr_expect_eq(o->st.st_size, (off_t)strlen(text));
	cr_expect_eq(fcntl(o->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	cr_expect_eq(fcntl(o->fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(o->fd);
}

UNUSED static void expect_opened(int proc_fd, const struct proc_open_request *req, enum proc_open_way way,
				 const char *text)
{
	struct proc_opened o = {.fd = -1};
	int r = proc_open_mapping(proc_fd, req, &o);

	cr_assert_eq(r, 0, "%s", strerror(-r));
	expect_content(&o, way, text);
}

UNUSED static void expect_error(int proc_fd, const struct proc_open_request *req, int error)
{
	struct proc_opened o = {.fd = -77};
	int r = proc_open_mapping(proc_fd, req, &o);

	cr_expect_eq(r, error, "got %d, not %d", r, error);
	cr_expect_eq(o.fd, -77, "written on failure");
}

/* Counts open descriptors; a leak shows as a difference. */
UNUSED static int open_fds(void)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	cr_assert(dir);
	for (struct dirent *e = readdir(dir); e; e = readdir(dir))
		n++;
	return n;
}

UNUSED static bool map_files_work(int proc_fd, const struct mapped *m, pid_t pid)
{
	char link[96], target[256];

	snprintf(link, sizeof link, "%d/map_files/%llx-%llx", pid, (unsigned long long)m->req.start,
		 (unsigned long long)m->req.end);
	return geteuid() == 0 && readlinkat(proc_fd, link, target, sizeof target) > 0;
}

#define need_map_files(proc_fd, m, c)                                                                      \
	do {                                                                                               \
		if (!map_files_work(proc_fd, m, (c)->pid)) {                                               \
			child_stop(c);                                                                     \
			mapped_remove(m);                                                                  \
			cr_skip("map_files may not be read here (root or CAP_CHECKPOINT_RESTORE needed)"); \
		}                                                                                          \
	} while (0)

#endif
