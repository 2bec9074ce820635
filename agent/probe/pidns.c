// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/pidns.h"

#include <errno.h>
#include <sys/stat.h>

#define PROC_PID_INIT_INO 0xeffffffcu /* the initial namespace, include/linux/proc_ns.h */

int pidns_inode(uint32_t *ret)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) < 0)
		return -errno;
	*ret = st.st_ino == PROC_PID_INIT_INO ? 0 : (uint32_t)st.st_ino;
	return 0;
}
