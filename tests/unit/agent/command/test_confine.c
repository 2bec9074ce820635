// SPDX-License-Identifier: Apache-2.0
/*
 * What the agent cannot do any more once it samples, and what it still can; each test in a process of its
 * own.
 */
#include "agent/command/confine.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NOWHERE "/nonexistent/folder/file" /* what is not refused says ENOENT */

static void confine(void)
{
	int r;

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	r = confine_agent();
	if (r == -EINVAL)
		cr_skip_test("this kernel has no seccomp filters");
	cr_assert_eq(r, 0, "%s", strerror(-r));
}

static void refused(long result, const char *what)
{
	cr_expect(result == -1 && errno == EPERM, "%s: %ld, %s", what, result, strerror(errno));
}

/* Calls that newer architectures do not have. */
static void refused_old(const char *path)
{
#ifdef SYS_open
	refused(syscall(SYS_open, path, O_WRONLY), "the old call");
#endif
#ifdef SYS_creat
	refused(syscall(SYS_creat, path, 0600), "creat");
#endif
	(void)path;
}

Test(confine, no_file_is_written_made_or_given_away)
{
	const char *path = "/dev/null";
	int fd = memfd_create("confine", MFD_CLOEXEC);

	cr_assert(fd >= 0);
	confine();
	refused(open(path, O_WRONLY), "open to write");
	refused(open(path, O_RDWR), "open to read and write");
	refused(open(path, O_RDONLY | O_TRUNC), "open and truncate");
	refused(open(NOWHERE, O_RDONLY | O_CREAT, 0600), "open and create");
	refused(open("/tmp", O_TMPFILE | O_WRONLY, 0600), "a file without a name");
	refused_old(path);
	refused(syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | 1ll << 40),
		"with bits that the kernel ignores");
	refused(truncate(NOWHERE, 0), "truncate");
	refused(rename(NOWHERE, NOWHERE), "rename");
	refused(link(NOWHERE, NOWHERE), "link");
	refused(symlink(NOWHERE, NOWHERE), "symlink");
	refused(unlink(NOWHERE), "unlink");
	refused(mkdir(NOWHERE, 0700), "mkdir");
	refused(rmdir(NOWHERE), "rmdir");
	refused(mknod(NOWHERE, S_IFIFO | 0600, 0), "mknod");
	refused(chmod(NOWHERE, 0777), "chmod");
	refused(fchmod(fd, 0777), "fchmod");
	refused(chown(NOWHERE, 1, 1), "chown");
	refused(fchown(fd, 1, 1), "fchown");
	refused(setxattr(NOWHERE, "user.x", "y", 1, 0), "setxattr");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_expect(fd >= 0, "to read it is what the agent is for: %s", strerror(errno));
}

Test(confine, no_other_process_is_changed_and_no_program_started)
{
	char word[8] = {0}, *const argv[] = {(char *)"true", NULL};
	struct iovec here = {.iov_base = word, .iov_len = sizeof word}, there = here;
	const struct rlimit limit = {1, 1};

	confine();
	refused(process_vm_writev(getpid(), &here, 1, &there, 1, 0), "process_vm_writev");
	refused(open("/proc/self/mem", O_RDWR), "memory of a process, to write");
	refused(syscall(SYS_pidfd_getfd, -1, 0, 0), "pidfd_getfd");
	refused(execv("/bin/true", argv), "execve");
	refused(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, NULL, 0), "execveat");
	refused(syscall(SYS_prlimit64, getppid(), RLIMIT_CORE, &limit, NULL), "limits of another");
	cr_expect_eq(process_vm_readv(getpid(), &here, 1, &there, 1, 0), (ssize_t)sizeof word,
		     "to read it is what the agent is for: %s", strerror(errno));
}

Test(confine, no_program_is_loaded_into_the_kernel)
{
	union bpf_attr none = {0};

	confine();
	refused(syscall(SYS_bpf, BPF_PROG_LOAD, &none, sizeof none), "a BPF program");
	refused(syscall(SYS_bpf, BPF_PROG_LOAD | 1ll << 40, &none, sizeof none),
		"with bits that the kernel ignores");
	refused(syscall(SYS_bpf, BPF_OBJ_PIN, &none, sizeof none), "a name for a map");
	refused(syscall(SYS_init_module, NULL, 0, ""), "a module");
	refused(syscall(SYS_io_uring_setup, 1, NULL), "io_uring");
	errno = 0;
	(void)syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &none, sizeof none);
	cr_expect(errno == EBADF || errno == EINVAL || errno == EPERM, "maps are used: %s", strerror(errno));
}

Test(confine, no_connection_is_made_and_nothing_mounted)
{
	const struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0);
	confine();
	refused(connect(fd, (const struct sockaddr *)&address, sizeof address), "connect");
	refused(bind(fd, (const struct sockaddr *)&address, sizeof address), "bind");
	refused(listen(fd, 1), "listen");
	refused(syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL), "mount");
	refused(unshare(CLONE_NEWUSER), "another user namespace");
	refused(setuid(1), "another user");
}

struct gate {
	int pipe[2];
	int error; /* of an open to write; 0: it succeeded */
};

static void *try_later(void *data)
{
	struct gate *g = data;
	char c;

	if (read(g->pipe[0], &c, 1) == 1)
		g->error = open("/dev/null", O_WRONLY | O_CLOEXEC) < 0 ? errno : 0;
	return NULL;
}

Test(confine, threads_that_run_already_are_confined_too)
{
	struct gate g = {.error = -1};
	pthread_t thread;

	cr_assert_eq(pipe(g.pipe), 0);
	cr_assert_eq(pthread_create(&thread, NULL, try_later, &g), 0);
	confine();
	cr_assert_eq(write(g.pipe[1], "x", 1), 1);
	pthread_join(thread, NULL);
	cr_expect_eq(g.error, EPERM, "%s", strerror(g.error));
}
