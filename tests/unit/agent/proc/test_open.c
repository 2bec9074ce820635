// SPDX-License-Identifier: Apache-2.0
/*
 * A real process: tests map_files against the path, with files that are deleted, replaced or have no name.
 * Roots are in test_open_root.c, errors in test_open_limits.c; test_open_tree.c has its own procfs.
 */
#include "tests/unit/agent/proc/mapped.h"

Test(open, by_map_files_then_by_path)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct mapped m;
	struct child c;
	int fds;

	mapped_make(&m);
	c = child_start(NULL, NULL);
	m.req.pid = (uint32_t)c.pid;
	need_map_files(proc_fd, &m, &c);
	fds = open_fds();
	expect_opened(proc_fd, &m.req, PROC_OPEN_MAP_FILES, OLD);
	m.req.start += 4096; /* no such mapping */
	m.req.end += 4096;
	expect_opened(proc_fd, &m.req, PROC_OPEN_ROOT, OLD);
	m.req.start = m.req.end = 0;
	expect_opened(proc_fd, &m.req, PROC_OPEN_ROOT, OLD);
	cr_expect_eq(open_fds(), fds);
	child_stop(&c);
	expect_error(proc_fd, &m.req, -ESRCH);
	mapped_remove(&m);
}

Test(open, deleted_file_by_map_files_only)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct mapped m;
	struct child c;
	int fds;

	mapped_make(&m);
	c = child_start(NULL, NULL);
	m.req.pid = (uint32_t)c.pid;
	need_map_files(proc_fd, &m, &c);
	cr_assert_eq(unlink(m.path), 0);
	munmap(m.page, 4096);
	fds = open_fds();
	expect_opened(proc_fd, &m.req, PROC_OPEN_MAP_FILES, OLD);
	m.req.deleted = true;
	expect_opened(proc_fd, &m.req, PROC_OPEN_MAP_FILES, OLD);
	m.req.path = NULL;
	expect_opened(proc_fd, &m.req, PROC_OPEN_MAP_FILES, OLD);
	m.req.path = m.path;
	m.req.deleted = false;
	m.req.start = m.req.end = 0;
	expect_error(proc_fd, &m.req, -ENOENT);
	cr_expect_eq(open_fds(), fds);
	child_stop(&c);
	tree_remove(&m.dir);
}

Test(open, memfd_by_map_files_only)
{
	_cleanup_close_ int proc_fd = proc_root(), fd = memfd_create("name", MFD_CLOEXEC);
	struct mapped m;
	struct child c;

	tree_make(&m.dir);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, OLD, strlen(OLD)), (ssize_t)strlen(OLD));
	strcpy(m.path, "/memfd:name (deleted)");
	map_fd(&m, fd);
	c = child_start(NULL, NULL);
	m.req.pid = (uint32_t)c.pid;
	need_map_files(proc_fd, &m, &c);
	expect_opened(proc_fd, &m.req, PROC_OPEN_MAP_FILES, OLD);
	m.req.start = m.req.end = 0;
	expect_error(proc_fd, &m.req, -ENOENT);
	child_stop(&c);
	mapped_remove(&m);
}

Test(open, replaced_file)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct mapped m;
	struct child c;

	mapped_make(&m);
	c = child_start(NULL, NULL);
	m.req.pid = (uint32_t)c.pid;
	need_map_files(proc_fd, &m, &c);
	tree_text(&m.dir, "new", NEW);
	cr_assert_eq(renameat(m.dir.fd, "new", m.dir.fd, "lib.so"), 0);
	expect_opened(proc_fd, &m.req, PROC_OPEN_MAP_FILES, OLD);
	m.req.start = m.req.end = 0;
	expect_error(proc_fd, &m.req, -ESTALE);
	child_stop(&c);
	mapped_remove(&m);
}

/* The middle one of three pages is left, as after the loader's other segments; the file is deleted, too. */
Test(open, rest_of_a_mapping)
{
	_cleanup_close_ int proc_fd = proc_root(), fd = -1;
	struct mapped m;
	struct child c;
	int fds;

	mapped_make(&m);
	munmap(m.page, 4096);
	fd = open(m.path, O_RDONLY | O_CLOEXEC);
	m.page = mmap(NULL, 3 * 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	cr_assert_neq(m.page, MAP_FAILED);
	m.req.start = (uint64_t)(uintptr_t)m.page;
	m.req.end = m.req.start + 3 * 4096;
	cr_assert_eq(mprotect(m.page, 4096, PROT_NONE), 0);
	cr_assert_eq(munmap((char *)m.page + 2 * 4096, 4096), 0);
	c = child_start(NULL, NULL);
	m.req.pid = (uint32_t)c.pid;
	cr_assert_eq(unlink(m.path), 0);
	fds = open_fds();
	if (geteuid() == 0)
		expect_opened(proc_fd, &m.req, PROC_OPEN_MAP_FILES, OLD);
	m.req.inode++; /* of another file */
	expect_error(proc_fd, &m.req, -ENOENT);
	m.req.has_inode = false;
	expect_error(proc_fd, &m.req, -ENOENT);
	cr_expect_eq(open_fds(), fds);
	child_stop(&c);
	munmap(m.page, 2 * 4096);
	tree_remove(&m.dir);
}

/* Another file is mapped in the range: map_files gives that one, the path still gives the right one. */
Test(open, range_mapped_anew)
{
	_cleanup_close_ int proc_fd = proc_root(), fd = -1;
	struct mapped m;
	struct child c;

	mapped_make(&m);
	tree_text(&m.dir, "other.so", NEW);
	fd = openat(m.dir.fd, "other.so", O_RDONLY | O_CLOEXEC);
	cr_assert_neq(mmap(m.page, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0), MAP_FAILED);
	c = child_start(NULL, NULL);
	m.req.pid = (uint32_t)c.pid;
	need_map_files(proc_fd, &m, &c);
	expect_opened(proc_fd, &m.req, PROC_OPEN_ROOT, OLD);
	m.req.path = NULL;
	expect_error(proc_fd, &m.req, -ESTALE);
	child_stop(&c);
	mapped_remove(&m);
}
