// SPDX-License-Identifier: Apache-2.0
/* Whom a command looks at: its options -p and --container. Rank 3. */
#ifndef PROFLET_TARGETS_H
#define PROFLET_TARGETS_H

#include "agent/config.h"
#include "agent/select.h"

struct targets {
	struct config_list pids, containers;
};

/* config_check_fn of an item of each list. */
const char *targets_check_pid(const char *text);
const char *targets_check_container(const char *text);
/*
 * The selection of the configuration with the targets, which go into the configuration's, too. 0, or -errno
 * with, where there is more to say, *ret_why (owned): -ESRCH: there is no such process.
 */
int targets_select(const struct targets *t, struct config *config, struct selection *ret, char **ret_why);
void targets_fini(struct targets *t);

#endif
