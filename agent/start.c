// SPDX-License-Identifier: Apache-2.0
/*
 * proflet-start: runs the program proflet of the same folder, with the same arguments. On a busy node, the
 * dynamic loader needs seconds to load the libraries of proflet if the control group of the agent has a
 * small weight. This program is static, so it begins at once, and `proflet-start run` begins urgently
 * (base/urgency.h). `proflet run` alone works as well, but takes longer to start there.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/base/alive.h"
#include "agent/base/exit_code.h"
#include "agent/base/priority.h"

#define LEVEL 1
/* Without a wait; then the kernel sends SIGXCPU, which ends this program and which proflet handles. */
#define RUN_US 1000000u
/* Where the policy is SCHED_DEADLINE. */
#define RUNTIME_NS 50000000u
#define PERIOD_NS 100000000u

/* Without permission, nothing is urgent. */
static void become_urgent(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_RTTIME, &l) < 0)
		return;
	l.rlim_cur = RUN_US < l.rlim_max ? RUN_US : l.rlim_max;
	if (setrlimit(RLIMIT_RTTIME, &l) == 0 && priority_set_urgent(0, LEVEL) == -EPERM)
		(void)priority_set_deadline(0, RUNTIME_NS, PERIOD_NS);
}

static const char *const needed[] = {
#include "needed.h" /* sonames of the libraries of proflet */
};

static void read_ahead(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
	close(fd);
}

/*
 * Has the disk read all of it at once. The loader would wait for one file after the other, each time behind
 * what others read.
 */
static void read_program_ahead(const char *program)
{
	char path[sizeof LIBRARIES + NAME_MAX + 1];

	read_ahead(program);
	for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", LIBRARIES, needed[i]);
		read_ahead(path);
	}
}

/* The path of the program. 0; -ENAMETOOLONG; -ENOENT. */
static int find_program(char path[static PATH_MAX])
{
	const char *started = (const char *)getauxval(AT_EXECFN);
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *name;

	if (n < 0 && started) /* there is no /proc */
		n = snprintf(path, PATH_MAX, "%s", started);
	if (n < 0)
		return -ENOENT;
	if (n >= PATH_MAX)
		return -ENAMETOOLONG;
	path[n] = '\0';
	name = strrchr(path, '/');
	if (!name)
		return -ENOENT;
	name++;
	if (name + sizeof "proflet" > path + PATH_MAX)
		return -ENAMETOOLONG;
	strcpy(name, "proflet");
	return 0;
}

int main(int argc, char **argv)
{
	char path[PATH_MAX] = "/proc/self/exe";
	int r;

	if (alive_is_called(argc, argv)) /* no loader, no other program: a probe has little time */
		return alive_check(argv[2]);
	r = find_program(path);
	if (r == 0) {
		if (argc > 1 && strcmp(argv[1], "run") == 0) {
			become_urgent();
			read_program_ahead(path);
		}
		if (argc > 0)
			argv[0] = path;
		execv(path, argv);
		r = -errno;
	}
	fprintf(stderr, "proflet-start: %s: %s\n", path, strerror(-r));
	return EXIT_FAILED;
}
