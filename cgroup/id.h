// SPDX-License-Identifier: Apache-2.0
/* The workload of a live process: reads /proc/<pid>/cgroup and parses it with path.h. */
#ifndef PROFLET_CGROUP_ID_H
#define PROFLET_CGROUP_ID_H

#include <sys/types.h>

#include "cgroup/path.h"

/*
 * `proc_fd` is a directory descriptor of a procfs, borrowed; < 0: /proc. `pid` is as in that procfs; `from`
 * as for cgroup_path_parse. 0, also when nothing in the file was recognised; -ESRCH when the process is gone;
 * -EFBIG for a file larger than any the kernel writes; -ENOMEM; or another negative errno of open and read.
 * *ret is written on success only.
 */
int cgroup_id_read(int proc_fd, pid_t pid, const struct cgroup_observer *from, struct cgroup_identity *ret);

#endif
