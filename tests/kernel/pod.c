// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a program with the rights of a pod: uid 0, and only the eight capabilities. usage: pod
 * PROGRAM [ARG...]
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF 39
#define CAP_CHECKPOINT_RESTORE 40
#endif

static const int eight[] = {CAP_BPF,
			    CAP_PERFMON,
			    CAP_SYS_PTRACE,
			    CAP_SYS_RESOURCE,
			    CAP_DAC_READ_SEARCH,
			    CAP_SYSLOG,
			    CAP_CHECKPOINT_RESTORE,
			    CAP_IPC_LOCK};

static int is_given(int capability)
{
	for (unsigned i = 0; i < sizeof eight / sizeof *eight; i++)
		if (eight[i] == capability)
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: pod PROGRAM [ARG...]\n");
		return 2;
	}
	for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
		if (!is_given(i) && prctl(PR_CAPBSET_DROP, i) < 0) {
			perror("pod");
			return 126;
		}
	execvp(argv[1], argv + 1); /* as root, the program gets the capabilities left in the bounding set */
	perror(argv[1]);
	return 127;
}
