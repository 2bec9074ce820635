// SPDX-License-Identifier: Apache-2.0
#include "agent/command/targets.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/parse.h"

const char *targets_check_pid(const char *text)
{
	uint32_t pid;

	return parse_u32(text, &pid) < 0 || !pid ? "is not a process id" : NULL;
}

const char *targets_check_container(const char *text)
{
	size_t n = strspn(text, "0123456789abcdef");

	return text[n] || n < 12 || n > 64 ? "is not a container id" : NULL;
}

static int include_containers(const struct targets *t, struct config *config)
{
	struct config_list *l = &config->select.include;

	for (size_t i = 0; i < t->containers.n; i++) {
		char **more = realloc(l->items, (l->n + 1) * sizeof *more);

		if (!more)
			return -ENOMEM;
		l->items = more;
		if (asprintf(&l->items[l->n], "container=%s", t->containers.items[i]) < 0)
			return -ENOMEM;
		l->n++;
	}
	return 0;
}

int targets_select(const struct targets *t, struct config *config, struct selection *ret, char **ret_why)
{
	int r = include_containers(t, config);

	if (r == 0)
		r = selection_init(ret, config);
	for (size_t i = 0; i < t->pids.n && r == 0; i++) {
		uint32_t pid = 0;

		r = parse_u32(t->pids.items[i], &pid);
		if (r == 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH) {
			if (asprintf(ret_why, "there is no process %s", t->pids.items[i]) < 0)
				*ret_why = NULL;
			return -ESRCH;
		}
		if (r == 0)
			r = selection_add_pid(ret, pid);
	}
	return r;
}

void targets_fini(struct targets *t)
{
	config_list_free(&t->pids);
	config_list_free(&t->containers);
}
