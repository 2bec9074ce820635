// SPDX-License-Identifier: Apache-2.0
#include "agent/parser/progress.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/clock.h"

/* As clock_getcpuclockid(3) makes it, by a system call that parser processes have not. */
#define CPU_CLOCK_OF(pid) ((clockid_t)(~(unsigned)(pid) << 3 | 2u))

bool progress_is_asleep(pid_t pid)
{
	char path[32], stat[512];
	const char *letter;
	int fd, n;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = (int)read(fd, stat, sizeof stat - 1);
	close(fd);
	stat[n > 0 ? n : 0] = '\0';
	letter = strrchr(stat, ')');
	return letter && letter[1] == ' ' && (letter[2] == 'S' || letter[2] == 'D');
}

uint64_t progress_cpu_ns(pid_t pid)
{
	struct timespec ts = {0};

	if (clock_gettime(CPU_CLOCK_OF(pid), &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}
