// SPDX-License-Identifier: Apache-2.0
#include "agent/report/resource_attrs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/memo.h"
#include "agent/config/config.h"
#include "agent/proc/image.h"
#include "agent/proc/process.h"
#include "agent/report/host.h"
#include "cgroup/meta.h"
#include "cgroup/podtable.h"

struct resources {
	const struct config *config;
	const struct pod_table *pods;
	struct host_identity host;
};

int resources_new(struct resources **ret, const struct config *config, const struct pod_table *pods)
{
	struct resources *r = calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	r->config = config;
	r->pods = pods;
	host_identity_read(&r->host, config->kubernetes.node, NULL);
	*ret = r;
	return 0;
}

void resources_free(struct resources *r)
{
	free(r);
}

const struct cgroup_meta *resource_workload(const struct proc_image *i)
{
	return i->context.data;
}

/*
 * The image that gives the image's resource its name. In a container, that is what the process runs now:
 * until its exec, the first process of a container is the container runtime.
 */
static const struct proc_image *naming_image(const struct proc_image *i)
{
	const struct cgroup_meta *m = resource_workload(i);

	return m && m->identity.container_id[0] ? i->process->image : i;
}

/*
 * Whether the name of a unit or an executable may stand for that of a service. Of a pod's processes, the
 * Collector can know better (k8s_attributes), but it only adds what is absent.
 */
static bool may_derive(const struct config *c, const struct cgroup_meta *m)
{
	return c->service_name == CONFIG_SERVICE_NAME_ALWAYS ||
	       (c->service_name == CONFIG_SERVICE_NAME_AUTO && !(m && m->identity.pod_uid[0]));
}

/*
 * The first that is known: OTEL_SERVICE_NAME of the process, the workload of its pod, its unit, its
 * executable. NULL: none may be exported.
 */
static const char *service_name(const struct config *c, const struct proc_image *i,
				const struct cgroup_meta *m, const struct pod *pod)
{
	const struct proc_image *naming = naming_image(i);
	const char *own = naming->program->service_name, *name;

	if (own && own[0])
		return own;
	name = pod ? pod_service_name(pod) : NULL;
	if (name)
		return name;
	if (!may_derive(c, m))
		return NULL;
	name = m && m->identity.unit[0] ? m->identity.unit : proc_image_executable(naming);
	return name[0] ? name : "unknown_service"; /* the process ended before anything was known about it */
}

static void add(struct otlp_attr *attrs, size_t *n, const char *key, const char *value)
{
	if (*n == RESOURCE_ATTRS_MAX || !value || !value[0])
		return;
	for (size_t i = 0; i < *n; i++)
		if (strcmp(attrs[i].key, key) == 0)
			return;
	attrs[(*n)++] = (struct otlp_attr){.key = key, .type = OTLP_STRING, .string = value};
}

static void add_pod(const struct pod *pod, const struct pod_container *container, struct otlp_attr *attrs,
		    size_t *n)
{
	add(attrs, n, "k8s.pod.uid", pod->uid); /* unless the path has one */
	add(attrs, n, "k8s.pod.name", pod->name);
	add(attrs, n, "k8s.namespace.name", pod->namespace);
	if (!container)
		return;
	add(attrs, n, "k8s.container.name", container->name);
	add(attrs, n, "container.image.name", container->image);
}

static void add_process(const struct proc_image *i, struct otlp_attr *attrs, size_t *n)
{
	attrs[(*n)++] = (struct otlp_attr){.key = "process.pid", .type = OTLP_INT, .integer = i->pid};
	add(attrs, n, "process.executable.name", proc_image_executable(i));
	add(attrs, n, "process.executable.path", i->program->exe);
}

size_t resource_attrs(const struct resources *r, const struct proc_image *i, struct otlp_attr *ret)
{
	const struct cgroup_meta *m = resource_workload(i);
	const struct pod_container *container = NULL;
	const struct config *c = r->config;
	const struct pod *pod = r->pods && m ? pod_table_find(r->pods, &m->identity, &container) : NULL;
	size_t n = 0;

	if (m) {
		add(ret, &n, "container.id", m->identity.container_id);
		add(ret, &n, "k8s.pod.uid", m->identity.pod_uid);
	}
	if (pod)
		add_pod(pod, container, ret, &n);
	add(ret, &n, "service.name", service_name(c, i, m, pod));
	if (c->resource == CONFIG_RESOURCE_PROCESS)
		add_process(i, ret, &n);
	add(ret, &n, "k8s.node.name", c->kubernetes.node);
	add(ret, &n, "host.name", r->host.name);
	add(ret, &n, "host.id", r->host.id);
	add(ret, &n, "host.arch", r->host.arch);
	add(ret, &n, "os.type", "linux");
	for (size_t k = 0; k < c->otel.resource_attributes.n; k++)
		add(ret, &n, c->otel.resource_attributes.items[k].key,
		    c->otel.resource_attributes.items[k].value);
	return n;
}

const struct pod *resource_pod(const struct resources *r, const struct proc_image *i,
			       const char **ret_container)
{
	const struct cgroup_meta *m = resource_workload(i);
	const struct pod_container *container = NULL;
	const struct pod *pod = r->pods && m ? pod_table_find(r->pods, &m->identity, &container) : NULL;

	*ret_container = pod && container ? container->name : NULL;
	return pod;
}

const char *resource_container_label(const struct resources *r, const struct proc_image *i, char *buf,
				     size_t size)
{
	const char *name;
	const struct pod *pod = resource_pod(r, i, &name);

	if (!pod)
		return NULL;
	if (name)
		snprintf(buf, size, "%s/%s", pod->name, name);
	else
		snprintf(buf, size, "%s", pod->name);
	return buf;
}

/* --- which entries belong to one resource */

static int compare_strings(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/*
 * Orders images by resource; 0: both belong to the same. Compares the process (with resource: process), then
 * container, pod, unit and OTEL_SERVICE_NAME, and the executable outside of containers and units.
 */
static int compare(const struct resources *r, const struct proc_image *a, const struct proc_image *b)
{
	const struct cgroup_meta *x = resource_workload(a), *y = resource_workload(b);
	int d = 0;

	if (a == b)
		return 0;
	if (r->config->resource == CONFIG_RESOURCE_PROCESS) {
		d = compare_u64(a->pid, b->pid) ?: compare_u64(a->start_ns, b->start_ns);
		if (d)
			return d;
	}
	d = strcmp(x ? x->identity.container_id : "", y ? y->identity.container_id : "");
	if (d == 0)
		d = strcmp(x ? x->identity.pod_uid : "", y ? y->identity.pod_uid : "");
	if (d == 0)
		d = strcmp(x ? x->identity.unit : "", y ? y->identity.unit : "");
	if (d == 0)
		d = compare_strings(naming_image(a)->program->service_name,
				    naming_image(b)->program->service_name);
	if (d || (r->config->resource != CONFIG_RESOURCE_PROCESS && x &&
		  (x->identity.container_id[0] || x->identity.unit[0])))
		return d;
	d = strcmp(proc_image_executable(a), proc_image_executable(b));
	if (d || r->config->resource != CONFIG_RESOURCE_PROCESS)
		return d;
	return compare_strings(a->program->exe, b->program->exe);
}

/* One image of the window. */
struct owner {
	const struct proc_image *image;
	size_t n;	/* entries */
	int32_t number; /* in the order of appearance */
};

static int by_resource(const void *a, const void *b, void *data)
{
	const struct owner *x = a, *y = b;

	return compare(data, x->image, y->image) ?: compare_u64(x->image->pid, y->image->pid) ?: x->number - y->number;
}

bool resource_same(const struct resources *r, const struct sample_entry *a, const struct sample_entry *b)
{
	return compare(r, a->owner, b->owner) == 0;
}

/* Writes the number of an image, in the order of first appearance. 0 or -ENOMEM. */
static int owner_number(struct buf *owners, struct memo *numbers, const struct proc_image *i, int32_t *ret)
{
	struct owner new = {.image = i, .number = (int32_t)(owners->len / sizeof new)};
	int r;

	if (memo_get(numbers, (uintptr_t)i, ret))
		return 0;
	r = buf_append(owners, &new, sizeof new);
	if (r < 0)
		return r;
	memo_put(numbers, (uintptr_t)i,
		 new.number); /* if it is not stored, the image comes twice, side by side */
	*ret = new.number;
	return 0;
}

/* There are many entries and few images. So images are sorted, and then each entry is put in its place. */
const struct sample_entry **resource_order(const struct resources *r, const struct sample_aggregate *samples,
					   size_t *ret_n)
{
	_cleanup_buf_ struct buf owners = {.max = SIZE_MAX / 2}, numbers = {.max = SIZE_MAX / 2};
	_cleanup_(memo_fini) struct memo seen = {0};
	const struct sample_entry **order;
	_cleanup_free_ size_t *places = NULL;
	struct owner *v;
	size_t n = 0, at = 0;
	int32_t number;

	for (const struct sample_entry *e = sample_aggregate_entries(samples); e; e = e->next, n++) {
		if (owner_number(&owners, &seen, e->owner, &number) < 0 ||
		    buf_append(&numbers, &number, sizeof number) < 0)
			return NULL;
		((struct owner *)owners.data)[number].n++;
	}
	order = calloc(n ?: 1, sizeof *order);
	places = calloc(owners.len / sizeof *v + 1, sizeof *places);
	if (!order || !places) {
		free(order);
		return NULL;
	}
	v = (struct owner *)owners.data;
	if (v)
		qsort_r(v, owners.len / sizeof *v, sizeof *v, by_resource, (void *)r);
	for (size_t i = 0; i < owners.len / sizeof *v; i++) {
		places[v[i].number] = at;
		at += v[i].n;
	}
	n = 0;
	for (const struct sample_entry *e = sample_aggregate_entries(samples); e; e = e->next)
		order[places[((int32_t *)numbers.data)[n++]]++] = e;
	*ret_n = n;
	return order;
}
