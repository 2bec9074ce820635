// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/config/config.h"
#include "agent/proc/image.h"
#include "agent/track/select.h"
#include "cgroup/meta.h"
#include "cgroup/podtable.h"

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
	.pod_name = "web-0",
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
	{"pod=web-0", NULL, SELECT_YES, SELECT_NO},
	{"pod=shop-blue/web-*", NULL, SELECT_YES, SELECT_NO},
	{"pod=shop-green/web-0", NULL, SELECT_NO, SELECT_NO},
	{"pod=web", NULL, SELECT_NO, SELECT_NO},
	{NULL, "pod=shop-*/web-0", SELECT_NO, SELECT_YES},
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

Test(select, what_it_depends_on)
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

/* --- a process, and the pods that the kubelet has listed */

struct subject {
	struct proc_table *processes;
	struct process *p;
	struct cgroup_meta meta;
	struct pod_table *pods;
};

static const char pod_json[] =
	"{\"items\":[{\"metadata\":{\"uid\":\"uid-1\",\"name\":\"shop-1\",\"namespace\":\"blue\","
	"\"labels\":{\"app\":\"shop\"}},\"status\":{\"containerStatuses\":[{\"name\":\"web\","
	"\"containerID\":\"containerd://" ID "\"}]}}]}";

/* This process, as if it ran nginx in a container of a pod. */
static struct subject subject_new(void)
{
	struct subject a = {.meta = {.identity = {.container_id = ID}}};
	struct pod_list list;
	const char *why;

	cr_assert_eq(proc_table_new(&a.processes, 4, NULL), 0);
	cr_assert_eq(proc_table_add(a.processes, (uint32_t)getpid(), 1, &a.p), 0);
	strcpy(a.p->image->comm, "nginx");
	a.p->image->program->exe = strdup("/usr/sbin/nginx");
	cr_assert_eq(pod_table_new(&a.pods, 16), 0);
	cr_assert_eq(pod_list_parse(pod_json, strlen(pod_json), &list, &why), 0, "%s", why);
	pod_table_update(a.pods, &list, 1);
	return a;
}

static enum select_answer answer_for(struct subject *a, const char *include, bool with_pods)
{
	_cleanup_config_ struct config *config = NULL;
	enum select_answer answer;
	struct selection s;

	load(include, NULL, &config, &s);
	a->p->image->context.data = &a->meta;
	answer = selection_of_process(a->p, with_pods ? a->pods : NULL, &s);
	a->p->image->context.data = NULL; /* the process does not own it */
	selection_fini(&s);
	return answer;
}

Test(select, process_of_a_pod)
{
	static const struct {
		const char *include;
		enum select_answer with_pods, without;
	} table[] = {
		{"comm=nginx", SELECT_YES, SELECT_YES},
		{"exe=nginx", SELECT_YES, SELECT_YES},
		{"container=0123456789ab", SELECT_YES, SELECT_YES},
		{"container=1123456789ab", SELECT_NO, SELECT_NO},
		{"cgroup=/", SELECT_YES, SELECT_YES},
		{"cgroup=/no/such/group", SELECT_NO, SELECT_NO},
		{"namespace=blue", SELECT_YES, SELECT_NO},
		{"namespace=green", SELECT_NO, SELECT_NO},
		{"container_name=web", SELECT_YES, SELECT_NO},
		{"label=app=shop", SELECT_YES, SELECT_NO},
		{"label=tier=shop", SELECT_NO, SELECT_NO},
		{"pod=blue/shop-1", SELECT_YES, SELECT_NO},
		{"pod=blue/shop", SELECT_NO, SELECT_NO},
	};
	struct subject a = subject_new();

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		cr_expect_eq(answer_for(&a, table[i].include, true), table[i].with_pods, "%s",
			     table[i].include);
		cr_expect_eq(answer_for(&a, table[i].include, false), table[i].without, "%s, without pods",
			     table[i].include);
	}
	strcpy(a.meta.identity.container_id, "");
	cr_expect_eq(answer_for(&a, "namespace=blue", true), SELECT_NO, "of no pod");
	cr_expect_eq(answer_for(&a, "container=0123456789ab", true), SELECT_NO);
	pod_table_free(a.pods);
	proc_table_free(a.processes);
}

Test(select, pid_that_is_added)
{
	_cleanup_config_ struct config *config = NULL;
	struct selection s;

	load("comm=other", NULL, &config, &s);
	cr_expect_eq(selection_match(&s, &shop), SELECT_NO);
	for (uint32_t pid = 1; pid <= 7; pid++)
		cr_assert_eq(selection_add_pid(&s, pid), 0);
	cr_expect_eq(selection_match(&s, &shop), SELECT_YES);
	cr_expect_eq(selection_match(&s, &unknown), SELECT_AS_PARENT);
	selection_fini(&s);
}
