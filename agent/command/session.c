// SPDX-License-Identifier: Apache-2.0
#include "agent/command/session.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/buf.h"
#include "agent/base/fs.h"
#include "agent/base/parse.h"
#include "agent/command/parsers.h"
#include "agent/delivery/delivery.h"
#include "agent/load.h"
#include "agent/memory.h"
#include "agent/proc/image.h"
#include "agent/proc/process.h"
#include "agent/sample/decode.h"

#define DEFAULT_HZ 99u

const char *session_check_pid(const char *text)
{
	uint32_t pid;

	return parse_u32(text, &pid) < 0 || !pid ? "is not a process id" : NULL;
}

const char *session_check_container(const char *text)
{
	size_t n = strspn(text, "0123456789abcdef");

	return text[n] || n < 12 || n > 64 ? "is not a container id" : NULL;
}

const char *session_check_pod(const char *text)
{
	_cleanup_free_ char *selector = NULL;
	struct config_selector ignored;

	if (asprintf(&selector, "pod=%s", text) < 0) {
		selector = NULL;
		return "needs more memory";
	}
	return config_selector_parse(selector, &ignored) < 0 ? "is not the name of a pod" : NULL;
}

const char *session_check_cpu(const char *text)
{
	uint32_t cpu;

	return parse_u32(text, &cpu) < 0 || cpu > UINT16_MAX ? "is not the number of a CPU" : NULL;
}

/* Whether the list is empty, or has the number. */
static bool has_number(const struct config_list *list, uint32_t number)
{
	uint32_t n;

	for (size_t i = 0; i < list->n; i++)
		if (parse_u32(list->items[i], &n) == 0 && n == number)
			return true;
	return list->n == 0;
}

/* A fork of ours that has not executed the command yet: the process runs this program. */
static bool is_before_command(const struct session *s, const struct sampled_task *task)
{
	char own[4096];
	ssize_t n;

	if (task->process->pid != s->command_pid || task->image->since_ns >= s->command_ns)
		return false;
	if (!task->image->program->exe)
		return true;
	n = readlink("/proc/self/exe", own, sizeof own - 1);
	own[n < 0 ? 0 : n] = '\0';
	return strcmp(own, task->image->program->exe) == 0;
}

bool session_wants(const struct sampled_task *task, const struct sample_view *v, void *session)
{
	const struct session *s = session;

	return has_number(&s->threads, v->tid) && has_number(&s->cpus, v->cpu) &&
	       !(s->command_pid && is_before_command(s, task));
}

int session_load(struct session *s, const struct command_line *line, int *ret_first)
{
	int code = command_load(&s->config, line, ret_first);

	if (code != COMMAND_GOES_ON)
		return code;
	if (s->hz)
		s->config->sampling.frequency = s->hz;
	else if (config_origin(s->config, "sampling.frequency")->source == CONFIG_FROM_DEFAULT)
		s->config->sampling.frequency = DEFAULT_HZ;
	log_setup(s->config->log.level, s->config->log.format);
	return COMMAND_GOES_ON;
}

static int include_each(struct session *s, const char *kind, const struct config_list *list)
{
	int r = 0;

	for (size_t i = 0; i < list->n && r == 0; i++) {
		_cleanup_free_ char *selector = NULL;

		if (asprintf(&selector, "%s=%s", kind, list->items[i]) < 0) {
			selector = NULL;
			return -ENOMEM;
		}
		r = config_list_append(&s->config->select.include, selector);
	}
	return r;
}

static int include_pid(struct session *s, const char *text, char **ret_why)
{
	uint32_t pid = 0;
	int r = parse_u32(text, &pid);

	if (r < 0)
		return r;
	if (kill((pid_t)pid, 0) < 0 && errno == ESRCH) {
		if (asprintf(ret_why, "there is no process %s", text) < 0)
			*ret_why = NULL;
		return -ESRCH;
	}
	return selection_add_pid(&s->selection, pid);
}

/* The process that a thread belongs to. 0; -ESRCH: there is no such thread. */
static int process_of(const char *tid, uint32_t *ret)
{
	_cleanup_buf_ struct buf status = {0};
	char path[64];
	const char *at;

	snprintf(path, sizeof path, "/proc/%s/status", tid);
	if (fs_read_file(path, 65536, &status) < 0)
		return -ESRCH;
	at = strstr(buf_str(&status), "\nTgid:");
	*ret = at ? (uint32_t)strtoul(at + strlen("\nTgid:"), NULL, 10) : 0;
	return *ret ? 0 : -ESRCH;
}

static int include_thread(struct session *s, const char *text, char **ret_why)
{
	uint32_t pid;

	if (process_of(text, &pid) == 0)
		return selection_add_pid(&s->selection, pid);
	if (asprintf(ret_why, "there is no thread %s", text) < 0)
		*ret_why = NULL;
	return -ESRCH;
}

static int check_cpu_exists(const char *text, char **ret_why)
{
	const long n = sysconf(_SC_NPROCESSORS_CONF);
	uint32_t cpu = 0;

	if (parse_u32(text, &cpu) == 0 && (long)cpu < n)
		return 0;
	if (asprintf(ret_why, "there is no CPU %s: this machine has %ld, from 0", text, n) < 0)
		*ret_why = NULL;
	return -ESRCH;
}

int session_prepare(struct session *s, char **ret_why)
{
	int r = command_check_system(ret_why);

	if (r == 0)
		r = include_each(s, "container", &s->containers);
	if (r == 0)
		r = include_each(s, "pod", &s->pods);
	if (s->pods.n)
		s->config->kubernetes.metadata = true;
	if (r == 0)
		r = selection_init(&s->selection, s->config);
	for (size_t i = 0; i < s->pids.n && r == 0; i++)
		r = include_pid(s, s->pids.items[i], ret_why);
	for (size_t i = 0; i < s->threads.n && r == 0; i++)
		r = include_thread(s, s->threads.items[i], ret_why);
	for (size_t i = 0; i < s->cpus.n && r == 0; i++)
		r = check_cpu_exists(s->cpus.items[i], ret_why);
	return r;
}

/* Names of pods come from the kubelet, with whom that process speaks. */
static int start_delivery(struct session *s)
{
	const struct delivery_options o = {.config = s->config, .capabilities = 1ull << CAP_DAC_READ_SEARCH};

	return s->config->kubernetes.metadata ? delivery_start(&s->delivery, &o) : 0;
}

int session_open(struct session *s, struct agent_options *options, char **ret_why)
{
	static const struct delivery_callbacks none;
	int r;

	memory_fit(s->config);
	parsers_limit(s->config);
	load_fit_frequency(s->config);
	r = start_delivery(s);
	if (r < 0)
		return r;
	options->config = s->config;
	options->delivery = s->delivery;
	options->select = selection_of_process;
	options->select_data = &s->selection;
	if (s->threads.n || s->cpus.n || s->command_pid) {
		options->wants = session_wants;
		options->wants_data = s;
	}
	options->select_moves = selection_by_cgroup(&s->selection);
	r = agent_new(&s->agent, options, ret_why);
	return r < 0 || !s->delivery ? r : delivery_watch(s->delivery, agent_loop(s->agent), &none);
}

void session_fini(struct session *s)
{
	agent_free(s->agent);
	delivery_free(s->delivery);
	selection_fini(&s->selection);
	config_list_free(&s->pids);
	config_list_free(&s->containers);
	config_list_free(&s->pods);
	config_list_free(&s->threads);
	config_list_free(&s->cpus);
	config_free(s->config);
}
