// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/config/config.h"
#include "agent/track/select.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *label_of(const void *pod, const char *key, size_t key_len)
{
	(void)pod;
	return key_len == 3 && memcmp(key, "app", 3) == 0 ? "shop" : NULL;
}

static const struct select_identity shop = {
	.pid = 7,
	.comm = "nginx",
	.executable = "/usr/sbin/nginx",
	.cgroups = "5:memory:/kubepods/pod1/x\n0::/system.slice/a.service\n",
	.container_id = ID,
	.namespace = "shop-blue",
	.container_name = "web",
	.label = label_of,
};
static const struct select_identity unknown = {.pid = 8};

static const struct {
	const char *include, *exclude;
	enum select_answer shop, unknown;
} rows[] = {
	{NULL, NULL, SELECT_YES, SELECT_YES},
	{"pid=7", NULL, SELECT_YES, SELECT_AS_PARENT},
	{"comm=nginx", NULL, SELECT_YES, SELECT_NO},
	{"comm=ngin", NULL, SELECT_NO, SELECT_NO},
	{NULL, "comm=nginx", SELECT_NO, SELECT_YES},
	{"exe=/usr/sbin/nginx", NULL, SELECT_YES, SELECT_NO},
	{"exe=nginx", NULL, SELECT_YES, SELECT_NO},
	{"exe=/usr/*/ngin?", NULL, SELECT_YES, SELECT_NO},
	{"exe=sbin/nginx", NULL, SELECT_NO, SELECT_NO},
	{"cgroup=/system.slice", NULL, SELECT_YES, SELECT_NO},
	{"cgroup=/system.slice/a.service/", NULL, SELECT_YES, SELECT_NO},
	{"cgroup=/system.slice/a", NULL, SELECT_NO, SELECT_NO},
	{"cgroup=/kubepods/pod1", NULL, SELECT_YES, SELECT_NO},
	{"cgroup=/", NULL, SELECT_YES, SELECT_NO},
	{"container=0123456789ab", NULL, SELECT_YES, SELECT_NO},
	{"container=1123456789ab", NULL, SELECT_NO, SELECT_NO},
	{"namespace=shop-blue", NULL, SELECT_YES, SELECT_NO},
	{"namespace=shop-*", NULL, SELECT_YES, SELECT_NO},
	{"namespace=shop", NULL, SELECT_NO, SELECT_NO},
	{NULL, "namespace=shop-*", SELECT_NO, SELECT_YES},
	{"label=app=shop", NULL, SELECT_YES, SELECT_NO},
	{"label=app=s*", NULL, SELECT_YES, SELECT_NO},
	{"label=app=store", NULL, SELECT_NO, SELECT_NO},
	{"label=tier=shop", NULL, SELECT_NO, SELECT_NO},
	{"container_name=web", NULL, SELECT_YES, SELECT_NO},
	{"namespace=shop-blue", "container_name=web", SELECT_NO, SELECT_NO},
	{"comm=other,label=app=shop", NULL, SELECT_YES, SELECT_NO},
};

static void load(const char *include, const char *exclude, struct config **config, struct selection *s)
{
	char *argv[5] = {(char *)"run"};
	char *error = NULL;
	int n = 1;

	if (include) {
		argv[n++] = (char *)"--select.include";
		argv[n++] = (char *)include;
	}
	if (exclude) {
		argv[n++] = (char *)"--select.exclude";
		argv[n++] = (char *)exclude;
	}
	cr_assert_eq(config_load(config, n, argv, NULL, 0, NULL, &error), 0, "%s", error);
	cr_assert_eq(selection_init(s, *config), 0);
}

Test(select, identities)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_config_ struct config *config = NULL;
		struct selection s;

		load(rows[i].include, rows[i].exclude, &config, &s);
		cr_expect_eq(selection_match(&s, &shop), rows[i].shop, "row %zu", i);
		cr_expect_eq(selection_match(&s, &unknown), rows[i].unknown, "row %zu, unknown", i);
		selection_fini(&s);
	}
}

Test(select, what_it_asks_for)
{
	static const struct {
		const char *include, *exclude;
		bool cgroup, pod;
	} table[] = {
		{NULL, NULL, false, false},	   {"pid=1,comm=x,exe=y", NULL, false, false},
		{NULL, "cgroup=/x", true, false},  {"container=0123456789ab", NULL, true, false},
		{NULL, "namespace=x", true, true}, {"label=a=b", NULL, true, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_config_ struct config *config = NULL;
		struct selection s;

		load(table[i].include, table[i].exclude, &config, &s);
		cr_expect_eq(selection_by_cgroup(&s), table[i].cgroup, "row %zu", i);
		cr_expect_eq(selection_by_pod(&s), table[i].pod, "row %zu", i);
		selection_fini(&s);
	}
}
