// SPDX-License-Identifier: Apache-2.0
/* One socket pair carries both messages: ours to execute, and the child's errno if that fails. */
#include "agent/command/record_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/urgency.h"

static void __attribute__((noreturn)) child_main(int fd, char **argv)
{
	sigset_t none;
	char word;
	int e;

	if (read(fd, &word, 1) != 1)
		_exit(0);
	urgency_restore_limits();
	setpriority(PRIO_PROCESS, 0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(argv[0], argv);
	e = errno;
	if (write(fd, &e, sizeof e) < 0)
		_exit(126);
	_exit(127);
}

int record_child_fork(struct record_child *ret, char **argv)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		child_main(fds[1], argv);
	}
	close(fds[1]);
	if (pid < 0) {
		int r = -errno;

		close(fds[0]);
		return r;
	}
	*ret = (struct record_child){pid, fds[0], (int)syscall(SYS_pidfd_open, pid, 0)};
	if (ret->pid_fd < 0) {
		int r = -errno;

		record_child_end(ret);
		return r;
	}
	return 0;
}

int record_child_go(struct record_child *c)
{
	int e;

	if (write(c->go_fd, "g", 1) != 1)
		return -errno;
	/* closed by a successful execve */
	return read(c->go_fd, &e, sizeof e) == sizeof e ? -e : 0;
}

int record_child_end(struct record_child *c)
{
	int status = 0;

	if (c->go_fd >= 0)
		close(c->go_fd);
	if (c->pid > 0 && waitpid(c->pid, &status, WNOHANG) == 0) {
		kill(c->pid, SIGTERM);
		waitpid(c->pid, &status, 0);
	}
	if (c->pid_fd >= 0)
		close(c->pid_fd);
	*c = RECORD_CHILD_NONE;
	return status;
}
