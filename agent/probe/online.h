// SPDX-License-Identifier: Apache-2.0
/*
 * Which CPUs are online, by sysfs: what came and went since it was asked last. A CPU that was away in between
 * counts as both, because its events ended with it: its topology folder is another one then. No rights, no
 * sockets: hotplug is seen in a container as well, where the kernel's own messages do not come. Rank 1.
 */
#ifndef PROFLET_PROBE_ONLINE_H
#define PROFLET_PROBE_ONLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ONLINE_SYSFS "/sys/devices/system/cpu"

struct online_cpu {
	int cpu;
	uint64_t life; /* of this CPU, other than before it was offline; 0: not known */
};

/* Embedded; zeroed is "none online". */
struct online {
	struct online_cpu *v; /* owned; ascending */
	size_t n;
};

/* `came`: the CPU is to be used; a negative result leaves it out, until it is tried again at the next call.
 */
typedef int (*online_fn)(int cpu, bool came, void *data);

/*
 * Calls fn for each CPU that went, then for each that came. Returns the number of calls, fn's last negative
 * result, -EBADMSG for a list that is none, -ENOMEM or another -errno.
 */
int online_follow(struct online *o, const char *sysfs, online_fn fn, void *data);
void online_fini(struct online *o);

#endif
