// SPDX-License-Identifier: Apache-2.0
/* What a process calls itself: reading its environment is reading its memory, so a thread does it. */
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/proc/stat.h"
#include "agent/track/track_private.h"

struct environ_ask {
	struct ask ask;
	struct process *process;  /* one reference */
	struct proc_image *image; /* whose environment it is; one reference */
	uint64_t read_ns;	  /* CLOCK_MONOTONIC, after it was */
	char *value;		  /* owned; NULL: none */
};

static void environ_run(struct ask *a)
{
	struct environ_ask *e = container_of(a, struct environ_ask, ask);

	(void)proc_environ_find(a->proc_fd, a->pid, "OTEL_SERVICE_NAME", &e->value);
	e->read_ns = clock_mono_ns();
}

/* Did the pid still run that program when it was read? */
static bool was_its_own(const struct environ_ask *e)
{
	const struct process *p = e->process;

	return (!p->end_ns || p->end_ns > e->read_ns) &&
	       proc_image_at(p, e->read_ns)->program == e->image->program;
}

static void environ_take(struct track *t, struct ask *a)
{
	struct environ_ask *e = container_of(a, struct environ_ask, ask);

	(void)t;
	if (was_its_own(e))
		proc_program_set_service(e->image->program, TAKE_PTR(e->value), e->process->pid, e->read_ns);
}

static void environ_free(struct ask *a)
{
	struct environ_ask *e = container_of(a, struct environ_ask, ask);

	process_unref(e->process);
	proc_image_unref(e->image);
	free(e->value);
	free(e);
}

static const struct ask_kind environ_kind = {
	.what = "reading its environment", .run = environ_run, .late = environ_take, .free = environ_free};

void track_read_environ(struct track *t, struct process *p, struct proc_image *i)
{
	struct environ_ask *e = calloc(1, sizeof *e);
	enum ask_answer answer;

	if (!e)
		return;
	e->process = process_ref(p);
	e->image = proc_image_ref(i);
	answer = track_ask(t, &e->ask, &environ_kind, p->pid);
	if (answer == ASK_LATER)
		return;
	if (answer == ASK_HERE)
		environ_take(t, &e->ask);
	environ_free(&e->ask);
}
