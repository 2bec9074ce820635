// SPDX-License-Identifier: Apache-2.0
/*
 * A profiling session without a collector, as `record` and `top` run it: the options -F, -p, -t, -C,
 * --container and --pod, the configuration, the selection of processes, and the agent.
 */
#ifndef PROFLET_SESSION_H
#define PROFLET_SESSION_H

#include "agent/agent.h"
#include "agent/command/command.h"
#include "agent/track/select.h"

/* Zeroed before use. */
struct session {
	uint32_t hz;			     /* -F; 0: not given */
	struct config_list pids, containers; /* -p, --container */
	struct config_list threads, cpus;    /* -t, -C */
	struct config_list pods;	     /* --pod */
	struct config *config;
	struct selection selection;
	struct agent *agent;
	struct delivery *delivery; /* NULL: no names of pods are wanted */
	/* The command that is started; before this time it is a fork of ours. 0: there is none. */
	uint32_t command_pid;
	uint64_t command_ns;
};

/* command_load, then the sampling frequency (-F, else the configured one, else 99 Hz) and the log. */
int session_load(struct session *s, const struct command_line *line, int *ret_first);
/*
 * Checks the system and resolves the selection. 0, or -errno with, where there is more to say, *ret_why = a
 * line for the operator (owned): -ESRCH: what -p, -t or -C name does not exist; else as command_check_system.
 */
int session_prepare(struct session *s, char **ret_why);
/*
 * Fits memory and frequency to this machine and creates the agent. Configuration and selection of `options`
 * are set here, the others are the caller's. As agent_new.
 */
int session_open(struct session *s, struct agent_options *options, char **ret_why);
void session_fini(struct session *s);

/* config_check_fn for an item of -p, --container, --pod and -C. */
const char *session_check_pid(const char *text);
const char *session_check_container(const char *text);
const char *session_check_pod(const char *text);
const char *session_check_cpu(const char *text);
/* Whether -t, -C and the command want a sample (agent_options.wants); `session` is a struct session. */
bool session_wants(const struct sampled_task *task, const struct sample_view *v, void *session);

/* The options of a struct session, for a command's table of struct config_extra_option. */
#define SESSION_OPTIONS(s)                                                     \
	{.short_name = 'F',                                                    \
	 .name = "frequency",                                                  \
	 .type = CONFIG_U32,                                                   \
	 .target = &(s).hz,                                                    \
	 .min = 1,                                                             \
	 .max = 10000,                                                         \
	 .value_name = "HZ",                                                   \
	 .help = "samples per second on each CPU (default 99)"},               \
		{.short_name = 'p',                                            \
		 .name = "pid",                                                \
		 .type = CONFIG_LIST,                                          \
		 .target = &(s).pids,                                          \
		 .check = session_check_pid,                                   \
		 .form = "a process id",                                       \
		 .value_name = "PID",                                          \
		 .help = "only this process and those it starts; repeatable"}, \
		{.short_name = 't',                                            \
		 .name = "thread",                                             \
		 .type = CONFIG_LIST,                                          \
		 .target = &(s).threads,                                       \
		 .check = session_check_pid,                                   \
		 .form = "a thread id",                                        \
		 .value_name = "TID",                                          \
		 .help = "only this thread; repeatable"},                      \
		{.short_name = 'C',                                            \
		 .name = "cpu",                                                \
		 .type = CONFIG_LIST,                                          \
		 .target = &(s).cpus,                                          \
		 .check = session_check_cpu,                                   \
		 .form = "the number of a CPU",                                \
		 .value_name = "CPU",                                          \
		 .help = "only what runs on this CPU; repeatable"},            \
		{.name = "container",                                          \
		 .type = CONFIG_LIST,                                          \
		 .target = &(s).containers,                                    \
		 .check = session_check_container,                             \
		 .form = "12 to 64 hex digits",                                \
		 .value_name = "ID",                                           \
		 .help = "only this container; repeatable"},                   \
		{.name = "pod",                                                \
		 .type = CONFIG_LIST,                                          \
		 .target = &(s).pods,                                          \
		 .check = session_check_pod,                                   \
		 .form = "POD or NAMESPACE/POD",                               \
		 .value_name = "[NAMESPACE/]POD",                              \
		 .help = "only this pod, one of this node; needs the kubelet; repeatable"}

#endif
