// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/agent/proc/tree.h"

#include <sched.h>
#include <sys/mount.h>

#include "agent/proc/root.h"
#include "agent/proc/system_file.h"

#define PATH "/usr/lib/deep/libx.so"

struct system {
	struct tree tree;
	struct proc_root *root;
	int fd; /* of PATH */
};

/* The root of a process in the host's mount namespace. Needs root: whose files they are is what is tested. */
static void make(struct system *s)
{
	int fd;

	if (geteuid() != 0)
		cr_skip("not root");
	tree_make(&s->tree);
	tree_text(&s->tree, "root/usr/lib/deep/libx.so", "code");
	tree_text(&s->tree, "root/home/libx.so", "code");
	tree_link(&s->tree, "root/lib", "usr/lib");
	fd = openat(s->tree.fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(proc_root_of_folder(&s->root, fd), 0);
	s->root->is_hosts = true;
	cr_assert_eq(fchmodat(s->tree.fd, "root", 0755, 0), 0);
	s->fd = openat(s->tree.fd, "root" PATH, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(s->fd, 0);
	cr_assert(proc_is_system_file(s->root, PATH, s->fd));
}

static void end(struct system *s)
{
	close(s->fd);
	proc_root_unref(s->root);
	tree_remove(&s->tree);
}

Test(system_file, is_where_the_hosts_processes_see_it)
{
	struct system s;

	make(&s);
	cr_expect_not(proc_is_system_file(NULL, PATH, s.fd));
	s.root->is_hosts = false;
	cr_expect_not(proc_is_system_file(s.root, PATH, s.fd), "of a container");
	s.root->is_hosts = true;
	free(s.root->prefix);
	s.root->prefix = strdup("/chroot");
	cr_expect_not(proc_is_system_file(s.root, PATH, s.fd), "of a chroot");
	end(&s);
}

Test(system_file, is_at_that_path)
{
	static const char *const others[] = {"",
					     "/",
					     "/usr",
					     "/usr/lib/deep",
					     "/usr/lib/deep/liby.so",
					     "/usr/lib/deep/libx.so/x",
					     "/usr/lib/deep/libx.so (deleted)",
					     "/usr/lib/../lib/deep/libx.so",
					     "/usr/./lib/deep/libx.so",
					     "/lib/deep/libx.so", /* through a symbolic link */
					     "usr/lib/deep/libx.so",
					     "/home/libx.so",
					     "[vdso]"};
	struct system s;
	int home;

	make(&s);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cr_expect_not(proc_is_system_file(s.root, others[i], s.fd), "%s", others[i]);
	home = openat(s.tree.fd, "root/home/libx.so", O_RDONLY | O_CLOEXEC);
	cr_expect_not(proc_is_system_file(s.root, "/home/libx.so", home), "no folder of programs");
	cr_expect_not(proc_is_system_file(s.root, PATH, home), "another file");
	close(home);
	end(&s);
}

Test(system_file, only_root_can_have_written_it)
{
	static const char *const parts[] = {"root", "root/usr", "root/usr/lib", "root/usr/lib/deep",
					    "root/usr/lib/deep/libx.so"};
	struct system s;

	make(&s);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const mode_t mode = 0755;

		cr_assert_eq(fchmodat(s.tree.fd, parts[i], mode | S_IWGRP, 0), 0);
		cr_expect_not(proc_is_system_file(s.root, PATH, s.fd), "%s: a group writes", parts[i]);
		cr_assert_eq(fchmodat(s.tree.fd, parts[i], mode | S_IWOTH | S_ISVTX, 0), 0);
		cr_expect_not(proc_is_system_file(s.root, PATH, s.fd), "%s: all write", parts[i]);
		cr_assert_eq(fchmodat(s.tree.fd, parts[i], mode, 0), 0);
		cr_assert_eq(fchownat(s.tree.fd, parts[i], 65534, 0, 0), 0);
		cr_expect_not(proc_is_system_file(s.root, PATH, s.fd), "%s: another's", parts[i]);
		cr_assert_eq(fchownat(s.tree.fd, parts[i], 0, 0, 0), 0);
		cr_expect(proc_is_system_file(s.root, PATH, s.fd), "%s", parts[i]);
	}
	end(&s);
}

Test(system_file, nothing_is_mounted_on_the_way)
{
	struct system s;
	char lib[128], home[128];
	int fd;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		cr_skip("no mount namespace");
	make(&s);
	snprintf(lib, sizeof lib, "%s/root/usr/lib", s.tree.path);
	snprintf(home, sizeof home, "%s/root/home", s.tree.path);
	cr_assert_eq(mount(home, lib, NULL, MS_BIND, NULL), 0);
	fd = openat(s.tree.fd, "root/usr/lib/libx.so", O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_expect_not(proc_is_system_file(s.root, "/usr/lib/libx.so", fd));
	close(fd);
	cr_assert_eq(umount(lib), 0);
	end(&s);
}
