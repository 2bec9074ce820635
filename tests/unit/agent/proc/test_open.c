// SPDX-License-Identifier: Apache-2.0
/* Against real processes. What a process cannot be made to do here stands in test_open_tree.c, over a tree of
 * ours. */
#include "tests/unit/agent/proc/tree.h"

#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "agent/proc/maps.h"
#include "agent/proc/open.h"
#include "agent/proc/scan.h"
#include "agent/proc/stat.h"

#define OLD "the file that is mapped"
#define NEW "another file of that name"

/* A file mapped executable by this process, and so by each child that it forks. */
struct mapped {
	struct tree dir;
	char path[128];
	void *page;
	struct proc_open_request req;
};

static void request_inode(struct proc_open_request *req, const struct stat *st)
{
	req->has_inode = true;
	req->inode = st->st_ino;
	req->dev_major = major(st->st_dev);
	req->dev_minor = minor(st->st_dev);
}

static void map_fd(struct mapped *m, int fd)
{
	struct stat st;

	m->page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	cr_assert_neq(m->page, MAP_FAILED);
	cr_assert_eq(fstat(fd, &st), 0);
	m->req = (struct proc_open_request){.start = (uint64_t)(uintptr_t)m->page, .path = m->path};
	m->req.end = m->req.start + 4096;
	request_inode(&m->req, &st);
}

static void mapped_make(struct mapped *m)
{
	_cleanup_close_ int fd = -1;

	tree_make(&m->dir);
	tree_text(&m->dir, "lib.so", OLD);
	snprintf(m->path, sizeof m->path, "%s/lib.so", m->dir.path);
	fd = open(m->path, O_RDONLY | O_CLOEXEC);
	map_fd(m, fd);
}

/* Also forgets the mapping, so that only the children have it. */
static void mapped_remove(struct mapped *m)
{
	munmap(m->page, 4096);
	tree_remove(&m->dir);
}

static void expect_content(const struct proc_opened *o, enum proc_open_way way, const char *text)
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

static void expect_opened(int proc_fd, const struct proc_open_request *req, enum proc_open_way way,
			  const char *text)
{
	struct proc_opened o = {.fd = -1};
	int r = proc_open_mapping(proc_fd, req, &o);

	cr_assert_eq(r, 0, "%s", strerror(-r));
	expect_content(&o, way, text);
}

static void expect_error(int proc_fd, const struct proc_open_request *req, int error)
{
	struct proc_opened o = {.fd = -77};
	int r = proc_open_mapping(proc_fd, req, &o);

	cr_expect_eq(r, error, "got %d, not %d", r, error);
	cr_expect_eq(o.fd, -77, "written on failure");
}

static int count_fd(uint32_t fd, void *data)
{
	(void)fd;
	++*(int *)data;
	return 0;
}

/* Descriptors above 0 that are open; a leak shows as a difference. */
static int open_fds(void)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	cr_assert(dir);
	for (struct dirent *e; (e = readdir(dir));)
		count_fd(0, &n);
	return n;
}

static bool map_files_work(int proc_fd, const struct mapped *m, pid_t pid)
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
	m.req.end += 4096; /* no such mapping */
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
	m.req.start = 0;
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
	m.req.start = 0;
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
	m.req.start = 0;
	expect_error(proc_fd, &m.req, -ESTALE);
	child_stop(&c);
	mapped_remove(&m);
}

/* The range is mapped anew from another file: map_files gives that one, the path still the right one. */
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

Test(open, magic_links_in_the_path_lead_nowhere)
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

Test(open, a_chroot_is_not_left)
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
	const char *file; /* written there with OLD; NULL: none */
};

/* Mounts something that only this process and its children see. */
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

Test(open, through_another_mount_namespace)
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
	/* as if req.pid had ended, and the child were its neighbour; we are not */
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

Test(open, ended_process_through_another_one)
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

/* A thread that reports once it has a root of its own and the main thread is gone, if that is wanted. */
struct thread_plan {
	const char *root; /* NULL: keep the shared one */
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
		struct thread_plan *p = malloc(sizeof *p); /* the main thread's stack may go */

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

Test(open, through_a_thread_when_the_main_one_ended)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct mapped m;
	struct child c;

	mapped_make(&m);
	c = threaded_start((struct thread_plan){.main_ends = true});
	m.req.pid = (uint32_t)c.pid;
	expect_opened(proc_fd, &m.req, PROC_OPEN_TASK_ROOT, OLD);
	m.req.inode++;
	expect_error(proc_fd, &m.req, -ESTALE);
	child_stop(&c);
	mapped_remove(&m);
}

Test(open, through_a_thread_with_its_own_root)
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
	m.req.start = 0;
	m.req.path = "/lib.so";
	expect_opened(proc_fd, &m.req, PROC_OPEN_TASK_ROOT, OLD);
	child_stop(&c);
	mapped_remove(&m);
}

/* In a child: takes capabilities away, tries, and reports errno (or the way + 1000) as its exit code's text.
 */
struct attempt {
	uint32_t drop[4]; /* capability numbers */
	size_t n_drop;
	bool as_nobody;
	const struct proc_open_request *req;
};

static int attempt_run(void *data)
{
	struct attempt *a = data;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];
	int proc_fd = proc_root(), r;
	struct proc_opened o;

	if (a->as_nobody && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
		return -EDOM;
	if (syscall(SYS_capget, &header, caps) < 0)
		return -EDOM;
	for (size_t i = 0; i < a->n_drop; i++)
		caps[a->drop[i] / 32].effective &= ~(1u << (a->drop[i] % 32));
	if (syscall(SYS_capset, &header, caps) < 0)
		return -EDOM;
	r = proc_open_mapping(proc_fd, a->req, &o);
	return r < 0 ? r : 1000 + (int)o.way;
}

Test(open, says_which_right_is_missing)
{
	enum { CHECKPOINT = CAP_CHECKPOINT_RESTORE, ADMIN = CAP_SYS_ADMIN };
	_cleanup_close_ int proc_fd = proc_root();
	struct mapped m;
	struct proc_open_request deleted;
	struct child c, tried;

	mapped_make(&m);
	c = child_start(NULL, NULL);
	m.req.pid = (uint32_t)c.pid;
	need_map_files(proc_fd, &m, &c);
	deleted = m.req;
	deleted.deleted = true;
	const struct {
		struct attempt attempt;
		int want;
	} cases[] = {
		{{.req = &m.req}, 1000 + PROC_OPEN_MAP_FILES},
		{{.drop = {CHECKPOINT, ADMIN}, .n_drop = 2, .req = &m.req}, 1000 + PROC_OPEN_ROOT},
		{{.drop = {CHECKPOINT, ADMIN}, .n_drop = 2, .req = &deleted}, -EPERM},
		{{.as_nobody = true, .req = &m.req}, -EACCES},
		{{.as_nobody = true, .req = &deleted}, -EACCES},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct attempt a = cases[i].attempt;

		tried = child_start(attempt_run, &a);
		cr_expect_eq(tried.ready, cases[i].want, "case %zu: %d", i, tried.ready);
		child_stop(&tried);
	}
	child_stop(&c);
	mapped_remove(&m);
}

Test(open, out_of_descriptors_is_said_at_once)
{
	_cleanup_close_ int proc_fd = proc_root();
	struct rlimit limit;
	struct mapped m;
	int dup_fd;

	mapped_make(&m);
	m.req.pid = (uint32_t)getpid();
	dup_fd = dup(proc_fd);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int more = 0; more < 3; more++) {
		struct rlimit tight = {.rlim_cur = (rlim_t)(dup_fd + more), .rlim_max = limit.rlim_max};

		close(dup_fd);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
		expect_error(proc_fd, &m.req, -EMFILE);
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		cr_assert_eq(dup(proc_fd), dup_fd);
	}
	close(dup_fd);
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
	/* the address is given, so that the parent knows it */
	p = mmap((void *)(uintptr_t)o->start, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE,
		 fd, 0);
	return fd < 0 || p == MAP_FAILED ? -errno : 0;
}

static void overlay_try(bool copy_up, bool same_fs)
{
	_cleanup_close_ int proc_fd = proc_root();
	char merged[96], file[128], options[512];
	struct overlay o;
	struct proc_open_request req;
	struct tree t;
	struct child c;

	(void)same_fs;
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
	if (!copy_up) { /* see open.h: before 6.8 the path of a file copied up cannot be proven */
		req.start = 0;
		expect_opened(proc_fd, &req, PROC_OPEN_ROOT, OLD);
		req.inode++;
		expect_error(proc_fd, &req, -ESTALE);
	}
	child_stop(&c);
	tree_remove(&t);
}

Test(open, overlayfs)
{
	overlay_try(false, true);
}

Test(open, overlayfs_copied_up)
{
	overlay_try(true, true);
}

struct killer {
	pid_t pid;
	unsigned yields;
};

static void *kill_soon(void *data)
{
	struct killer *k = data;

	for (unsigned i = 0; i < k->yields; i++)
		sched_yield();
	kill(k->pid, SIGKILL);
	waitpid(k->pid, NULL, 0);
	return NULL;
}

/* The process ends at any point of the attempt: a result or a plain error, and no descriptor left behind. */
Test(open, survives_a_process_that_ends_meanwhile)
{
	_cleanup_close_ int proc_fd = proc_root();
	unsigned ok = 0, gone = 0;
	struct mapped m;
	int fds;

	mapped_make(&m);
	fds = open_fds();
	for (unsigned i = 0; i < 150; i++) {
		struct child c = child_start(NULL, NULL);
		struct killer k = {c.pid, i % 50};
		struct proc_opened o;
		pthread_t thread;
		int r = 0;

		m.req.pid = (uint32_t)c.pid;
		m.req.deleted = i & 1;
		cr_assert_eq(pthread_create(&thread, NULL, kill_soon, &k), 0);
		while (r != -ESRCH) {
			r = proc_open_mapping(proc_fd, &m.req, &o);
			if (r == 0)
				close(o.fd);
			ok += r == 0;
			gone += r == -ESRCH;
			/* -ENOENT: dead, and not yet waited for */
			cr_assert(r == 0 || r == -ESRCH || r == -ENOENT || (geteuid() && r == -EPERM), "%d",
				  r);
		}
		pthread_join(thread, NULL);
	}
	cr_assert_eq(gone, 150);
	cr_assert_gt(ok, 0);
	cr_assert_eq(open_fds(), fds);
	mapped_remove(&m);
}
