// SPDX-License-Identifier: Apache-2.0
/*
 * The name, id and architecture of this machine. In a pod, the agent's own host name and files are the pod's.
 * So files of the
 * machine are read below the root of PID 1, which needs hostPID and CAP_SYS_PTRACE.
 */
#ifndef PROFLET_HOST_H
#define PROFLET_HOST_H

/* What could not be found out is "". */
struct host_identity {
	char name[256];
	char id[33];	  /* machine-id(5), 32 digits */
	const char *arch; /* OpenTelemetry's name for it, else uname's; static, or points to `machine` */
	char machine[65];
};

/*
 * Always writes *ret. `node`: the name of this machine in its cluster, NULL: unknown. `proc`: where the
 * machine's /proc is mounted, NULL: /proc.
 */
void host_identity_read(struct host_identity *ret, const char *node, const char *proc);
/*
 * The first word of a text such as /etc/hostname or /etc/machine-id, where lines that begin with # are
 * comments. Writes "" when there is no word, or when it does not fit.
 */
void host_first_word(const char *text, char *ret, unsigned long size);

#endif
