// SPDX-License-Identifier: Apache-2.0
/*
 * What the agent's own process gives up once it samples. It looks at every process of the node, and handles
 * bytes that tenants chose: whoever gets hold of it shall be able to look, but not to change anything.
 *
 * System calls (seccomp), for all of its threads: no file is opened for writing, made, renamed, removed or
 * given away; no memory of another process is written, none is traced, no descriptor taken from one; no
 * program is started, none loaded into the kernel; no connection is made; nothing is mounted. They fail with
 * EPERM. Landlock cannot be used: it would also hide other processes.
 */
#ifndef PROFLET_COMMAND_CONFINE_H
#define PROFLET_COMMAND_CONFINE_H

/*
 * Confines the calling process and all its threads, for good; NO_NEW_PRIVS must be set. Processes that it has
 * forked before are as they were. 0; -errno: nothing is confined (-EINVAL: a kernel without seccomp filters).
 */
int confine_agent(void);

#endif
