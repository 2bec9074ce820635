// SPDX-License-Identifier: Apache-2.0
/* Whom a command looks at: its options -p and --container. Rank 3. */
#ifndef PROFLET_TARGETS_H
#define PROFLET_TARGETS_H

#include "agent/config/config.h"
#include "agent/track/select.h"

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

/* The options -p and --container of a command (struct config_extra_option), for a struct targets. */
#define TARGETS_OPTIONS(t)                                            \
	{.short_name = 'p',                                           \
	 .name = "pid",                                               \
	 .type = CONFIG_LIST,                                         \
	 .target = &(t).pids,                                         \
	 .check = targets_check_pid,                                  \
	 .form = "a process id",                                      \
	 .value_name = "PID",                                         \
	 .help = "only this process and what it starts; repeatable"}, \
		{.name = "container",                                 \
		 .type = CONFIG_LIST,                                 \
		 .target = &(t).containers,                           \
		 .check = targets_check_container,                    \
		 .form = "12 to 64 hex digits",                       \
		 .value_name = "ID",                                  \
		 .help = "only this container; repeatable"}

#endif
