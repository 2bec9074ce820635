// SPDX-License-Identifier: Apache-2.0
/* Whether select.include and select.exclude select a process. Rank 3. */
#ifndef PROFLET_SELECT_H
#define PROFLET_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/config/config.h"
#include "agent/config/selector.h"
#include "agent/proc/table.h"

struct pod_table;

struct selection {
	struct config_selector *include, *exclude; /* owned; their texts are the configuration's */
	size_t n_include, n_exclude;
};

/*
 * What is known of a process and may select it. NULL: not known; then nothing matches. All borrowed for the
 * time of the call.
 */
struct select_identity {
	uint32_t pid;
	const char *comm;
	const char *executable;	  /* path, in the process's own root */
	const char *cgroups;	  /* text of /proc/PID/cgroup */
	const char *container_id; /* 64 hex digits */
	/* of its pod, where the kubelet has listed it */
	const char *namespace, *pod_name, *container_name;
	/* The value of a label of the pod; NULL: it has none of that name. */
	const char *(*label)(const void *pod, const char *key, size_t key_len);
	const void *pod;
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
/*
 * Whether a selector names control groups, or what follows from them: then the answer may change when a
 * process is moved to another group.
 */
bool selection_by_cgroup(const struct selection *s);
/* Whether a selector names something that only the kubelet knows. */
bool selection_by_pod(const struct selection *s);
/* Pure. */
enum select_answer selection_match(const struct selection *s, const struct select_identity *id);
/* Whether the process is selected; `selection` is a struct selection. For agent_options.select. */
enum select_answer selection_of_process(const struct process *p, const struct pod_table *pods,
					void *selection);

#endif
