// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "cgroup/id.h"

static const struct cgroup_observer outside = {.base = NULL};

#define A "2227daf62df6694645fee5df53c1f91271546a9560e8600a525690ae252b7f63"

struct tree {
	char path[64];
	int fd;
};

/* A directory that replaces procfs: one directory per pid with a file "cgroup". */
static void tree_make(struct tree *t)
{
	strcpy(t->path, "/tmp/test_id.XXXXXX");
	cr_assert(mkdtemp(t->path));
	t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(t->fd, 0);
}

static void tree_add(struct tree *t, const char *pid, const void *text, size_t len)
{
	char path[128];

	cr_assert_eq(mkdirat(t->fd, pid, 0700), 0);
	snprintf(path, sizeof path, "%s/%s/cgroup", t->path, pid);
	cr_assert_eq(fs_write_file(path, text, len), 0);
}

static void tree_remove(struct tree *t, const char *pid)
{
	char path[128];

	snprintf(path, sizeof path, "%s/cgroup", pid);
	unlinkat(t->fd, path, 0);
	unlinkat(t->fd, pid, AT_REMOVEDIR);
	close(t->fd);
	rmdir(t->path);
}

Test(id, of_this_process_equals_its_file)
{
	_cleanup_buf_ struct buf text = {0};
	struct cgroup_identity read, parsed;

	cr_assert_eq(fs_read_file("/proc/self/cgroup", 1 << 20, &text), 0);
	cgroup_path_parse((const char *)text.data, text.len, &outside, &parsed);
	memset(&read, 0xaa, sizeof read);
	cr_assert_eq(cgroup_id_read(-1, getpid(), &outside, &read), 0);
	cr_expect_str_eq(read.container_id, parsed.container_id);
	cr_expect_str_eq(read.pod_uid, parsed.pod_uid);
	cr_expect_str_eq(read.unit, parsed.unit);
	cr_expect_eq(read.runtime, parsed.runtime);
}

Test(id, of_a_process_that_has_ended)
{
	struct cgroup_identity id = {.unit = "untouched"};
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	cr_assert_gt(child, 0);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	cr_expect_eq(cgroup_id_read(-1, child, &outside, &id), -ESRCH);
	cr_expect_str_eq(id.unit, "untouched");
}

Test(id, under_another_procfs)
{
	static const char text[] = "0::/system.slice/docker-" A ".scope\n";
	struct cgroup_identity id;
	struct tree t;

	tree_make(&t);
	tree_add(&t, "77", text, strlen(text));
	cr_expect_eq(cgroup_id_read(t.fd, 77, &outside, &id), 0);
	cr_expect_str_eq(id.container_id, A);
	cr_expect_eq(id.runtime, CGROUP_RUNTIME_DOCKER);
	cr_expect_eq(cgroup_id_read(t.fd, 78, &outside, &id), -ESRCH);
	tree_remove(&t, "77");
}

Test(id, file_without_end)
{
	_cleanup_free_ char *text = calloc(1, 1 << 20);
	struct cgroup_identity id = {.unit = "untouched"};
	struct tree t;

	tree_make(&t);
	memset(text, 'x', 1 << 20);
	tree_add(&t, "5", text, 1 << 20);
	cr_expect_eq(cgroup_id_read(t.fd, 5, &outside, &id), -EFBIG);
	cr_expect_str_eq(id.unit, "untouched");
	tree_remove(&t, "5");
}
