// SPDX-License-Identifier: Apache-2.0
#include "agent/command/record_child.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void wait_for_end(const struct record_child *c)
{
	struct pollfd p = {.fd = c->pid_fd, .events = POLLIN};

	cr_assert_eq(poll(&p, 1, 120000), 1);
}

Test(record_child, executes_when_told_to)
{
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)"exit 7", NULL};
	struct record_child c = RECORD_CHILD_NONE;
	struct pollfd p;
	int status;

	cr_assert_eq(record_child_fork(&c, argv), 0);
	p = (struct pollfd){.fd = c.pid_fd, .events = POLLIN};
	cr_expect_eq(poll(&p, 1, 50), 0, "it waits");
	cr_assert_eq(record_child_go(&c), 0);
	wait_for_end(&c);
	status = record_child_end(&c);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	cr_expect(c.pid == 0 && c.go_fd == -1 && c.pid_fd == -1);
}

Test(record_child, reports_why_it_cannot_execute)
{
	char *argv[] = {(char *)"/nonexistent/command", NULL};
	struct record_child c = RECORD_CHILD_NONE;

	cr_assert_eq(record_child_fork(&c, argv), 0);
	cr_expect_eq(record_child_go(&c), -ENOENT);
	wait_for_end(&c);
	cr_expect(WIFEXITED(record_child_end(&c)));
}

Test(record_child, ends_without_having_executed)
{
	char *argv[] = {(char *)"sleep", (char *)"1000", NULL};
	struct record_child c = RECORD_CHILD_NONE;
	pid_t pid;

	cr_assert_eq(record_child_fork(&c, argv), 0);
	pid = c.pid;
	(void)record_child_end(&c);
	cr_expect_eq(kill(pid, 0), -1);
	cr_expect_eq(record_child_end(&c), 0, "a second time does nothing");
}

Test(record_child, a_running_command_is_ended)
{
	char *argv[] = {(char *)"sleep", (char *)"1000", NULL};
	struct record_child c = RECORD_CHILD_NONE;
	int status;

	cr_assert_eq(record_child_fork(&c, argv), 0);
	cr_assert_eq(record_child_go(&c), 0);
	status = record_child_end(&c);
	cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}
