// SPDX-License-Identifier: Apache-2.0
/*
 * For the tests of agent/proc: a directory that replaces a procfs, and children that wait until they are
 * killed. All steps are asserted here, so a test reads as what it tests.
 */
#ifndef TESTS_UNIT_AGENT_PROC_TREE_H
#define TESTS_UNIT_AGENT_PROC_TREE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/cleanup.h"

#define UNUSED __attribute__((unused))

struct tree {
	char path[64];
	int fd;
};

UNUSED static void tree_make(struct tree *t)
{
	strcpy(t->path, "/tmp/test_proc.XXXXXX");
	cr_assert(mkdtemp(t->path));
	t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(t->fd, 0);
}

/* Creates the folders in the path `name`. */
UNUSED static void tree_parents(const struct tree *t, const char *name)
{
	char path[256];

	snprintf(path, sizeof path, "%s", name);
	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		cr_assert(mkdirat(t->fd, path, 0755) == 0 || errno == EEXIST);
		*slash = '/';
	}
}

UNUSED static void tree_dir(const struct tree *t, const char *name)
{
	tree_parents(t, name);
	cr_assert_eq(mkdirat(t->fd, name, 0755), 0);
}

UNUSED static void tree_file(const struct tree *t, const char *name, const void *data, size_t len)
{
	_cleanup_close_ int fd = -1;

	tree_parents(t, name);
	fd = openat(t->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, data, len), (ssize_t)len);
}

UNUSED static void tree_text(const struct tree *t, const char *name, const char *text)
{
	tree_file(t, name, text, strlen(text));
}

UNUSED static void tree_link(const struct tree *t, const char *name, const char *target)
{
	tree_parents(t, name);
	cr_assert_eq(symlinkat(target, t->fd, name), 0);
}

static int tree_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

UNUSED static void tree_remove(struct tree *t)
{
	close(t->fd);
	cr_assert_eq(nftw(t->path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT), 0);
}

UNUSED static int proc_root(void)
{
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	return fd;
}

struct child {
	pid_t pid;
	int ready; /* -errno, or the result of the child's setup */
};

/* Starts a child that runs setup(data), reports its result, and waits to be killed. It dies with the test. */
UNUSED static struct child child_start(int (*setup)(void *data), void *data)
{
	struct child c;
	int fds[2];

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	c.pid = fork();
	cr_assert_geq(c.pid, 0);
	if (c.pid == 0) {
		int r;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		r = setup ? setup(data) : 0;
		if (write(fds[1], &r, sizeof r) != sizeof r)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	cr_assert_eq(read(fds[0], &c.ready, sizeof c.ready), (ssize_t)sizeof c.ready);
	close(fds[0]);
	return c;
}

UNUSED static void child_stop(struct child *c)
{
	int status;

	cr_assert_eq(kill(c->pid, SIGKILL), 0);
	cr_assert_eq(waitpid(c->pid, &status, 0), c->pid);
}

#endif
