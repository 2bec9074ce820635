// SPDX-License-Identifier: Apache-2.0
#include "agent/config/selector.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"

Test(selector, kinds_and_limits)
{
	static const struct {
		const char *text;
		int r;
		enum config_selector_kind kind;
		const char *value;
	} table[] = {
		{"pid=1", 0, CONFIG_SELECT_PID, "1"},
		{"pid=0", -EINVAL, 0, NULL},
		{"pid=4294967296", -EINVAL, 0, NULL},
		{"pid=x", -EINVAL, 0, NULL},
		{"comm=a b=c", 0, CONFIG_SELECT_COMM, "a b=c"},
		{"comm=", -EINVAL, 0, NULL},
		{"cgroup=/", 0, CONFIG_SELECT_CGROUP, "/"},
		{"cgroup=a", -EINVAL, 0, NULL},
		{"container=0123456789ab", 0, CONFIG_SELECT_CONTAINER, "0123456789ab"},
		{"container=0123456789a", -EINVAL, 0, NULL},
		{"container=0123456789aB", -EINVAL, 0, NULL},
		{"comm=0123456789abcde", 0, CONFIG_SELECT_COMM, "0123456789abcde"},
		{"comm=0123456789abcdef", -EINVAL, 0, NULL},
		{"exe=/usr/bin/*", 0, CONFIG_SELECT_EXE, "/usr/bin/*"},
		{"exe=", -EINVAL, 0, NULL},
		{"namespace=team-?", 0, CONFIG_SELECT_NAMESPACE, "team-?"},
		{"namespace=", -EINVAL, 0, NULL},
		{"label=app=web", 0, CONFIG_SELECT_LABEL, "app=web"},
		{"label=app=", 0, CONFIG_SELECT_LABEL, "app="},
		{"label=app", -EINVAL, 0, NULL},
		{"label==web", -EINVAL, 0, NULL},
		{"container_name=web", 0, CONFIG_SELECT_CONTAINER_NAME, "web"},
		{"container_name=", -EINVAL, 0, NULL},
		{"pod=web-*", 0, CONFIG_SELECT_POD, "web-*"},
		{"pod=shop/web-0", 0, CONFIG_SELECT_POD, "shop/web-0"},
		{"pod=", -EINVAL, 0, NULL},
		{"pod=shop/", -EINVAL, 0, NULL},
		{"pod=/web-0", -EINVAL, 0, NULL},
		{"pod=a/b/c", -EINVAL, 0, NULL},
		{"image=1", -EINVAL, 0, NULL},
		{"", -EINVAL, 0, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct config_selector s = {.pid = 4711};

		cr_expect_eq(config_selector_parse(table[i].text, &s), table[i].r, "row %zu", i);
		if (table[i].r == 0) {
			cr_expect_eq(s.kind, table[i].kind, "row %zu", i);
			cr_expect_str_eq(s.value, table[i].value);
			cr_expect_eq(s.pid, s.kind == CONFIG_SELECT_PID ? 1u : 0u, "row %zu", i);
		} else {
			cr_expect_eq(s.pid, 4711u, "row %zu: an error changed the result", i);
		}
	}
}
