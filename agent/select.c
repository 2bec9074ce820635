// SPDX-License-Identifier: Apache-2.0
#include "agent/select.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "cgroup/meta.h"

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
	struct config_selector *more = realloc(s->include, (s->n_include + 1) * sizeof *more);

	if (!more)
		return -ENOMEM;
	s->include = more;
	s->include[s->n_include++] = (struct config_selector){.kind = CONFIG_SELECT_PID, .pid = pid};
	return 0;
}

/* Is the process in this cgroup of any hierarchy, or below it? */
static bool in_cgroup(uint32_t pid, const char *path)
{
	_cleanup_buf_ struct buf text = {0};
	size_t len = strlen(path);
	char name[40], *save = NULL;

	snprintf(name, sizeof name, "/proc/%u/cgroup", pid);
	if (fs_read_file(name, 65536, &text) < 0)
		return false;
	buf_str(&text);
	while (len && path[len - 1] == '/')
		len--;
	for (char *line = strtok_r((char *)text.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		const char *at = strstr(line, ":/");

		if (at && strncmp(at + 1, path, len) == 0 && (at[1 + len] == '\0' || at[1 + len] == '/'))
			return true;
	}
	return false;
}

static bool matches(const struct config_selector *s, const struct process *p)
{
	const struct cgroup_meta *m = p->image->context.data;

	switch (s->kind) {
	case CONFIG_SELECT_PID:
		return s->pid == p->pid;
	case CONFIG_SELECT_COMM:
		return strcmp(s->value, p->image->comm) == 0;
	case CONFIG_SELECT_CGROUP:
		return in_cgroup(p->pid, s->value);
	case CONFIG_SELECT_CONTAINER:
		return m && m->identity.container_id[0] &&
		       strncmp(m->identity.container_id, s->value, strlen(s->value)) == 0;
	}
	return false;
}

enum select_answer selection_ask(const struct process *p, void *selection)
{
	const struct selection *s = selection;
	bool by_pid = false;

	for (size_t i = 0; i < s->n_exclude; i++)
		if (matches(&s->exclude[i], p))
			return SELECT_NO;
	for (size_t i = 0; i < s->n_include; i++) {
		if (matches(&s->include[i], p))
			return SELECT_YES;
		by_pid = by_pid || s->include[i].kind == CONFIG_SELECT_PID;
	}
	if (!s->n_include)
		return SELECT_YES;
	return by_pid ? SELECT_AS_PARENT : SELECT_NO;
}
