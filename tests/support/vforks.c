// SPDX-License-Identifier: Apache-2.0
/*
 * Starts a program by vfork, as shells do, over and over: the child runs on the stack of its parent, which
 * goes on, and writes over that stack, as soon as execve has let go of the memory.
 *
 * usage: vforks TIMES PROGRAM
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned sum;

/* What the parent does next: calls that leave return addresses of their own where the child's were. */
static __attribute__((noinline)) void overwrite(unsigned depth)
{
	if (depth)
		overwrite(depth - 1);
	sum += depth;
}

static __attribute__((noinline)) void replace(char *program)
{
	char *argv[] = {program, NULL}, *env[] = {NULL};

	execve(program, argv, env);
	_exit(127);
}

static __attribute__((noinline)) int start(char *program)
{
	int status = 1;
	pid_t pid = vfork();

	if (pid == 0)
		replace(program);
	for (int i = 0; i < 2000; i++)
		overwrite(8);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	for (int left = atoi(argv[1]); left > 0; left--)
		if (!start(argv[2]))
			return 1;
	return 0;
}
