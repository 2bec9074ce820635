// SPDX-License-Identifier: Apache-2.0
/*
 * Filters that refuse system calls (seccomp(2), libseccomp) to a process of the agent that has started: it
 * goes on with EPERM. All have what no such process needs; each adds its own. Parser processes are allowed
 * what they need instead (parser/sandbox.h).
 */
#ifndef PROFLET_BASE_CONFINEMENT_H
#define PROFLET_BASE_CONFINEMENT_H

#include <seccomp.h>
#include <stddef.h>

#define CONFINEMENT_REFUSE SCMP_ACT_ERRNO(EPERM)

/*
 * A filter that refuses what changes, starts or stops other programs, the kernel, namespaces and mounts.
 * 0: *ret is owned by the caller until confinement_load(). -ENOMEM, or what libseccomp says.
 */
int confinement_new(scmp_filter_ctx *ret);
/* Refuses `n` calls more (SCMP_SYS). 0 or -errno. */
int confinement_refuse(scmp_filter_ctx filter, const int *calls, size_t n);
/*
 * Puts the filter into force, if r is 0, and frees it, which is NULL or from confinement_new(). The thread
 * needs no_new_privs or CAP_SYS_ADMIN. Returns r, or 0 or -errno: nothing is restricted.
 */
int confinement_load(scmp_filter_ctx filter, int r);

#endif
