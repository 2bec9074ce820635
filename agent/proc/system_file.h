// SPDX-License-Identifier: Apache-2.0
/*
 * Which files are the system's own: only root of the host can have written them, or could put others in
 * their place, and who can do that has the node anyway. All other files may be a tenant's. Rank 1; may
 * include base.
 */
#ifndef PROFLET_PROC_SYSTEM_FILE_H
#define PROFLET_PROC_SYSTEM_FILE_H

#include <stdbool.h>

struct proc_root;

/*
 * Whether `fd`, a file that a process with that root has mapped by that path (as in /proc/<pid>/maps), is one
 * of them: the process is in the host's mount namespace, and not in a chroot; the path begins with a folder
 * of programs or libraries, and leads to the file without symbolic links and mounts; the file and each folder
 * belong to root, and nobody else may write them. A file for which one of these is not known is none.
 */
bool proc_is_system_file(const struct proc_root *root, const char *path, int fd);

#endif
