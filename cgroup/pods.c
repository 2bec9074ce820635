// SPDX-License-Identifier: Apache-2.0
/*
 * cJSON builds a tree that is many times as large as the text. So it gets one pod at a time, from between the
 * brackets of "items", with a limit on the memory that this pod may take.
 */
#include "cgroup/pods.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"

DEFINE_CLEANUP(cJSON *, cJSON_Delete)
DEFINE_CLEANUP(struct pod *, pod_unref)

/* --- memory */

static __thread size_t allowance; /* bytes that the current value may still allocate */

static void *bounded_malloc(size_t size)
{
	if (size > allowance)
		return NULL;
	allowance -= size;
	return malloc(size);
}

static void bound_memory(void)
{
	cJSON_Hooks hooks = {.malloc_fn = bounded_malloc, .free_fn = free};

	cJSON_InitHooks(&hooks);
}

/* --- text, down to the single pod */

struct text {
	const char *at, *end;
};

/* The next character that is not white space; 0 at the end. */
static char peek(struct text *t)
{
	while (t->at < t->end && strchr(" \t\r\n", *t->at) && *t->at)
		t->at++;
	return t->at < t->end ? *t->at : '\0';
}

static bool take(struct text *t, char c)
{
	if (peek(t) != c)
		return false;
	t->at++;
	return true;
}

/* Parses one value; NULL: there is none, or it needs too much memory. */
static cJSON *take_value(struct text *t)
{
	const char *end = t->at;
	cJSON *v;

	if (!peek(t))
		return NULL;
	allowance = POD_JSON_MAX;
	v = cJSON_ParseWithLengthOpts(t->at, (size_t)(t->end - t->at), &end, 0);
	if (v)
		t->at = end;
	return v;
}

/* --- one pod */

/* A copy of a text member. NULL: it is no text, or not printable. */
static char *text_of(const cJSON *object, const char *key)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key);
	size_t n = cJSON_IsString(v) ? strlen(v->valuestring) : 0;

	if (!n || n > POD_TEXT_MAX)
		return NULL;
	for (const char *c = v->valuestring; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return NULL;
	return strdup(v->valuestring);
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* "registry:5000/team/web:1.2@sha256:…" without tag and digest. */
static void cut_image(char *image)
{
	char *at = image ? strchr(image, '@') : NULL, *colon, *slash;

	if (at)
		*at = '\0';
	colon = image ? strrchr(image, ':') : NULL;
	slash = image ? strrchr(image, '/') : NULL;
	if (colon && (!slash || colon > slash))
		*colon = '\0';
}

/* "containerd://<id>", also for unknown runtimes. */
static void read_container_id(const cJSON *status, char ret[CGROUP_ID_LEN + 1])
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(status, "containerID");
	const char *id = cJSON_IsString(v) ? strstr(v->valuestring, "://") : NULL;

	ret[0] = '\0';
	if (!id || strlen(id) != 3 + CGROUP_ID_LEN || strspn(id + 3, "0123456789abcdef") != CGROUP_ID_LEN)
		return;
	memcpy(ret, id + 3, CGROUP_ID_LEN + 1);
}

/* The container's image from the specification; the status may have only its digest. */
static char *image_of(const cJSON *spec, const char *list, const char *name)
{
	const cJSON *c;

	cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(spec, list))
	{
		_cleanup_free_ char *other = text_of(c, "name");

		if (other && strcmp(other, name) == 0)
			return text_of(c, "image");
	}
	return NULL;
}

/* Reads the containers of one of the lists in a pod's status. 0 or -ENOMEM. */
static int read_containers(struct pod *p, const cJSON *pod, const char *of_spec, const char *of_status,
			   size_t *left_out)
{
	const cJSON *spec = cJSON_GetObjectItemCaseSensitive(pod, "spec"), *c;
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(pod, "status");

	cJSON_ArrayForEach(c, cJSON_GetObjectItemCaseSensitive(status, of_status))
	{
		struct pod_container *new;

		if (p->n_containers == POD_CONTAINERS_MAX) {
			(*left_out)++;
			continue;
		}
		if (array_resize(&p->containers, p->n_containers + 1, sizeof *p->containers) < 0)
			return -ENOMEM;
		new = &p->containers[p->n_containers++];
		*new = (struct pod_container){.name = text_of(c, "name")};
		read_container_id(c, new->id);
		new->image = new->name ? image_of(spec, of_spec, new->name) : NULL;
		cut_image(new->image);
	}
	return 0;
}

static int read_labels(struct pod *p, const cJSON *labels, size_t *left_out)
{
	const cJSON *l;
	size_t n = (size_t)cJSON_GetArraySize(labels);

	if (!cJSON_IsObject(labels) || !n)
		return 0;
	p->labels = calloc(n < POD_LABELS_MAX ? n : POD_LABELS_MAX, sizeof *p->labels);
	if (!p->labels)
		return -ENOMEM;
	cJSON_ArrayForEach(l, labels)
	{
		char *value = l->string && strlen(l->string) <= POD_TEXT_MAX && cJSON_IsString(l) &&
					      strlen(l->valuestring) <= POD_TEXT_MAX
				      ? strdup(l->valuestring)
				      : NULL;
		char *key = value ? strdup(l->string) : NULL;

		if (!key || p->n_labels == POD_LABELS_MAX) {
			free(key);
			free(value);
			(*left_out)++;
			continue;
		}
		p->labels[p->n_labels++] = (struct pod_label){key, value};
	}
	return 0;
}

/* Removes a dash and `suffix` from a name, which leaves the name of the controller that composed it. */
static void cut_suffix(char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	if (m && n > m + 1 && name[n - m - 1] == '-' && ends_with(name, suffix))
		name[n - m - 1] = '\0';
}

/* Names of a cron job's jobs end in the minute they were due, in eight digits or more. */
static void cut_time(char *name)
{
	char *dash = strrchr(name, '-');

	if (dash && dash > name && strlen(dash + 1) >= 8 &&
	    strspn(dash + 1, "0123456789") == strlen(dash + 1))
		*dash = '\0';
}

/*
 * A deployment creates ReplicaSets, whose names end in the hash that their pods have as a label. Only the API
 * server knows the deployment for certain.
 */
static char *read_workload(const struct pod *p, const cJSON *metadata)
{
	const cJSON *owners = cJSON_GetObjectItemCaseSensitive(metadata, "ownerReferences"), *o,
		    *owner = NULL;
	_cleanup_free_ char *kind = NULL;
	const char *hash = pod_label(p, "pod-template-hash");
	char *name;

	cJSON_ArrayForEach(o, owners) if (!owner ||
					  cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "controller")))
		owner = o;
	kind = owner ? text_of(owner, "kind") : NULL;
	name = kind && strcmp(kind, "Node") != 0 ? text_of(owner, "name") : NULL;
	if (!name)
		return p->name ? strdup(p->name) : NULL;
	if (strcmp(kind, "ReplicaSet") == 0 && hash)
		cut_suffix(name, hash);
	else if (strcmp(kind, "Job") == 0)
		cut_time(name);
	return name;
}

static int read_metadata(struct pod *p, const cJSON *metadata, size_t *left_out)
{
	const cJSON *annotations = cJSON_GetObjectItemCaseSensitive(metadata, "annotations");
	int r = read_labels(p, cJSON_GetObjectItemCaseSensitive(metadata, "labels"), left_out);

	p->name = text_of(metadata, "name");
	p->namespace = text_of(metadata, "namespace");
	p->other_uid = text_of(annotations, "kubernetes.io/config.hash");
	p->service = text_of(annotations, "resource.opentelemetry.io/service.name");
	p->workload = read_workload(p, metadata);
	return r;
}

/* *ret: NULL for a pod without a UID. */
static int pod_new(struct pod **ret, const cJSON *pod, size_t *left_out)
{
	static const char *const lists[][2] = {{"containers", "containerStatuses"},
					       {"initContainers", "initContainerStatuses"},
					       {"ephemeralContainers", "ephemeralContainerStatuses"}};
	const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(pod, "metadata");
	_cleanup_(pod_unref_p) struct pod *p = calloc(1, sizeof *p);
	int r;

	*ret = NULL;
	if (!p)
		return -ENOMEM;
	p->refs = 1;
	p->uid = text_of(metadata, "uid");
	if (!p->uid || strlen(p->uid) > POD_UID_MAX) {
		(*left_out)++;
		return 0;
	}
	r = read_metadata(p, metadata, left_out);
	for (size_t i = 0; i < ARRAY_SIZE(lists) && r == 0; i++)
		r = read_containers(p, pod, lists[i][0], lists[i][1], left_out);
	if (r == 0)
		*ret = TAKE_PTR(p);
	return r;
}

/* --- the list */

static int list_add(struct pod_list *l, const cJSON *item)
{
	struct pod *p;
	int r;

	if (l->n == PODS_MAX) {
		l->n_left_out++;
		return 0;
	}
	if (!l->items && !(l->items = calloc(PODS_MAX, sizeof *l->items)))
		return -ENOMEM;
	r = pod_new(&p, item, &l->n_left_out);
	if (r == 0 && p)
		l->items[l->n++] = p;
	return r;
}

/* Reads what follows "items":. */
static int read_items(struct text *t, struct pod_list *l, const char **ret_why)
{
	*ret_why = "items is no list";
	if (!take(t, '['))
		return -EBADMSG;
	if (take(t, ']'))
		return 0;
	do {
		_cleanup_(cJSON_Delete_p) cJSON *item = take_value(t);
		int r = item ? list_add(l, item) : -EBADMSG;

		*ret_why = "a pod is no JSON, or far too large";
		if (r < 0)
			return r;
	} while (take(t, ','));
	*ret_why = "the list has no end";
	return take(t, ']') ? 0 : -EBADMSG;
}

/* Reads a member of the outermost object. */
static int read_member(struct text *t, struct pod_list *l, bool *found, const char **ret_why)
{
	_cleanup_(cJSON_Delete_p) cJSON *key = take_value(t), *value = NULL;

	*ret_why = "not JSON";
	if (!cJSON_IsString(key) || !take(t, ':'))
		return -EBADMSG;
	if (strcmp(key->valuestring, "items") == 0 && !*found) {
		*found = true;
		if (peek(t) == '[')
			return read_items(t, l, ret_why);
	}
	value = take_value(t); /* null is how Go writes an empty list */
	return value ? 0 : -EBADMSG;
}

static int read_list(struct text *t, struct pod_list *l, const char **ret_why)
{
	bool found = false;
	int r = 0;

	*ret_why = "not JSON";
	if (!take(t, '{'))
		return -EBADMSG;
	do
		r = read_member(t, l, &found, ret_why);
	while (r == 0 && take(t, ','));
	if (r < 0)
		return r;
	*ret_why = "the end is missing";
	if (!take(t, '}') || peek(t))
		return -EBADMSG;
	*ret_why = "no list of pods";
	return found ? 0 : -EBADMSG;
}

int pod_list_parse(const void *data, size_t len, struct pod_list *ret, const char **ret_why)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct text t = {data, (const char *)data + len};
	struct pod_list l = {0};
	int r;

	pthread_once(&once, bound_memory);
	*ret_why = "empty";
	r = len ? read_list(&t, &l, ret_why) : -EBADMSG;
	if (r < 0) {
		pod_list_fini(&l);
		return r;
	}
	*ret = l;
	return 0;
}

void pod_list_fini(struct pod_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		pod_unref(l->items[i]);
	free(l->items);
	*l = (struct pod_list){0};
}

/* --- using a pod */

struct pod *pod_ref(struct pod *p)
{
	p->refs++;
	return p;
}

void pod_unref(struct pod *p)
{
	if (!p || --p->refs)
		return;
	for (size_t i = 0; i < p->n_containers; i++) {
		free(p->containers[i].name);
		free(p->containers[i].image);
	}
	for (size_t i = 0; i < p->n_labels; i++) {
		free(p->labels[i].key);
		free(p->labels[i].value);
	}
	free(p->containers);
	free(p->labels);
	free(p->uid);
	free(p->other_uid);
	free(p->name);
	free(p->namespace);
	free(p->workload);
	free(p->service);
	free(p);
}

const char *pod_service_name(const struct pod *p)
{
	return p->service ?: p->workload ?: p->name;
}

const char *pod_label(const struct pod *p, const char *key)
{
	for (size_t i = 0; i < p->n_labels; i++)
		if (strcmp(p->labels[i].key, key) == 0)
			return p->labels[i].value;
	return NULL;
}
