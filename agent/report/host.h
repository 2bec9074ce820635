// SPDX-License-Identifier: Apache-2.0
/*
 * What this machine is called. In a pod our own name and files are the pod's; the machine's are PID 1's, as
 * far as we may look (hostPID, CAP_SYS_PTRACE)..
 */
#ifndef PROFLET_HOST_H
#define PROFLET_HOST_H

/* Every text may be "". */
struct host_identity {
	char name[256];
	char id[33];	  /* machine-id(5), 32 digits */
	const char *arch; /* as OpenTelemetry has it, else as uname; static or borrowed from `machine` */
	char machine[65];
};

/*
 * Always writes *ret; what cannot be found out is "". `node`: the name of this machine in its cluster, NULL:
 * unknown. `proc`: where the machine's /proc is mounted, NULL: /proc.
 */
void host_identity_read(struct host_identity *ret, const char *node, const char *proc);
/* The first word of a text like /etc/hostname or /etc/machine-id, without comments; "" for none, or one too
 * long. */
void host_first_word(const char *text, char *ret, unsigned long size);

#endif
