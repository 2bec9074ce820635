// SPDX-License-Identifier: Apache-2.0
/*
 * Maps each of the given files executable and runs its code: the instruction at offset 0x1000 jumps to
 * itself. A process for each file, for so many milliseconds of CPU time: runs_files MILLISECONDS FILE...
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CODE_AT 0x1000

static void end(int signo)
{
	(void)signo;
	_exit(0);
}

static void run(const char *path, long milliseconds)
{
	struct itimerval time = {.it_value = {milliseconds / 1000, milliseconds % 1000 * 1000}};
	int fd = open(path, O_RDONLY);
	char *bytes = mmap(NULL, 2 * CODE_AT, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	if (fd < 0 || bytes == MAP_FAILED) {
		perror(path);
		_exit(1);
	}
	signal(SIGPROF, end);
	setitimer(ITIMER_PROF, &time, NULL);
	((void (*)(void))(bytes + CODE_AT))();
	_exit(1);
}

int main(int argc, char **argv)
{
	int failed = 0, status;

	for (int i = 2; i < argc; i++) {
		pid_t pid = fork();

		if (pid == 0)
			run(argv[i], atol(argv[1]));
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			failed = 1;
	}
	return failed;
}
