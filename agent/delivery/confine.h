// SPDX-License-Identifier: Apache-2.0
/*
 * What the delivery process gives up: capabilities, and every way to look at other processes or to start a
 * program. It keeps its user, since it reads files of that user (keys, tokens) and writes its spool.
 *
 * Files (Landlock): it reads all but /proc and /sys, and writes only below the spool. System calls (seccomp):
 * all but those that trace, read, signal or start processes, load programs into the kernel, or mount; they
 * fail with EPERM. Landlock also forbids what /proc shows to tracers only.
 */
#ifndef PROFLET_DELIVERY_CONFINE_H
#define PROFLET_DELIVERY_CONFINE_H

#include <stdint.h>

/*
 * Confines the calling process, which has one thread, for good. `spool`: the folder it may write to, which
 * is made if need be; NULL: none. `capabilities`: those it keeps of those it has. 0; -errno: capabilities,
 * system calls or files are not confined; whatever else can be, is. Where the kernel has no Landlock, files
 * are as for any process of that user.
 */
int delivery_confine(const char *spool, uint64_t capabilities);

#endif
