// SPDX-License-Identifier: Apache-2.0
#include "agent/track/select.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "cgroup/meta.h"
#include "cgroup/podtable.h"

#define LABEL_KEY_MAX 320u /* a prefix of 253, a slash, a name of 63 */

static int parse_all(const struct config_list *list, struct config_selector **ret, size_t *ret_n)
{
	struct config_selector *s = calloc(list->n + 1, sizeof *s); /* room for one more pid */

	if (!s)
		return -ENOMEM;
	for (size_t i = 0; i < list->n; i++)
		if (config_selector_parse(list->items[i], &s[i]) < 0) { /* config_load has checked it */
			free(s);
			return -EINVAL;
		}
	*ret = s;
	*ret_n = list->n;
	return 0;
}

int selection_init(struct selection *s, const struct config *config)
{
	int r;

	*s = (struct selection){0};
	r = parse_all(&config->select.include, &s->include, &s->n_include);
	if (r == 0)
		r = parse_all(&config->select.exclude, &s->exclude, &s->n_exclude);
	if (r < 0)
		selection_fini(s);
	return r;
}

void selection_fini(struct selection *s)
{
	free(s->include);
	free(s->exclude);
	*s = (struct selection){0};
}

int selection_add_pid(struct selection *s, uint32_t pid)
{
	if (array_resize(&s->include, s->n_include + 1, sizeof *s->include) < 0)
		return -ENOMEM;
	s->include[s->n_include++] = (struct config_selector){.kind = CONFIG_SELECT_PID, .pid = pid};
	return 0;
}

/* Is one of the groups of /proc/PID/cgroup this one, or below it? */
static bool in_cgroup(const char *groups, const char *path)
{
	size_t len = strlen(path);

	while (len && path[len - 1] == '/')
		len--;
	for (const char *line = groups; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *end = line + strcspn(line, "\n"), *at = strstr(line, ":/");

		if (at && at < end && (size_t)(end - at - 1) >= len && strncmp(at + 1, path, len) == 0 &&
		    (at + 1 + len == end || at[1 + len] == '/'))
			return true;
	}
	return false;
}

static bool like(const char *pattern, const char *text)
{
	return text && fnmatch(pattern, text, 0) == 0;
}

/* A pattern without a slash is for the file's name. */
static bool is_executable(const char *pattern, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return like(pattern, path) || (!strchr(pattern, '/') && slash && like(pattern, slash + 1));
}

static bool has_label(const char *pair, const struct select_identity *id)
{
	size_t len = strcspn(pair, "=");

	return id->label && like(pair + len + 1, id->label(id->pod, pair, len));
}

/* A pattern without a slash is for pods of every namespace. */
static bool is_pod(const char *pattern, const struct select_identity *id)
{
	const char *slash = strchr(pattern, '/');
	_cleanup_free_ char *namespace = slash ? strndup(pattern, (size_t)(slash - pattern)) : NULL;

	if (slash && !like(namespace ?: "", id->namespace))
		return false;
	return like(slash ? slash + 1 : pattern, id->pod_name);
}

static bool matches(const struct config_selector *s, const struct select_identity *id)
{
	switch (s->kind) {
	case CONFIG_SELECT_PID:
		return s->pid == id->pid;
	case CONFIG_SELECT_COMM:
		return id->comm && strcmp(s->value, id->comm) == 0;
	case CONFIG_SELECT_CGROUP:
		return id->cgroups && in_cgroup(id->cgroups, s->value);
	case CONFIG_SELECT_CONTAINER:
		return id->container_id && strncmp(id->container_id, s->value, strlen(s->value)) == 0;
	case CONFIG_SELECT_EXE:
		return is_executable(s->value, id->executable);
	case CONFIG_SELECT_NAMESPACE:
		return like(s->value, id->namespace);
	case CONFIG_SELECT_LABEL:
		return has_label(s->value, id);
	case CONFIG_SELECT_CONTAINER_NAME:
		return like(s->value, id->container_name);
	case CONFIG_SELECT_POD:
		return is_pod(s->value, id);
	}
	return false;
}

enum select_answer selection_match(const struct selection *s, const struct select_identity *id)
{
	bool by_pid = false;

	for (size_t i = 0; i < s->n_exclude; i++)
		if (matches(&s->exclude[i], id))
			return SELECT_NO;
	for (size_t i = 0; i < s->n_include; i++) {
		if (matches(&s->include[i], id))
			return SELECT_YES;
		by_pid = by_pid || s->include[i].kind == CONFIG_SELECT_PID;
	}
	if (!s->n_include)
		return SELECT_YES;
	return by_pid ? SELECT_AS_PARENT : SELECT_NO;
}

static unsigned kinds_of(const struct selection *s)
{
	unsigned kinds = 0;

	for (size_t i = 0; i < s->n_exclude; i++)
		kinds |= 1u << s->exclude[i].kind;
	for (size_t i = 0; i < s->n_include; i++)
		kinds |= 1u << s->include[i].kind;
	return kinds;
}

bool selection_by_pod(const struct selection *s)
{
	return kinds_of(s) & (1u << CONFIG_SELECT_NAMESPACE | 1u << CONFIG_SELECT_LABEL |
			      1u << CONFIG_SELECT_CONTAINER_NAME | 1u << CONFIG_SELECT_POD);
}

bool selection_by_cgroup(const struct selection *s)
{
	return selection_by_pod(s) ||
	       (kinds_of(s) & (1u << CONFIG_SELECT_CGROUP | 1u << CONFIG_SELECT_CONTAINER));
}

static const char *label_of(const void *pod, const char *key, size_t key_len)
{
	char name[LABEL_KEY_MAX];

	if (key_len >= sizeof name)
		return NULL;
	memcpy(name, key, key_len);
	name[key_len] = '\0';
	return pod_label(pod, name);
}

static void add_pod(struct select_identity *id, const struct pod_table *pods,
		    const struct cgroup_identity *who)
{
	const struct pod_container *container;
	const struct pod *pod = pod_table_find(pods, who, &container);

	if (!pod)
		return;
	id->namespace = pod->namespace;
	id->pod_name = pod->name;
	id->container_name = container ? container->name : NULL;
	id->label = label_of;
	id->pod = pod;
}

enum select_answer selection_of_process(const struct process *p, const struct pod_table *pods,
					void *selection)
{
	const struct selection *s = selection;
	const struct cgroup_meta *m = p->image->context.data;
	_cleanup_buf_ struct buf groups = {0};
	struct select_identity id = {
		.pid = p->pid,
		.comm = p->image->comm,
		.executable = p->image->program->exe,
		.container_id = m && m->identity.container_id[0] ? m->identity.container_id : NULL,
	};
	char name[40];

	if (pods && m)
		add_pod(&id, pods, &m->identity);
	if (kinds_of(s) & 1u << CONFIG_SELECT_CGROUP) {
		snprintf(name, sizeof name, "/proc/%u/cgroup", p->pid);
		if (fs_read_file(name, 65536, &groups) == 0)
			id.cgroups = buf_str(&groups);
	}
	return selection_match(s, &id);
}
