// SPDX-License-Identifier: Apache-2.0
/*
 * Follows which CPUs are online, by sysfs: reports those that came and went since the last call. A CPU that
 * was offline in between is reported as both, because its events ended with it; it is recognised by the new
 * inode of its topology directory. Needs no rights and no sockets, so it also works in containers, which do
 * not receive the kernel's hotplug messages.
 */
#ifndef PROFLET_PROBE_ONLINE_H
#define PROFLET_PROBE_ONLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ONLINE_SYSFS "/sys/devices/system/cpu"

struct online_cpu {
	int cpu;
	uint64_t life; /* differs after the CPU was offline; 0: unknown */
};

/* Embedded; zeroed: none online. */
struct online {
	struct online_cpu *v; /* owned; ascending */
	size_t n;
};

/* `came`: the CPU is online now, else it went offline. After a negative result the CPU is tried again at the
 * next call. */
typedef int (*online_fn)(int cpu, bool came, void *data);

/*
 * Calls fn for each CPU that went, then for each that came. Returns the number of calls, fn's last negative
 * result, -EBADMSG for a malformed list of CPUs, -ENOMEM or another -errno.
 */
int online_follow(struct online *o, const char *sysfs, online_fn fn, void *data);
void online_fini(struct online *o);

#endif
