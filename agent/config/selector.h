// SPDX-License-Identifier: Apache-2.0
/* Selectors: which processes to sample, as written in select.include and select.exclude. */
#ifndef PROFLET_CONFIG_SELECTOR_H
#define PROFLET_CONFIG_SELECTOR_H

#include <stdint.h>

enum config_selector_kind {
	CONFIG_SELECT_PID,
	CONFIG_SELECT_COMM,
	CONFIG_SELECT_CGROUP,
	CONFIG_SELECT_CONTAINER,
	CONFIG_SELECT_EXE,
	CONFIG_SELECT_NAMESPACE, /* this one and those below need the kubelet's metadata */
	CONFIG_SELECT_LABEL,
	CONFIG_SELECT_CONTAINER_NAME,
	CONFIG_SELECT_POD,
};

struct config_selector {
	enum config_selector_kind kind;
	const char *value; /* text after the first '=', borrowed from the string that was parsed */
	uint32_t pid;	   /* CONFIG_SELECT_PID */
};

/*
 * "pid=1", "comm=nginx" (at most 15 bytes, as the kernel stores it), "cgroup=/path", "container=ID" (12 to 64
 * hex digits), "exe=PATH", "namespace=NAME", "label=KEY=VALUE", "container_name=NAME", "pod=NAME" or
 * "pod=NAMESPACE/NAME". The values of the last five are shell patterns (fnmatch(3)). 0 or -EINVAL.
 */
int config_selector_parse(const char *s, struct config_selector *ret);

#endif
