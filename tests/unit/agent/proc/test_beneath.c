// SPDX-License-Identifier: Apache-2.0
/* Tests paths below another root: openat2(2) and our own walk must agree. */
#include "tests/unit/agent/proc/tree.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include "agent/proc/beneath.h"
#include "agent/proc/root.h"

/* root/ is the root; outside/ is beside it. */
static int fixture_make(struct tree *t)
{
	int fd;

	tree_make(t);
	tree_text(t, "root/etc/file", "inside");
	tree_text(t, "root/usr/lib/debug/x", "inside");
	tree_text(t, "outside", "secret");
	tree_text(t, "etc/file", "secret");
	tree_link(t, "root/abs", "/etc/file");
	tree_link(t, "root/lib", "usr/lib");
	tree_link(t, "root/usr/up", "../etc/../etc/file");
	tree_link(t, "root/usr/lib/far", "../../../../../../outside");
	tree_link(t, "root/top", "/..");
	tree_link(t, "root/loop", "loop");
	tree_link(t, "root/a", "b");
	tree_link(t, "root/b", "/a");
	tree_link(t, "root/dangling", "/nothing");
	tree_link(t, "root/slash", "etc/");
	fd = openat(t->fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	return fd;
}

static const struct {
	const char *path;
	int want;
} lookups[] = {
	{"/etc/file", 0},
	{"etc/file", 0},
	{"//etc/./file", 0},
	{"/abs", 0},
	{"/lib/debug/x", 0},
	{"/lib/../lib/debug/x", 0},
	{"/usr/up", 0},
	{"/../../etc/file", 0},
	{"/top/etc/file", 0},
	{"/slash/file", 0},
	{"/usr/lib/far", -ENOENT},
	{"/../outside", -ENOENT},
	{"/top/outside", -ENOENT},
	{"/loop", -ELOOP},
	{"/a", -ELOOP},
	{"/dangling", -ENOENT},
	{"/nothing", -ENOENT},
	{"/etc/file/x", -ENOTDIR},
	{"/abs/x", -ENOTDIR},
	{"", -ENOENT},
};

static void expect_found(int fd, int want, const char *path, const char *how)
{
	_cleanup_close_ int found = fd;
	char text[16] = "";
	struct stat st;

	cr_expect_eq(fd < 0 ? fd : 0, want, "%s by %s: %d", path, how, fd);
	if (fd < 0)
		return;
	cr_expect_eq(fcntl(fd, F_GETFL) & O_PATH, O_PATH);
	cr_expect_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	_cleanup_close_ int open_fd = proc_beneath_reopen(fd, &st);
	cr_assert_geq(open_fd, 0, "%s by %s", path, how);
	cr_expect_eq(read(open_fd, text, sizeof text - 1), 6, "%s by %s", path, how);
	cr_expect_str_eq(text, "inside");
}

Test(beneath, lookups)
{
	struct tree t;
	_cleanup_close_ int root = fixture_make(&t);

	for (size_t i = 0; i < ARRAY_SIZE(lookups); i++) {
		expect_found(proc_beneath_find(root, lookups[i].path), lookups[i].want, lookups[i].path,
			     "openat2");
		expect_found(proc_beneath_walk(root, lookups[i].path), lookups[i].want, lookups[i].path,
			     "walk");
	}
	tree_remove(&t);
}

/* In a plain lookup, a link of procfs would lead out of the root; here its text is a path below the root. */
Test(beneath, links_of_procfs_lead_nowhere)
{
	_cleanup_close_ int slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	static const char *const paths[] = {"/proc/self/exe", "/proc/self/root/etc", "/proc/self/fd/0"};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		cr_expect_eq(proc_beneath_find(slash, paths[i]), -ELOOP, "%s", paths[i]);
	/* Its text leads to the file, in the very same root. */
	_cleanup_close_ int fd = proc_beneath_walk(slash, "/proc/self/exe");
	struct stat a, b;
	cr_assert_geq(fd, 0);
	cr_assert_eq(fstat(fd, &a), 0);
	cr_assert_eq(stat("/proc/self/exe", &b), 0);
	cr_expect_eq(a.st_ino, b.st_ino);
	cr_expect_lt(proc_beneath_walk(slash, "/proc/self/fd/0/pipe"), 0);
}

/* Opening a FIFO without a writer would block; the alarm then fails the test. */
Test(beneath, only_regular_files_are_opened)
{
	static const char *const paths[] = {"/fifo", "/etc", "/device", "/to_fifo"};
	struct tree t;
	_cleanup_close_ int root = fixture_make(&t);
	struct stat st;

	alarm(300);
	cr_assert_eq(mkfifoat(t.fd, "root/fifo", 0755), 0);
	tree_link(&t, "root/to_fifo", "/fifo");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		if (strcmp(paths[i], "/device") == 0 &&
		    mknodat(t.fd, "root/device", S_IFCHR | 0600, makedev(1, 5)) < 0)
			continue; /* needs CAP_MKNOD */
		cr_expect_eq(proc_beneath_open(root, paths[i], &st), -ENODEV, "%s", paths[i]);
	}
	tree_remove(&t);
}

Test(beneath, the_walk_is_bounded)
{
	char path[4 * BENEATH_DEPTH_MAX + 16] = "root", name[300];
	struct tree t;
	_cleanup_close_ int root = fixture_make(&t);

	for (int i = 0; i <= BENEATH_DEPTH_MAX; i++) {
		strcat(path, "/d");
		tree_dir(&t, path);
	}
	cr_expect_eq(proc_beneath_walk(root, path + 4), -ENAMETOOLONG);
	path[strlen(path) - 2] = '\0';
	_cleanup_close_ int deepest = proc_beneath_walk(root, path + 4);
	cr_expect_geq(deepest, 0);
	for (int i = 0; i <= BENEATH_LINKS_MAX; i++) {
		char link[32], target[32];

		snprintf(link, sizeof link, "root/l%d", i);
		snprintf(target, sizeof target, "l%d", i + 1);
		tree_link(&t, link, target);
	}
	tree_text(&t, "root/l41", "x");
	cr_expect_eq(proc_beneath_walk(root, "/l0"), -ELOOP);
	_cleanup_close_ int last = proc_beneath_walk(root, "/l1");
	cr_expect_geq(last, 0);
	memset(name, 'n', sizeof name);
	name[sizeof name - 1] = '\0';
	cr_expect_eq(proc_beneath_walk(root, name), -ENAMETOOLONG);
	char *most = calloc(1, 8193);
	memset(most, '/', 8192);
	cr_expect_eq(proc_beneath_walk(root, most), -ENAMETOOLONG);
	cr_expect_eq(proc_beneath_find(root, most), -ENAMETOOLONG);
	free(most);
	tree_remove(&t);
}

/* Another process changes a link all the time: from a folder inside to one outside. */
Test(beneath, renames_do_not_lead_outside)
{
	struct tree t;
	_cleanup_close_ int root = fixture_make(&t);
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0) {
		alarm(300);
		mkdirat(t.fd, "root/turn", 0755);
		symlinkat("../..", t.fd, "root/out");
		for (;;) {
			renameat2(t.fd, "root/turn", t.fd, "root/out", RENAME_EXCHANGE);
			renameat2(t.fd, "root/usr", t.fd, "usr", 0);
			renameat2(t.fd, "usr", t.fd, "root/usr", 0);
		}
	}
	for (int i = 0; i < 3000; i++) {
		static const char *const paths[] = {"/turn/outside", "/turn/../outside",
						    "/usr/lib/../../outside"};
		const char *path = paths[i % 3];
		int fd = i % 2 ? proc_beneath_walk(root, path) : proc_beneath_find(root, path);

		cr_assert_lt(fd, 0, "%s", path);
	}
	cr_assert_eq(kill(pid, SIGKILL), 0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	unlinkat(t.fd, "root/turn", 0);
	tree_remove(&t);
}

Test(root, of_a_process)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct proc_root *root, *again;
	struct stat a, b;

	cr_assert_eq(proc_root_open(&root, proc_fd, (uint32_t)getpid()), 0);
	cr_assert_eq(fstat(root->fd, &a), 0);
	cr_assert_eq(stat("/", &b), 0);
	cr_expect(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
	cr_expect_str_eq(root->prefix, "");
	cr_expect_str_eq(proc_root_strip(root, "/lib/x"), "/lib/x");
	again = proc_root_ref(root);
	proc_root_unref(root);
	cr_expect_geq(fcntl(again->fd, F_GETFD), 0);
	proc_root_unref(again);
	proc_root_unref(NULL);
	cr_expect_eq(proc_root_open(&root, proc_fd, 0x3fffffff), -ESRCH);
}

Test(root, in_a_chroot)
{
	struct proc_root *root;
	char folder[96], path[160];
	struct tree t;

	tree_make(&t);
	tree_text(&t, "jail/lib/x", "inside");
	snprintf(folder, sizeof folder, "%s/jail", t.path);
	tree_link(&t, "9/root", folder);
	cr_assert_eq(proc_root_open(&root, t.fd, 9), 0);
	cr_expect_str_eq(root->prefix, folder);
	snprintf(path, sizeof path, "%s/lib/x", folder);
	cr_expect_str_eq(proc_root_strip(root, path), "/lib/x", "as maps has it");
	cr_expect_str_eq(proc_root_strip(root, "/lib/x"), "/lib/x", "as perf has it");
	snprintf(path, sizeof path, "%ser/lib/x", folder);
	cr_expect_str_eq(proc_root_strip(root, path), path);
	proc_root_unref(root);
	tree_remove(&t);
}

static void expect_entries(int folder, int (*entry)(int folder_fd, const char *name))
{
	static const struct {
		const char *name;
		mode_t kind; /* 0: -EXDEV */
	} rows[] = {{"file", S_IFREG}, {"link", S_IFLNK}, {"folder", S_IFDIR}, {"mounted", 0}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_close_ int fd = entry(folder, rows[i].name);
		struct stat st = {0};

		cr_expect_eq(fd < 0 ? fd : 0, rows[i].kind ? 0 : -EXDEV, "%s", rows[i].name);
		if (fd >= 0 && rows[i].kind)
			cr_expect(fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == rows[i].kind, "%s",
				  rows[i].name);
	}
	cr_expect_eq(entry(folder, "nothing"), -ENOENT);
}

/* A file that is mounted on another one is found out, in the same file system, too. */
Test(beneath, entries)
{
	_cleanup_close_ int folder = -1;
	struct tree t;
	char from[128], on[128];

	tree_make(&t);
	tree_text(&t, "folder/file", "x");
	tree_text(&t, "folder/folder/x", "x");
	tree_text(&t, "folder/mounted", "x");
	tree_link(&t, "folder/link", "file");
	snprintf(from, sizeof from, "%s/folder/file", t.path);
	snprintf(on, sizeof on, "%s/folder/mounted", t.path);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(from, on, NULL, MS_BIND, NULL) < 0) {
		tree_remove(&t);
		cr_skip_test("no mounts: %s", strerror(errno));
	}
	snprintf(from, sizeof from, "%s/folder", t.path); /* t.fd is in the former namespace */
	folder = open(from, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(folder, 0);
	expect_entries(folder, proc_beneath_entry);
	expect_entries(folder, proc_beneath_entry_by_mount);
	cr_expect_eq(umount2(on, MNT_DETACH), 0);
	tree_remove(&t);
}
