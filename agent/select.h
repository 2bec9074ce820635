// SPDX-License-Identifier: Apache-2.0
/* select.include and select.exclude as one question about a process. Rank 3. */
#ifndef PROFLET_SELECT_H
#define PROFLET_SELECT_H

#include "agent/config.h"
#include "agent/proc/table.h"

struct selection {
	struct config_selector *include, *exclude; /* owned; their texts are the configuration's */
	size_t n_include, n_exclude;
};

enum select_answer {
	SELECT_NO,
	SELECT_YES,
	SELECT_AS_PARENT, /* selected by pid: so are the processes that it starts */
};

/* `config` outlives the selection. 0 or -ENOMEM. */
int selection_init(struct selection *s, const struct config *config);
void selection_fini(struct selection *s);
/* Adds a process and what it starts to those included. 0 or -ENOMEM. */
int selection_add_pid(struct selection *s, uint32_t pid);
/* The track_options.select of a struct selection. */
enum select_answer selection_ask(const struct process *p, void *selection);

#endif
