// SPDX-License-Identifier: Apache-2.0
/*
 * Tests real control groups, below a group of this process in the unified hierarchy. Skipped if none can
 * be created.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <mntent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/base/cleanup.h"
#include "agent/base/map.h"
#include "cgroup/id.h"
#include "cgroup/meta.h"
#include "cgroup/namespace.h"
#include "cgroup/tree.h"

static const struct cgroup_observer outside = {.base = NULL};

#define BATCHES 32u
#define BATCH 32u
#define CACHE 64u
#define UID "6fb6a7c1-29f3-4f0d-8a6c-0a5a3f3f8c1e"

static char top[200]; /* our own group */

/* Finds where the unified hierarchy is mounted; false: nowhere. */
static bool find_hierarchy(char *ret, size_t size)
{
	FILE *f = setmntent("/proc/self/mounts", "r");
	bool found = false;
	struct mntent *m;

	while (f && !found && (m = getmntent(f)))
		if (strcmp(m->mnt_type, "cgroup2") == 0)
			found = snprintf(ret, size, "%s", m->mnt_dir) > 0;
	if (f)
		endmntent(f);
	return found;
}

static void setup(void)
{
	char hierarchy[100];

	if (!find_hierarchy(hierarchy, sizeof hierarchy))
		cr_skip_test("no unified hierarchy is mounted");
	snprintf(top, sizeof top, "%s/proflet-test-%d", hierarchy, (int)getpid());
	if (mkdir(top, 0755) < 0)
		cr_skip_test("%s: %s", top, strerror(errno));
}

static void teardown(void)
{
	rmdir(top);
}

/* Starts a process that waits, in the group of that descriptor from its beginning. 0 in the child, -errno. */
static pid_t spawn(int group)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)group};
	long pid = syscall(SYS_clone3, &args, sizeof args);

	if (pid == 0)
		for (;;)
			pause();
	return pid < 0 ? -errno : (pid_t)pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

/* The id of the n-th container. */
static void name_container(unsigned n, char ret[CGROUP_ID_LEN + 1])
{
	snprintf(ret, CGROUP_ID_LEN + 1, "%016llx%016llx%016llx%016llx", (unsigned long long)hash_u64(n),
		 (unsigned long long)hash_u64(n + 1000000ull), (unsigned long long)hash_u64(n + 2000000ull),
		 (unsigned long long)n);
}

/* Containers n, n + 1, … each with a process: reads and looks up their identities. */
static void live_once(struct cgroup_meta_cache *c, unsigned n)
{
	char id[BATCH][CGROUP_ID_LEN + 1], path[BATCH][400];
	pid_t pid[BATCH];

	for (unsigned i = 0; i < BATCH; i++) {
		_cleanup_close_ int fd = -1;

		name_container(n + i, id[i]);
		cr_assert_lt(snprintf(path[i], sizeof path[i], "%s/%s", top, id[i]), (int)sizeof path[i]);
		cr_assert_eq(mkdir(path[i], 0755), 0);
		fd = open(path[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		pid[i] = spawn(fd);
		if (pid[i] < 0) {
			rmdir(path[i]);
			teardown();
			cr_skip_test("clone3 into a group: %s", strerror(-pid[i]));
		}
	}
	for (unsigned i = 0; i < BATCH; i++) {
		struct cgroup_identity read;
		struct cgroup_meta *m;

		cr_expect_eq(cgroup_id_read(-1, pid[i], &outside, &read), 0);
		cr_expect_str_eq(read.container_id, id[i], "container %u", n + i);
		cr_assert_eq(cgroup_meta_get(c, &read, &m), 0);
		cr_expect_str_eq(m->identity.container_id, id[i], "an entry of another container, %u", n + i);
		cgroup_meta_unref(m);
		kill(pid[i], SIGKILL);
	}
	for (unsigned i = 0; i < BATCH; i++) {
		cr_expect_eq(waitpid(pid[i], NULL, 0), pid[i]);
		cr_expect_eq(rmdir(path[i]), 0);
	}
}

/*
 * Creates and removes a thousand containers, each with a process; tests/e2e/identity.py does so ten thousand
 * times with an agent. The kernel reuses pids and ids of groups, which does not matter: the path identifies
 * a workload.
 */
Test(real, containers_come_and_go, .init = setup, .fini = teardown)
{
	struct cgroup_meta_cache *c = NULL;
	struct cgroup_meta_stats s;

	cr_assert_eq(cgroup_meta_cache_new(&c, CACHE), 0);
	for (unsigned n = 0; n < BATCHES; n++)
		live_once(c, n * BATCH);
	cgroup_meta_cache_stats(c, &s);
	cr_expect_eq(s.entries, CACHE);
	cr_expect_eq(s.n_misses, BATCHES * BATCH);
	cr_expect_eq(s.n_evicted, BATCHES * BATCH - CACHE);
	cgroup_meta_cache_free(c);
}

/* A process that moves to another container belongs to that one at the next lookup. */
Test(real, moves, .init = setup, .fini = teardown)
{
	char id[2][CGROUP_ID_LEN + 1], path[2][400], procs[420], text[16];
	struct cgroup_identity read;
	int fd[2];
	pid_t pid;

	for (unsigned i = 0; i < 2; i++) {
		name_container(i, id[i]);
		cr_assert_lt(snprintf(path[i], sizeof path[i], "%s/%s", top, id[i]), (int)sizeof path[i]);
		cr_assert_eq(mkdir(path[i], 0755), 0);
		fd[i] = open(path[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	pid = spawn(fd[0]);
	snprintf(text, sizeof text, "%d", (int)pid);
	for (unsigned i = 1; pid > 0 && i < 6; i++) {
		_cleanup_close_ int to = -1;

		snprintf(procs, sizeof procs, "%s/cgroup.procs", path[i % 2]);
		to = open(procs, O_WRONLY | O_CLOEXEC);
		cr_assert(to >= 0 && write(to, text, strlen(text)) > 0);
		cr_assert_eq(cgroup_id_read(-1, pid, &outside, &read), 0);
		cr_expect_str_eq(read.container_id, id[i % 2]);
	}
	if (pid > 0)
		end(pid);
	for (unsigned i = 0; i < 2; i++) {
		close(fd[i]);
		rmdir(path[i]);
	}
	if (pid < 0)
		cr_skip_test("clone3 into a group: %s", strerror(-pid));
}

/* --- who owns a group */

/* Whether root alone made what is in this folder. Any other hierarchy says yes. */
static bool is_roots(struct cgroup_tree *t, const char *path, size_t own_len)
{
	const struct cgroup_folder f = {
		.unified = true, .controllers = "", .path = path, .len = strlen(path), .own_len = own_len};

	return cgroup_tree_is_roots(t, &f);
}

Test(real, owner_of_a_group, .init = setup, .fini = teardown)
{
	struct cgroup_tree *t = NULL;
	char group[300], hierarchy[100], path[300];
	size_t own;

	cr_assert_eq(cgroup_tree_new(&t, true), 0);
	cr_assert(find_hierarchy(hierarchy, sizeof hierarchy));
	snprintf(group, sizeof group, "%s/theirs", top);
	cr_assert_eq(mkdir(group, 0755), 0);
	snprintf(path, sizeof path, "%s/theirs/", top + strlen(hierarchy));
	own = strlen(path);
	cr_expect(is_roots(t, path, 0));
	cr_expect(is_roots(t, "/", 0));
	cr_expect_eq(chown(group, 65534, 65534), 0);
	cr_expect_not(is_roots(t, path, 0));
	cr_expect(is_roots(t, path, own - 1), "it is also ours");
	cr_expect_eq(chown(group, 0, 0), 0);
	cr_expect_eq(chmod(group, 0777), 0);
	cr_expect_not(is_roots(t, path, 0), "anyone may make groups there");
	cr_expect_eq(chmod(group, 0755), 0);
	cr_expect_eq(chown(top, 65534, 65534), 0);
	cr_expect_not(is_roots(t, path, 0), "it is below one of theirs");
	cr_expect_eq(rmdir(group), 0);
	cr_expect_not(is_roots(t, path, 0), "it is gone");
	cgroup_tree_free(t);
}

/* --- a cgroup namespace of our own */

struct found {
	int find, own, sibling; /* results */
	char base[300];
	struct cgroup_identity own_id, sibling_id;
};

/*
 * Runs in a process whose group is a container's: creates a namespace that begins there, and mounts the
 * hierarchy in it.
 */
static int look_from_inside(pid_t sibling, int result)
{
	struct cgroup_observer from = {.base = NULL};
	_cleanup_free_ char *base = NULL;
	struct found f = {0};

	if (unshare(CLONE_NEWCGROUP | CLONE_NEWNS) < 0 || mount("cgroup2", "/mnt", "cgroup2", 0, NULL) < 0)
		return 1;
	f.find = cgroup_namespace_find(&base);
	snprintf(f.base, sizeof f.base, "%s", base ?: "");
	from.base = f.base;
	f.own = cgroup_id_read(-1, getpid(), &from, &f.own_id);
	f.sibling = cgroup_id_read(-1, sibling, &from, &f.sibling_id);
	return write(result, &f, sizeof f) == sizeof f ? 0 : 2;
}

/* PID 1 of a node's PID namespace, with two containers. */
static int be_node(const int groups[2], int result)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)groups[0]};
	int status = -1;
	pid_t sibling, child;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0)
		return 1;
	sibling = spawn(groups[1]);
	child = (pid_t)syscall(SYS_clone3, &args, sizeof args);
	if (child == 0)
		_exit(look_from_inside(sibling, result));
	if (child > 0)
		waitpid(child, &status, 0);
	if (sibling > 0)
		end(sibling);
	return status;
}

/* Runs be_node in new namespaces. Returns its exit status. */
static int run_node(const int groups[2], int result)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		pid_t node = unshare(CLONE_NEWPID | CLONE_NEWNS) < 0 ? -1 : fork();

		if (node == 0)
			_exit(be_node(groups, result) ? 1 : 0);
		_exit(node < 0 || waitpid(node, &status, 0) < 0 || status ? 1 : 0);
	}
	return child < 0 || waitpid(child, &status, 0) < 0 ? -1 : status;
}

Test(real, namespace_of_our_own, .init = setup, .fini = teardown)
{
	char id[2][CGROUP_ID_LEN + 1], path[2][400], pod[300];
	int fd[2], result[2], status;
	struct found f = {0};

	snprintf(pod, sizeof pod, "%s/pod" UID, top);
	cr_assert_eq(mkdir(pod, 0755), 0);
	for (unsigned i = 0; i < 2; i++) {
		name_container(i, id[i]);
		cr_assert_lt(snprintf(path[i], sizeof path[i], "%s/%s", pod, id[i]), (int)sizeof path[i]);
		cr_assert_eq(mkdir(path[i], 0755), 0);
		fd[i] = open(path[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	cr_assert_eq(pipe(result), 0);
	status = run_node(fd, result[1]);
	if (status == 0)
		cr_expect_eq(read(result[0], &f, sizeof f), sizeof f);
	for (unsigned i = 0; i < 2; i++) {
		close(fd[i]);
		close(result[i]);
		rmdir(path[i]);
	}
	rmdir(pod);
	if (status != 0) {
		teardown();
		cr_skip_test("no namespaces can be made here");
	}
	cr_expect_eq(f.find, 0, "%s", strerror(-f.find));
	cr_expect(strstr(f.base, "/pod" UID "/"), "%s", f.base);
	cr_expect_eq(f.own, 0);
	cr_expect_str_eq(f.own_id.container_id, id[0]);
	cr_expect_str_eq(f.own_id.pod_uid, UID);
	cr_expect_eq(f.sibling, 0);
	cr_expect_str_eq(f.sibling_id.container_id, id[1]);
	cr_expect_str_eq(f.sibling_id.pod_uid, UID);
}

/* This process is in PID 1's namespace, or in one below it. */
Test(real, namespace_of_this_process)
{
	_cleanup_free_ char *base = NULL;
	int r = cgroup_namespace_find(&base);

	cr_expect(r == 0 || !base);
	cr_expect(r < 0 || !base[0] || base[0] == '/');
}
