// SPDX-License-Identifier: Apache-2.0
/* Tests what agent/proc/open refuses, with a procfs of its own whose links lead wherever the test needs. */
#include "tests/unit/agent/proc/tree.h"

#include <sys/sysmacros.h>

#include "agent/proc/open.h"

#define START 0x7f0000001000ull
#define END 0x7f0000003000ull
#define MAP_FILE "9/map_files/7f0000001000-7f0000003000"

/* "9" is a process whose root is root/; there are no others. */
static void fixture_make(struct tree *t)
{
	char root[96];

	tree_make(t);
	snprintf(root, sizeof root, "%s/root", t->path);
	tree_dir(t, "root");
	tree_link(t, "9/root", root);
	tree_dir(t, "9/task/9");
}

static struct proc_open_request request(const struct tree *t, const char *file, const char *path)
{
	struct proc_open_request req = {
		.pid = 9, .start = START, .end = END, .path = path, .has_inode = true};
	struct stat st;

	cr_assert_eq(fstatat(t->fd, file, &st, AT_SYMLINK_NOFOLLOW), 0, "%s", file);
	req.inode = st.st_ino;
	req.dev_major = major(st.st_dev);
	req.dev_minor = minor(st.st_dev);
	return req;
}

static int try_open(const struct tree *t, const struct proc_open_request *req, const char *way)
{
	struct proc_opened o = {.fd = -1};
	int r = proc_open_mapping(t->fd, req, &o);

	if (r == 0) {
		cr_expect_str_eq(proc_open_way_name(o.way), way ? way : "a failure");
		close(o.fd);
	}
	return r;
}

/* Opening a FIFO without a writer would block; the alarm then fails the test. */
Test(open_tree, only_regular_files)
{
	static const char *const names[] = {"fifo", "dir", "device"};
	struct tree t;
	char path[64];

	alarm(300);
	fixture_make(&t);
	cr_assert_eq(mkfifoat(t.fd, "root/fifo", 0755), 0);
	cr_assert_eq(mkdirat(t.fd, "root/dir", 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct proc_open_request req;
		char file[64], target[160];

		snprintf(file, sizeof file, "root/%s", names[i]);
		snprintf(path, sizeof path, "/%s", names[i]);
		if (strcmp(names[i], "device") == 0 && mknodat(t.fd, file, S_IFCHR | 0600, makedev(1, 5)) < 0)
			continue; /* needs CAP_MKNOD */
		req = request(&t, file, path);
		cr_expect_eq(try_open(&t, &req, NULL), -ENODEV, "%s", file);
		snprintf(target, sizeof target, "%s/%s", t.path, file);
		tree_link(&t, MAP_FILE, target);
		cr_expect_eq(try_open(&t, &req, NULL), -ENODEV, "%s by map_files", file);
		req.path = NULL;
		cr_expect_eq(try_open(&t, &req, NULL), -ENODEV, "%s by map_files", file);
		cr_assert_eq(unlinkat(t.fd, MAP_FILE, 0), 0);
	}
	tree_remove(&t);
}

Test(open_tree, identity)
{
	struct proc_open_request req;
	struct tree t;

	fixture_make(&t);
	tree_text(&t, "root/lib/x", "x");
	req = request(&t, "root/lib/x", "/lib/x");
	cr_expect_eq(try_open(&t, &req, "root"), 0);
	req.inode++;
	cr_expect_eq(try_open(&t, &req, NULL), -ESTALE);
	req.inode--;
	req.dev_minor++;
	cr_expect_eq(try_open(&t, &req, NULL), -ESTALE);
	req.dev_minor--;
	req.dev_major++;
	cr_expect_eq(try_open(&t, &req, NULL), -ESTALE);
	/* There is nothing that could prove the file, so the path is not even tried. */
	req.has_inode = false;
	cr_expect_eq(try_open(&t, &req, NULL), -ENOENT);
	tree_remove(&t);
}

struct asked {
	bool answer;
	unsigned n;
	char first;
};

static bool check(int fd, void *data)
{
	struct asked *a = data;

	a->n++;
	cr_expect_eq(pread(fd, &a->first, 1, 0), 1);
	return a->answer;
}

Test(open_tree, the_check_decides)
{
	struct asked asked = {.answer = true};
	struct proc_open_request req;
	struct tree t;

	fixture_make(&t);
	tree_text(&t, "root/lib/x", "content");
	tree_dir(&t, "root/lib/dir");
	req = request(&t, "root/lib/x", "/lib/x");
	req.check = check;
	req.check_data = &asked;
	cr_expect_eq(try_open(&t, &req, "root"), 0);
	cr_expect_eq(asked.n, 1);
	cr_expect_eq(asked.first, 'c');
	req.has_inode = false;
	cr_expect_eq(try_open(&t, &req, "root"), 0);
	asked.answer = false;
	cr_expect_eq(try_open(&t, &req, NULL), -ESTALE);
	/* The check is not called for a file that is refused anyway. */
	asked = (struct asked){.answer = true};
	req.path = "/lib/dir";
	cr_expect_eq(try_open(&t, &req, NULL), -ENODEV);
	cr_expect_eq(asked.n, 0);
	tree_remove(&t);
}

Test(open_tree, names_that_are_no_path)
{
	static const char *const names[] = {
		"[vdso]", "//anon", "", "lib/x", "anon_inode:[perf_event]", "/lib/x (deleted)", " (deleted)",
	};
	struct proc_open_request req;
	struct tree t;

	fixture_make(&t);
	tree_text(&t, "root/lib/x (deleted)", "the name of a file that is there");
	tree_text(&t, "root/anon", "x");
	req = request(&t, "root/lib/x (deleted)", NULL);
	cr_expect_eq(try_open(&t, &req, NULL), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		req.path = names[i];
		cr_expect_eq(try_open(&t, &req, NULL), -ENOENT, "%s", names[i]);
	}
	tree_text(&t, "root/lib/y", "x");
	req = request(&t, "root/lib/y", "/lib/y");
	req.deleted = true;
	cr_expect_eq(try_open(&t, &req, NULL), -ENOENT);
	tree_remove(&t);
}

Test(open_tree, symbolic_links_stay_inside)
{
	static const struct {
		const char *target, *path;
		int want;
	} cases[] = {
		{"/inside", "/link", 0},	   {"../../../../inside", "/link", 0},
		{"/../outside", "/link", -ENOENT}, {"../outside", "/link", -ENOENT},
		{"/", "/link/inside", 0},	   {"..", "/link/outside", -ENOENT},
		{"/link", "/link", -ELOOP},	   {"/inside/x", "/link", -ENOTDIR},
	};
	struct tree t;

	fixture_make(&t);
	tree_text(&t, "root/inside", "x");
	tree_text(&t, "outside", "secret");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct proc_open_request req =
			request(&t, cases[i].want ? "outside" : "root/inside", cases[i].path);

		tree_link(&t, "root/link", cases[i].target);
		cr_expect_eq(try_open(&t, &req, "root"), cases[i].want, "%s", cases[i].target);
		cr_assert_eq(unlinkat(t.fd, "root/link", 0), 0);
	}
	tree_remove(&t);
}

Test(open_tree, threads_are_tried_up_to_a_limit)
{
	struct proc_open_request req;
	char name[64], good[96];
	struct tree t;

	fixture_make(&t);
	tree_text(&t, "good/lib/x", "x");
	snprintf(good, sizeof good, "%s/good", t.path);
	req = request(&t, "good/lib/x", "/lib/x");
	tree_dir(&t, "9/task/10");
	cr_expect_eq(try_open(&t, &req, NULL), -ENOENT);
	tree_link(&t, "9/task/11/root", good);
	cr_expect_eq(try_open(&t, &req, "task_root"), 0);
	cr_assert_eq(unlinkat(t.fd, "9/task/11/root", 0), 0);
	for (unsigned i = 0; i < 4 * PROC_OPEN_MAX_THREADS; i++) {
		snprintf(name, sizeof name, "9/task/%u/root", 100 + i);
		tree_link(&t, name, "/nowhere");
	}
	cr_expect_eq(try_open(&t, &req, NULL), -ENOENT);
	tree_remove(&t);
}

Test(open_tree, process_that_is_not_there)
{
	struct proc_open_request req;
	struct proc_opened o;
	struct tree t;

	fixture_make(&t);
	tree_text(&t, "root/x", "x");
	tree_dir(&t, "10");
	req = request(&t, "root/x", "/x");
	req.pid = 8;
	cr_expect_eq(try_open(&t, &req, NULL), -ESRCH);
	cr_expect_eq(proc_open_other(t.fd, 8, &req, &o), -ESRCH);
	cr_expect_eq(proc_open_other(t.fd, 10, &req, &o), -ENOENT);
	req.pid = 10;
	cr_expect_eq(try_open(&t, &req, NULL), -ENOENT);
	cr_expect_eq(proc_open_other(t.fd, 9, &req, &o), 0);
	cr_expect_str_eq(proc_open_way_name(o.way), "other");
	close(o.fd);
	cr_expect_str_eq(proc_open_way_name(PROC_OPEN_N_WAYS), "unknown");
	tree_remove(&t);
}
