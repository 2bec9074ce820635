// SPDX-License-Identifier: Apache-2.0
/* Real processes whose root, mount namespace or main thread differs from ours. */
#include "tests/unit/agent/proc/mapped.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>

#include "agent/proc/maps.h"
#include "agent/proc/stat.h"

Test(open_root, magic_links_in_the_path_lead_nowhere)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct stat st;
	struct proc_open_request req = {.pid = (uint32_t)getpid(), .path = "/proc/self/exe"};
	char path[64];

	cr_assert_eq(stat("/proc/self/exe", &st), 0);
	request_inode(&req, &st);
	expect_error(proc_fd, &req, -ELOOP);
	snprintf(path, sizeof path, "/proc/%d/root/etc/passwd", getpid());
	cr_assert_eq(stat("/etc/passwd", &st), 0);
	request_inode(&req, &st);
	req.path = path;
	expect_error(proc_fd, &req, -ELOOP);
	req.path = "/etc/passwd";
	if (geteuid() == 0) {
		struct proc_opened o;

		cr_assert_eq(proc_open_mapping(proc_fd, &req, &o), 0);
		close(o.fd);
	}
}

static int chroot_to(void *path)
{
	return chroot(path) < 0 || chdir("/") < 0 ? -errno : 0;
}

Test(open_root, a_chroot_is_not_left)
{
	static const char *const links[] = {"lib/absolute", "lib/dots", "lib/itself/absolute"};
	_cleanup_close_ int proc_fd = proc_root();
	struct proc_open_request req = {0};
	char target[128], jail[128];
	struct stat secret, inside;
	struct tree t;
	struct child c;

	tree_make(&t);
	tree_text(&t, "secret", NEW);
	tree_text(&t, "jail/lib/file", OLD);
	snprintf(target, sizeof target, "%s/secret", t.path);
	tree_link(&t, "jail/lib/absolute", target);
	tree_link(&t, "jail/lib/dots", "../../secret");
	tree_link(&t, "jail/lib/itself", "/lib");
	snprintf(jail, sizeof jail, "%s/jail", t.path);
	c = child_start(chroot_to, jail);
	if (c.ready < 0) {
		child_stop(&c);
		tree_remove(&t);
		cr_skip("chroot: %s", strerror(-c.ready));
	}
	cr_assert_eq(fstatat(t.fd, "secret", &secret, 0), 0);
	cr_assert_eq(fstatat(t.fd, "jail/lib/file", &inside, 0), 0);
	req.pid = (uint32_t)c.pid;
	request_inode(&req, &secret);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		snprintf(target, sizeof target, "/%s", links[i]);
		req.path = target;
		expect_error(proc_fd, &req, -ENOENT);
	}
	req.path = "/../secret";
	expect_error(proc_fd, &req, -ENOENT);
	request_inode(&req, &inside);
	req.path = "/lib/itself/file";
	expect_opened(proc_fd, &req, PROC_OPEN_ROOT, OLD);
	child_stop(&c);
	tree_remove(&t);
}

struct private_mount {
	const char *dir, *type, *options;
	const char *file; /* a file created there with the content OLD; NULL: none */
};

/* Mounts a file system that only this process and its children see. */
static int mount_privately(void *data)
{
	struct private_mount *m = data;
	_cleanup_close_ int fd = -1;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(m->type, m->dir, m->type, 0, m->options) < 0)
		return -errno;
	if (!m->file)
		return 0;
	fd = open(m->file, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	return fd < 0 || write(fd, OLD, strlen(OLD)) < 0 ? -errno : 0;
}

Test(open_root, through_another_mount_namespace)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct proc_open_request req = {0};
	struct proc_opened o;
	char path[128], seen[160];
	uint64_t ours, theirs;
	struct stat st;
	struct tree t;
	struct child c;

	tree_make(&t);
	snprintf(path, sizeof path, "%s/lib.so", t.path);
	c = child_start(mount_privately, &(struct private_mount){t.path, "tmpfs", NULL, path});
	if (c.ready < 0) {
		child_stop(&c);
		tree_remove(&t);
		cr_skip("mount namespace: %s", strerror(-c.ready));
	}
	cr_assert_lt(access(path, F_OK), 0);
	snprintf(seen, sizeof seen, "/proc/%d/root%s", c.pid, path);
	cr_assert_eq(stat(seen, &st), 0);
	req = (struct proc_open_request){.pid = (uint32_t)c.pid, .path = path};
	request_inode(&req, &st);
	expect_opened(proc_fd, &req, PROC_OPEN_ROOT, OLD);

	cr_assert_eq(proc_mount_namespace(proc_fd, (uint32_t)getpid(), &ours), 0);
	cr_assert_eq(proc_mount_namespace(proc_fd, (uint32_t)c.pid, &theirs), 0);
	cr_assert_neq(ours, theirs);
	/* As if req.pid had ended and the child were in its namespace; this process is not. */
	req.pid = 0;
	cr_assert_eq(proc_open_other(proc_fd, (uint32_t)c.pid, &req, &o), 0);
	expect_content(&o, PROC_OPEN_OTHER, OLD);
	cr_assert_eq(proc_open_other(proc_fd, (uint32_t)getpid(), &req, &o), -ENOENT);
	child_stop(&c);
	cr_assert_eq(proc_open_other(proc_fd, (uint32_t)c.pid, &req, &o), -ESRCH);
	cr_assert_eq(proc_mount_namespace(proc_fd, (uint32_t)c.pid, &theirs), -ESRCH);
	req.has_inode = false;
	cr_assert_eq(proc_open_other(proc_fd, (uint32_t)getpid(), &req, &o), -EINVAL);
	tree_remove(&t);
}

Test(open_root, ended_process_through_another_one)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct proc_opened o;
	struct mapped m;
	struct child c;

	mapped_make(&m);
	c = child_start(NULL, NULL);
	m.req.pid = (uint32_t)c.pid;
	child_stop(&c);
	expect_error(proc_fd, &m.req, -ESRCH);
	cr_assert_eq(proc_open_other(proc_fd, (uint32_t)getpid(), &m.req, &o), 0);
	expect_content(&o, PROC_OPEN_OTHER, OLD);
	cr_assert_eq(unlink(m.path), 0);
	tree_text(&m.dir, "lib.so", NEW);
	cr_assert_neq(proc_open_other(proc_fd, (uint32_t)getpid(), &m.req, &o), 0);
	mapped_remove(&m);
}

/* A thread that reports when it has a root of its own and, if requested, the main thread has ended. */
struct thread_plan {
	const char *root; /* NULL: the shared root */
	bool main_ends;
	int fd;
};

static void *thread_with_plan(void *data)
{
	struct thread_plan *p = data;
	int proc_fd = proc_root(), r = 0;
	struct proc_stat stat = {0};

	if (p->root && (unshare(CLONE_FS) < 0 || chroot(p->root) < 0))
		r = -errno;
	while (p->main_ends && proc_stat_read(proc_fd, (uint32_t)getpid(), &stat) == 0 && stat.state != 'Z')
		sched_yield();
	if (write(p->fd, &r, sizeof r) != sizeof r)
		_exit(1);
	for (;;)
		pause();
}

static struct child threaded_start(struct thread_plan plan)
{
	struct child c;
	int fds[2];

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	c.pid = fork();
	if (c.pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		plan.fd = fds[1];
		struct thread_plan *p =
			malloc(sizeof *p); /* not on the main thread's stack, which may be freed */

		*p = plan;
		if (pthread_create(&thread, NULL, thread_with_plan, p) != 0)
			_exit(1);
		if (plan.main_ends)
			pthread_exit(NULL);
		for (;;)
			pause();
	}
	close(fds[1]);
	cr_assert_eq(read(fds[0], &c.ready, sizeof c.ready), (ssize_t)sizeof c.ready);
	close(fds[0]);
	return c;
}

Test(open_root, through_a_thread_when_the_main_one_ended)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct mapped m;
	struct child c;

	mapped_make(&m);
	c = threaded_start((struct thread_plan){.main_ends = true});
	m.req.pid = (uint32_t)c.pid;
	expect_opened(proc_fd, &m.req, PROC_OPEN_TASK_ROOT, OLD);
	m.req.inode++;
	/* The ended main thread has no memory, so only root may look into it. */
	expect_error(proc_fd, &m.req, geteuid() ? -EACCES : -ESTALE);
	child_stop(&c);
	mapped_remove(&m);
}

Test(open_root, through_a_thread_with_its_own_root)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct mapped m;
	struct child c;

	mapped_make(&m);
	c = threaded_start((struct thread_plan){.root = m.dir.path});
	if (c.ready < 0) {
		child_stop(&c);
		mapped_remove(&m);
		cr_skip("chroot of a thread: %s", strerror(-c.ready));
	}
	m.req.pid = (uint32_t)c.pid;
	m.req.start = m.req.end = 0;
	m.req.path = "/lib.so";
	expect_opened(proc_fd, &m.req, PROC_OPEN_TASK_ROOT, OLD);
	child_stop(&c);
	mapped_remove(&m);
}

/* The inode and device that /proc/<pid>/maps shows for a range. */
static int maps_identity(const struct proc_maps_line *line, void *data)
{
	struct proc_open_request *req = data;

	if (line->start == req->start) {
		req->has_inode = true;
		req->inode = line->inode;
		req->dev_major = line->dev_major;
		req->dev_minor = line->dev_minor;
	}
	return 0;
}

struct overlay {
	struct private_mount mount;
	const char *file;
	uint64_t start;
	bool copy_up;
};

static int overlay_map(void *data)
{
	struct overlay *o = data;
	int r = mount_privately(&o->mount), fd;
	void *p;

	if (r < 0)
		return r;
	if (o->copy_up && chmod(o->file, 0700) < 0)
		return -errno;
	fd = open(o->file, O_RDONLY | O_CLOEXEC);
	/* a fixed address, so that the parent knows it */
	p = mmap((void *)(uintptr_t)o->start, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE,
		 fd, 0);
	return fd < 0 || p == MAP_FAILED ? -errno : 0;
}

static void overlay_try(bool copy_up)
{
	_cleanup_close_ int proc_fd = proc_root();
	char merged[96], file[128], options[512];
	struct overlay o;
	struct proc_open_request req;
	struct tree t;
	struct child c;

	tree_make(&t);
	tree_text(&t, "layers/lower/lib.so", OLD);
	tree_dir(&t, "layers/upper");
	tree_dir(&t, "layers/work");
	tree_dir(&t, "merged");
	snprintf(merged, sizeof merged, "%s/merged", t.path);
	snprintf(file, sizeof file, "%s/lib.so", merged);
	snprintf(options, sizeof options,
		 "lowerdir=%1$s/layers/lower,upperdir=%1$s/layers/upper,workdir=%1$s/layers/work", t.path);
	o = (struct overlay){.mount = {merged, "overlay", options, NULL},
			     .file = file,
			     .start = 0x20000000,
			     .copy_up = copy_up};
	c = child_start(overlay_map, &o);
	if (c.ready < 0) {
		child_stop(&c);
		tree_remove(&t);
		cr_skip("overlayfs: %s", strerror(-c.ready));
	}
	req = (struct proc_open_request){
		.pid = (uint32_t)c.pid, .start = o.start, .end = o.start + 4096, .path = file};
	cr_assert_geq(proc_maps_read(proc_fd, req.pid, maps_identity, &req), 0);
	cr_assert(req.has_inode);
	expect_opened(proc_fd, &req, PROC_OPEN_MAP_FILES, OLD);
	if (!copy_up) { /* before 6.8 the path of a file that was copied up cannot be proven, see open.h */
		req.start = req.end = 0;
		expect_opened(proc_fd, &req, PROC_OPEN_ROOT, OLD);
		req.inode++;
		expect_error(proc_fd, &req, -ESTALE);
	}
	child_stop(&c);
	tree_remove(&t);
}

Test(open_root, overlayfs)
{
	overlay_try(false);
}

Test(open_root, overlayfs_copied_up)
{
	overlay_try(true);
}
