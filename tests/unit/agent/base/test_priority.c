// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/priority.h"

/* -100: the kernel does not weigh sessions. */
static int session_nice(void)
{
	FILE *f = fopen("/proc/self/autogroup", "re");
	int nice = -100;

	if (!f)
		return nice;
	if (fscanf(f, "/autogroup-%*d nice %d", &nice) != 1)
		nice = -100;
	fclose(f);
	return nice;
}

/* Runs in a session of its own. Returns the number of the step that failed, 0: none. */
static int in_session(void)
{
	int before, wanted = setpriority(PRIO_PROCESS, 0, -1) == 0
				     ? -10
				     : 0; /* whether this process may raise priorities */

	if (setsid() < 0 || session_nice() != 0)
		return 1;
	before = priority_session_raise();
	if (before != 0 || session_nice() != wanted)
		return 2;
	if (priority_session_raise() != session_nice()) /* a second agent of the session */
		return 3;
	priority_session_restore(session_nice()); /* there is nothing to restore */
	if (session_nice() != wanted)
		return 4;
	usleep(200000); /* without permission, the kernel accepts one change in 0.1 s */
	priority_session_restore(before);
	return session_nice() != 0 ? 5 : 0;
}

Test(priority, session_is_raised_and_restored)
{
	int status;
	pid_t pid;

	if (session_nice() == -100)
		cr_skip_test("no sched_autogroup in this kernel");
	pid = fork();
	if (pid == 0)
		_exit(in_session());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "step %d", WEXITSTATUS(status));
}
