// SPDX-License-Identifier: Apache-2.0
#include "agent/config/selector.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/parse.h"

int config_selector_parse(const char *s, struct config_selector *ret)
{
	static const char *const names[] = {
		[CONFIG_SELECT_PID] = "pid=",	    [CONFIG_SELECT_COMM] = "comm=",
		[CONFIG_SELECT_CGROUP] = "cgroup=", [CONFIG_SELECT_CONTAINER] = "container=",
		[CONFIG_SELECT_EXE] = "exe=",	    [CONFIG_SELECT_NAMESPACE] = "namespace=",
		[CONFIG_SELECT_LABEL] = "label=",   [CONFIG_SELECT_CONTAINER_NAME] = "container_name=",
		[CONFIG_SELECT_POD] = "pod=",
	};
	struct config_selector parsed = {0};
	size_t i = 0, len;

	while (i < ARRAY_SIZE(names) && strncmp(s, names[i], strlen(names[i])) != 0)
		i++;
	if (i == ARRAY_SIZE(names))
		return -EINVAL;
	parsed.kind = (enum config_selector_kind)i;
	parsed.value = s + strlen(names[i]);
	len = strlen(parsed.value);
	switch (parsed.kind) {
	case CONFIG_SELECT_PID:
		if (parse_u32(parsed.value, &parsed.pid) < 0 || parsed.pid == 0 || parsed.pid > INT32_MAX)
			return -EINVAL;
		break;
	case CONFIG_SELECT_COMM:
		if (len < 1 || len > 15)
			return -EINVAL;
		break;
	case CONFIG_SELECT_CGROUP:
		if (parsed.value[0] != '/')
			return -EINVAL;
		break;
	case CONFIG_SELECT_CONTAINER:
		if (len < 12 || len > 64 || strspn(parsed.value, "0123456789abcdef") != len)
			return -EINVAL;
		break;
	case CONFIG_SELECT_LABEL:
		if (parsed.value[0] == '=' || !strchr(parsed.value, '='))
			return -EINVAL;
		break;
	case CONFIG_SELECT_POD:
		if (len < 1 || parsed.value[0] == '/' || parsed.value[len - 1] == '/' ||
		    strchr(parsed.value, '/') != strrchr(parsed.value, '/'))
			return -EINVAL;
		break;
	case CONFIG_SELECT_EXE:
	case CONFIG_SELECT_NAMESPACE:
	case CONFIG_SELECT_CONTAINER_NAME:
		if (len < 1)
			return -EINVAL;
		break;
	}
	*ret = parsed;
	return 0;
}
