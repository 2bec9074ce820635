// SPDX-License-Identifier: Apache-2.0
/* Which resource a process belongs to, its attributes, and the order of a window's entries by resource. */
#include <stdlib.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/report/resource_attrs.h"
#include "agent/report/window.h"
#include "cgroup/podtable.h"
#include "fake_machine.h"

#define CONTAINER_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define CONTAINER_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define POD "11111111-2222-3333-4444-555555555555"

struct scene {
	struct machine m;
	struct resources *resources;
	struct pod_table *pods;
	struct otlp_attr attrs[RESOURCE_ATTRS_MAX];
	size_t n;
};

static void scene_init(struct scene *s)
{
	s->resources = NULL;
	machine_init(&s->m, 1);
	cr_assert_eq(pod_table_new(&s->pods, 16), 0);
}

static void scene_fini(struct scene *s)
{
	resources_free(s->resources);
	pod_table_free(s->pods);
	machine_fini(&s->m);
}

#define _cleanup_scene_ _cleanup_(scene_fini)

static void scene_open(struct scene *s, bool pods)
{
	cr_assert_eq(resources_new(&s->resources, &s->m.config, pods ? s->pods : NULL), 0);
}

/* The kubelet lists one pod with container A. */
static void list_pod(struct scene *s)
{
	static const char text[] =
		"{\"items\":[{\"metadata\":{\"uid\":\"" POD
		"\",\"name\":\"shop-7d9\",\"namespace\":\"sales\","
		"\"ownerReferences\":[{\"kind\":\"DaemonSet\",\"name\":\"shop\",\"controller\":true}]},"
		"\"spec\":{\"containers\":[{\"name\":\"web\",\"image\":\"registry/shop:1.2\"}]},"
		"\"status\":{\"containerStatuses\":[{\"name\":\"web\",\"containerID\":\"containerd:/"
		"/" CONTAINER_A "\"}]}}]}";
	struct pod_list l;
	const char *why = NULL;

	cr_assert_eq(pod_list_parse(text, strlen(text), &l, &why), 0, "%s", why);
	pod_table_update(s->pods, &l, machine_now_ns);
}

/* The value of an attribute of the process's resource, "" where it has none. */
static const char *value(struct scene *s, const struct process *p, const char *key)
{
	s->n = resource_attrs(s->resources, p->image, s->attrs);
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->attrs[i].key, key) == 0)
			return s->attrs[i].string;
	return "";
}

/* "": it has none. */
static const char *label(struct scene *s, const struct process *p)
{
	static char buf[RESOURCE_LABEL_MAX];

	return resource_container_label(s->resources, p->image, buf, sizeof buf) ?: "";
}

static void set_service(struct process *p, const char *name)
{
	free(p->image->program->service_name);
	p->image->program->service_name = strdup(name);
	cr_assert_not_null(p->image->program->service_name);
}

static void set_executable(struct process *p, const char *path)
{
	free(p->image->program->exe);
	p->image->program->exe = strdup(path);
	cr_assert_not_null(p->image->program->exe);
}

Test(resource_attrs, a_container_of_a_pod)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s);
	scene_open(&s, true);
	list_pod(&s);
	struct process *p = machine_process(&s.m, 7);

	machine_workload(&s.m, p, CONTAINER_A, POD, "");
	cr_expect_str_eq(value(&s, p, "container.id"), CONTAINER_A);
	cr_expect_str_eq(value(&s, p, "k8s.pod.uid"), POD);
	cr_expect_str_eq(value(&s, p, "k8s.pod.name"), "shop-7d9");
	cr_expect_str_eq(value(&s, p, "k8s.namespace.name"), "sales");
	cr_expect_str_eq(value(&s, p, "k8s.container.name"), "web");
	cr_expect_str_eq(value(&s, p, "container.image.name"), "registry/shop");
	cr_expect_str_eq(value(&s, p, "service.name"), "shop", "the workload");
	cr_expect_str_eq(value(&s, p, "os.type"), "linux");
	cr_expect_str_neq(value(&s, p, "host.arch"), "");
	cr_expect_str_eq(label(&s, p), "shop-7d9/web");
	for (size_t i = 0; i < s.n; i++)
		for (size_t k = 0; k < i; k++)
			cr_expect_str_neq(s.attrs[i].key, s.attrs[k].key, "each key once");
}

Test(resource_attrs, a_container_that_the_kubelet_did_not_list)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s);
	scene_open(&s, true);
	list_pod(&s);
	struct process *p = machine_process(&s.m, 7);

	machine_workload(&s.m, p, CONTAINER_B, POD, "");
	cr_expect_str_eq(value(&s, p, "k8s.pod.name"), "shop-7d9", "its pod is known");
	cr_expect_str_eq(value(&s, p, "k8s.container.name"), "");
	cr_expect_str_eq(label(&s, p), "shop-7d9");
	machine_workload(&s.m, p, CONTAINER_B, "", "");
	cr_expect_str_eq(value(&s, p, "k8s.pod.name"), "");
	cr_expect_str_eq(value(&s, p, "service.name"), "app", "the executable");
}

Test(resource_attrs, a_container_is_named_by_its_program_not_by_the_container_runtime)
{
	_cleanup_scene_ struct scene s;
	struct proc_image *before, *after;

	scene_init(&s);
	scene_open(&s, false);
	struct process *p = machine_process(&s.m, 7);

	machine_workload(&s.m, p, CONTAINER_A, "", "");
	before = p->image;
	cr_assert_eq(proc_image_exec(p, before->since_ns + 1, &after), 0);
	set_executable(p, "/usr/bin/worker");
	s.n = resource_attrs(s.resources, before, s.attrs);
	for (size_t i = 0; i < s.n; i++)
		if (strcmp(s.attrs[i].key, "service.name") == 0)
			cr_expect_str_eq(s.attrs[i].string, "worker", "also of samples from before its exec");
	cr_expect_str_eq(value(&s, p, "service.name"), "worker");
	set_service(p, "orders");
	s.n = resource_attrs(s.resources, before, s.attrs);
	for (size_t i = 0; i < s.n; i++)
		if (strcmp(s.attrs[i].key, "service.name") == 0)
			cr_expect_str_eq(s.attrs[i].string, "orders");
}

Test(resource_attrs, without_kubernetes)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s);
	s.m.config.kubernetes.node = (char *)"node-1";
	scene_open(&s, false);
	struct process *p = machine_process(&s.m, 7);

	machine_workload(&s.m, p, CONTAINER_A, POD, "");
	cr_expect_str_eq(value(&s, p, "container.id"), CONTAINER_A);
	cr_expect_str_eq(value(&s, p, "k8s.pod.uid"), POD, "the path of its control group has it");
	cr_expect_str_eq(value(&s, p, "k8s.pod.name"), "");
	cr_expect_str_eq(value(&s, p, "k8s.node.name"), "node-1");
	cr_expect_str_eq(label(&s, p), "");
}

/* What the process says, its workload, its unit, its executable, its name; never empty. */
Test(resource_attrs, service_name)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s);
	scene_open(&s, true);
	list_pod(&s);
	struct process *p = machine_process(&s.m, 7);

	cr_expect_null(resource_workload(p->image));
	cr_expect_str_eq(value(&s, p, "service.name"), "app");
	set_executable(p, "");
	p->image->comm[0] = '\0';
	cr_expect_str_eq(value(&s, p, "service.name"), "unknown_service");
	machine_workload(&s.m, p, "", "", "sshd.service");
	cr_expect_str_eq(value(&s, p, "service.name"), "sshd.service");
	machine_workload(&s.m, p, CONTAINER_A, "", "");
	cr_expect_str_eq(value(&s, p, "service.name"), "shop");
	set_service(p, "");
	cr_expect_str_eq(value(&s, p, "service.name"), "shop", "an empty name is none");
	set_service(p, "checkout");
	cr_expect_str_eq(value(&s, p, "service.name"), "checkout");
}

/* Of a pod, the Collector knows better than the executable's name, and adds only what is absent. */
Test(resource_attrs, service_name_of_a_pod)
{
	static const struct {
		enum config_service_name setting;
		const char *pod, *unit, *own, *want;
	} rows[] = {
		{CONFIG_SERVICE_NAME_AUTO, POD, "", "", ""},
		{CONFIG_SERVICE_NAME_AUTO, POD, "", "orders", "orders"},
		{CONFIG_SERVICE_NAME_AUTO, "", "", "", "app"},
		{CONFIG_SERVICE_NAME_AUTO, "", "x.service", "", "x.service"},
		{CONFIG_SERVICE_NAME_ALWAYS, POD, "", "", "app"},
		{CONFIG_SERVICE_NAME_OFF, "", "", "", ""},
		{CONFIG_SERVICE_NAME_OFF, "", "x.service", "", ""},
		{CONFIG_SERVICE_NAME_OFF, POD, "", "orders", "orders"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_scene_ struct scene s;

		scene_init(&s);
		s.m.config.service_name = rows[i].setting;
		scene_open(&s, false);
		struct process *p = machine_process(&s.m, 7);

		machine_workload(&s.m, p, rows[i].pod[0] ? CONTAINER_A : "", rows[i].pod, rows[i].unit);
		if (rows[i].own[0])
			set_service(p, rows[i].own);
		cr_expect_str_eq(value(&s, p, "service.name"), rows[i].want, "row %zu", i);
	}
}

/* With `resource: process`, what says which process it is belongs to the resource. */
Test(resource_attrs, those_of_a_process)
{
	_cleanup_scene_ struct scene s;
	bool pid = false;

	scene_init(&s);
	s.m.config.resource = CONFIG_RESOURCE_PROCESS;
	scene_open(&s, false);
	struct process *p = machine_process(&s.m, 7);

	set_executable(p, "/usr/bin/worker");
	cr_expect_str_eq(value(&s, p, "process.executable.name"), "worker");
	cr_expect_str_eq(value(&s, p, "process.executable.path"), "/usr/bin/worker");
	for (size_t i = 0; i < s.n; i++)
		pid |= strcmp(s.attrs[i].key, "process.pid") == 0 && s.attrs[i].type == OTLP_INT &&
		       s.attrs[i].integer == 7;
	cr_expect(pid, "process.pid");
}

Test(resource_attrs, those_of_the_agent)
{
	struct config_pair pairs[RESOURCE_ATTRS_MAX + 5], *p = pairs;
	_cleanup_scene_ struct scene s;
	char keys[ARRAY_SIZE(pairs)][16];

	*p++ = (struct config_pair){(char *)"deployment.environment", (char *)"test"};
	*p++ = (struct config_pair){(char *)"os.type", (char *)"plan9"};
	*p++ = (struct config_pair){(char *)"empty", (char *)""};
	for (size_t i = 3; i < ARRAY_SIZE(pairs); i++) {
		snprintf(keys[i], sizeof keys[i], "key-%zu", i);
		*p++ = (struct config_pair){keys[i], (char *)"value"};
	}
	scene_init(&s);
	s.m.config.otel.resource_attributes = (struct config_pairs){.items = pairs, .n = ARRAY_SIZE(pairs)};
	scene_open(&s, false);
	struct process *process = machine_process(&s.m, 7);

	cr_expect_str_eq(value(&s, process, "deployment.environment"), "test");
	cr_expect_str_eq(value(&s, process, "os.type"), "linux", "they replace nothing");
	cr_expect_str_eq(value(&s, process, "key-3"), "value");
	cr_expect_eq(s.n, RESOURCE_ATTRS_MAX, "and there is a maximum");
	for (size_t i = 0; i < s.n; i++)
		cr_expect_str_neq(s.attrs[i].key, "empty");
}

/* --- which processes are one resource */

struct pair {
	const char *container_a, *unit_a, *service_a, *exe_a;
	const char *container_b, *unit_b, *service_b, *exe_b;
	bool same; /* unless each process is a resource */
};

static struct process *member(struct scene *s, uint32_t pid, const char *container, const char *unit,
			      const char *service, const char *exe)
{
	struct process *p = machine_process(&s->m, pid);

	if (*container || *unit)
		machine_workload(&s->m, p, container, "", unit);
	if (*service)
		set_service(p, service);
	set_executable(p, exe);
	return p;
}

static void check_pair(const struct pair *x, enum config_resource resource, bool same)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s);
	s.m.config.resource = resource;
	scene_open(&s, false);
	struct process *a = member(&s, 7, x->container_a, x->unit_a, x->service_a, x->exe_a),
		       *b = member(&s, 8, x->container_b, x->unit_b, x->service_b, x->exe_b);
	const struct sample_entry of_a = {.owner = a->image}, of_b = {.owner = b->image};

	cr_expect_eq(resource_same(s.resources, &of_a, &of_b), same, "%s %s", x->exe_a, x->exe_b);
	cr_expect_eq(resource_same(s.resources, &of_b, &of_a), same);
	cr_expect(resource_same(s.resources, &of_a, &of_a));
}

Test(resource_attrs, same_resource)
{
	static const struct pair pairs[] = {
		{"", "", "", "/bin/a", "", "", "", "/usr/bin/a", true}, /* an executable's name */
		{"", "", "", "/bin/a", "", "", "", "/bin/b", false},
		{"", "x.service", "", "/bin/a", "", "x.service", "", "/bin/b", true},
		{"", "x.service", "", "/bin/a", "", "y.service", "", "/bin/a", false},
		{"", "x.service", "", "/bin/a", "", "", "", "/bin/a", false},
		{CONTAINER_A, "", "", "/bin/a", CONTAINER_A, "", "", "/bin/b", true},
		{CONTAINER_A, "", "", "/bin/a", CONTAINER_B, "", "", "/bin/a", false},
		{CONTAINER_A, "", "shop", "/bin/a", CONTAINER_A, "", "shop", "/bin/b", true},
		{CONTAINER_A, "", "shop", "/bin/a", CONTAINER_A, "", "", "/bin/a", false},
		{CONTAINER_A, "", "", "/bin/a", "", "", "", "/bin/a", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		check_pair(&pairs[i], CONFIG_RESOURCE_CONTAINER, pairs[i].same);
		check_pair(&pairs[i], CONFIG_RESOURCE_PROCESS, false);
	}
}

/*
 * Samples of processes come in any order; those of one resource stand together, in the order of their pids.
 */
Test(resource_attrs, order_of_entries)
{
	static const struct {
		uint32_t pid;
		const char *container, *unit;
	} rows[] = {{9, CONTAINER_B, ""}, {4, "", "x.service"}, {8, CONTAINER_A, ""}, {2, CONTAINER_B, ""},
		    {5, "", ""},	  {3, CONTAINER_A, ""}, {6, "", "x.service"}};
	_cleanup_free_ const struct sample_entry **order = NULL;
	struct process *processes[ARRAY_SIZE(rows)];
	_cleanup_scene_ struct scene s;
	struct window w;
	unsigned borders = 0;
	size_t n = 0;

	scene_init(&s);
	scene_open(&s, false);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		processes[i] = member(&s, rows[i].pid, rows[i].container, rows[i].unit, "", "/bin/a");
	cr_assert_eq(window_init(&w, s.m.binaries, 1u << 20, false), 0);
	for (uint64_t k = 0; k < 3; k++)
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			const uint64_t word = frame_anonymous(0x1000 + k);
			struct sample_view v = machine_sample(processes[i], &word, 0, 1);
			const struct sampled_task task = {.process = processes[i],
							  .image = processes[i]->image};

			cr_assert_eq(window_add(&w, &task, &v), 0);
		}
	order = resource_order(s.resources, w.samples, &n);
	cr_assert_not_null(order);
	cr_assert_eq(n, 3 * ARRAY_SIZE(rows));
	for (size_t i = 1; i < n; i++) {
		const struct proc_image *a = order[i - 1]->owner, *b = order[i]->owner;

		if (!resource_same(s.resources, order[i - 1], order[i]))
			borders++;
		else
			cr_expect_leq(a->pid, b->pid);
		if (a == b)
			cr_expect_lt(order[i - 1]->stack->frames[0], order[i]->stack->frames[0],
				     "in the order in which they came");
	}
	cr_expect_eq(borders, 3, "two containers, a unit, an executable");
	window_fini(&w);
}

Test(resource_attrs, no_entries)
{
	_cleanup_scene_ struct scene s;
	struct window w;
	size_t n = 1;

	scene_init(&s);
	scene_open(&s, false);
	cr_assert_eq(window_init(&w, s.m.binaries, 4096, false), 0);
	_cleanup_free_ const struct sample_entry **order = resource_order(s.resources, w.samples, &n);

	cr_expect_not_null(order, "that is no lack of memory");
	cr_expect_eq(n, 0);
	window_fini(&w);
}

/* The report sends each resource with its attributes, and its container's name with stacks. */
Test(resource_attrs, what_is_sent)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s);
	list_pod(&s);
	s.m.options.pods = s.pods;
	s.m.config.symbols.kernel = s.m.config.symbols.native = false;
	machine_report(&s.m);
	struct process *a = member(&s, 7, CONTAINER_A, "", "", "/bin/a"),
		       *b = member(&s, 8, "", "x.service", "", "/bin/b"),
		       *c = member(&s, 9, CONTAINER_A, "", "", "/bin/c");

	machine_add_alpha(&s.m, a, 0x1000);
	machine_add_alpha(&s.m, b, 0x1000);
	machine_add_alpha(&s.m, c, 0x1000);
	machine_flush(&s.m);
	cr_assert_eq(s.m.n_sent, 3);
	cr_assert_eq(s.m.n_stacks, 3);
	cr_expect_eq(s.m.n_requests, 1);
	for (size_t i = 0; i < 3; i++) {
		const struct sent *x = &s.m.sent[i];
		const struct kept_stack *k = &s.m.stacks[i];
		bool contained = strncmp(x->resource, "container.id=" CONTAINER_A ";", 78) == 0;

		cr_expect_eq(strstr(x->resource, "k8s.pod.name=shop-7d9") != NULL, contained);
		cr_expect_eq(strstr(x->resource, "service.name=x.service") != NULL, !contained);
		cr_expect_str_eq(k->container, contained ? CONTAINER_A : "");
		cr_expect_str_eq(k->container_name, contained ? "shop-7d9/web" : "");
		cr_expect_eq(contained, k->pid != 8);
	}
}
