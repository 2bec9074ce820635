// SPDX-License-Identifier: Apache-2.0
/* What a process calls itself: reading its environment is reading its memory, so a thread does it. */
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/proc/stat.h"
#include "agent/track_private.h"

struct environ_ask {
	struct ask ask;
	struct process *process; /* one reference */
	uint64_t exec_ns;	 /* whose environment it is */
	char *value;		 /* owned; NULL: none */
};

static void environ_run(struct ask *a)
{
	struct environ_ask *e = container_of(a, struct environ_ask, ask);

	(void)proc_environ_find(a->proc_fd, a->pid, "OTEL_SERVICE_NAME", &e->value);
}

static void environ_take(struct track *t, struct ask *a)
{
	struct environ_ask *e = container_of(a, struct environ_ask, ask);

	(void)t;
	if (e->process->exec_ns == e->exec_ns && !e->process->service_name)
		e->process->service_name = TAKE_PTR(e->value);
}

static void environ_free(struct ask *a)
{
	struct environ_ask *e = container_of(a, struct environ_ask, ask);

	process_unref(e->process);
	free(e->value);
	free(e);
}

static const struct ask_kind environ_kind = {
	.what = "reading its environment", .run = environ_run, .late = environ_take, .free = environ_free};

static void read_environ(struct track *t, struct process *p)
{
	struct environ_ask *e = calloc(1, sizeof *e);
	enum ask_answer answer;

	if (!e)
		return;
	e->process = process_ref(p);
	e->exec_ns = p->exec_ns;
	answer = track_ask(t, &e->ask, &environ_kind, p->pid);
	if (answer == ASK_LATER)
		return;
	if (answer == ASK_HERE)
		environ_take(t, &e->ask);
	environ_free(&e->ask);
}

const char *track_service_name(struct track *t, struct process *p)
{
	if (!p->environ_read && !p->end_ns) {
		p->environ_read = true;
		read_environ(t, p);
	}
	return p->service_name && p->service_name[0] ? p->service_name : NULL;
}
