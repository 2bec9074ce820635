// SPDX-License-Identifier: Apache-2.0
/* Preflight: would `run` work on this system? The single checks are in checks.h. */
#ifndef PROFLET_CHECK_H
#define PROFLET_CHECK_H

#include "agent/check/check_result.h"

struct check_view;
struct config;

/* Runs every check on a view, such as check_view_real. */
void check_run(const struct check_view *view, const struct config *config, struct check_report *ret);

/* For commands that are about to start, on the running system: */

/*
 * 0; -EPERM with the capabilities that are missing in *ret_missing (one line, owned by the caller): exit code
 * 3; -ENOMEM.
 */
int check_permissions(char **ret_missing);
/*
 * 0; -EOPNOTSUPP with *ret_why (one line, owned by the caller) on a kernel that is too old, or that can
 * deadlock when the program of a perf event reads user memory; -ENOMEM.
 */
int check_kernel_supported(char **ret_why);
/* Calls fn for each optional capability that is missing, with what is lost without it, until fn returns
 * nonzero, which is then returned. */
int check_lost(int (*fn)(const char *name, const char *lost, void *data), void *data);

#endif
