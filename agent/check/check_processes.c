// SPDX-License-Identifier: Apache-2.0
/*
 * What each process of the agent may do, as the kernel says it: the agent itself, the one that talks to
 * servers (agent/delivery), and those in which the bytes that tenants chose are opened and read
 * (agent/parser).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/thread.h"
#include "agent/check/checks.h"
#include "agent/check/privileges.h"

#define STATUS_BYTES 4096
#define ENTER_TRIES 50u /* a process that was just forked gives up its rights one after the other */
#define ENTER_STEP_US 10000u
#define SECCOMP_FILTER 2u
/* The latter if the spool, or a socket that it connects to, may belong to another user. */
#define DELIVERY_CAPABILITIES (1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_DAC_OVERRIDE)

struct rights {
	unsigned uid, seccomp, no_new_privileges;
	uint64_t capabilities;
};

/* The number behind `name` in the text of /proc/<pid>/status. */
static uint64_t field(const char *status, const char *name, int base)
{
	const char *at = strstr(status, name);

	return at ? strtoull(at + strlen(name), NULL, base) : 0;
}

/* False: it cannot be read. */
static bool rights_read(const struct check_view *view, const char *process, struct rights *ret)
{
	char path[48], text[STATUS_BYTES];

	snprintf(path, sizeof path, "/proc/%s/status", process);
	if (view->read_file(view->ctx, path, text, sizeof text) <= 0)
		return false;
	*ret = (struct rights){.uid = (unsigned)field(text, "\nUid:\t", 10),
			       .seccomp = (unsigned)field(text, "\nSeccomp:\t", 10),
			       .no_new_privileges = (unsigned)field(text, "\nNoNewPrivs:\t", 10),
			       .capabilities = field(text, "\nCapEff:\t", 16)};
	return true;
}

/* Appends the namespaces in which it is not together with another process. */
static int namespaces_format(const struct check_view *view, const char *process, const char *other,
			     struct buf *b)
{
	static const char *const names[] = {"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"};
	unsigned n = 0, unknown = 0;
	int r = buf_puts(b, "; namespaces of its own: ");

	for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
		char path[64], its[64], others[64];

		snprintf(path, sizeof path, "/proc/%s/ns/%s", process, names[i]);
		if (view->read_link(view->ctx, path, its, sizeof its) <= 0)
			unknown++;
		snprintf(path, sizeof path, "/proc/%s/ns/%s", other, names[i]);
		if (unknown || view->read_link(view->ctx, path, others, sizeof others) <= 0)
			unknown++;
		else if (strcmp(its, others) != 0)
			r = buf_printf(b, "%s%s", n++ ? ", " : "", names[i]);
	}
	if (r == 0 && !n)
		r = buf_puts(b, unknown ? "not visible" : "none");
	return r;
}

static int rights_format(const struct check_view *view, const char *process, const char *other,
			 const struct rights *x, struct buf *b)
{
	int r = buf_printf(b, "user %u; capabilities ", x->uid);

	if (r == 0)
		r = privileges_format(x->capabilities, b);
	if (r == 0)
		r = buf_printf(b, "; %s; %s",
			       x->no_new_privileges ? "no new privileges" : "may gain privileges",
			       x->seccomp == SECCOMP_FILTER ? "seccomp filter" : "no seccomp filter");
	return r < 0 ? r : namespaces_format(view, process, other, b);
}

/* As it stands while checks are made: `run` gives up more, see the line `privileges`. */
static void check_agent(const struct check_view *view, struct check_report *report)
{
	_cleanup_buf_ struct buf text = {0};
	struct rights rights;

	if (rights_read(view, "self", &rights) && rights_format(view, "self", "1", &rights, &text) == 0)
		check_add(report, CHECK_OK, "process: agent", buf_str(&text), "");
}

/* A process that works for the agent. */
struct helper {
	const char *name;
	pid_t (*pid)(const struct check_view *view, const struct config *config);
	uint64_t allowed;    /* capabilities */
	const char *missing; /* what it means if there is none */
};

static bool is_confined(const struct rights *x, uint64_t allowed)
{
	return !(x->capabilities & ~allowed) && x->seccomp == SECCOMP_FILTER && x->no_new_privileges;
}

/* Waits until it has given up what it does not need. False: there is none. */
static bool helper_read(const struct check_view *view, const struct config *config, const struct helper *h,
			char process[16], struct rights *ret)
{
	bool found = false;

	for (unsigned i = 0; i < ENTER_TRIES && !(found && is_confined(ret, h->allowed)); i++) {
		pid_t pid = h->pid(view, config);

		if (i)
			usleep(ENTER_STEP_US);
		snprintf(process, 16, "%d", (int)pid);
		found = pid && rights_read(view, process, ret);
	}
	return found;
}

static void check_helper(const struct check_view *view, const struct config *config,
			 struct check_report *report, const struct helper *h)
{
	_cleanup_buf_ struct buf text = {0};
	struct rights rights = {0};
	char process[16];

	if (!helper_read(view, config, h, process, &rights)) {
		check_add(report, CHECK_DEGRADED, h->name, h->missing,
			  "let the agent fork processes: a limit of processes or memory may forbid it");
		return;
	}
	if (rights_format(view, process, "self", &rights, &text) < 0)
		return;
	if (is_confined(&rights, h->allowed))
		check_add(report, CHECK_OK, h->name, buf_str(&text), "");
	else
		check_add(report, CHECK_DEGRADED, h->name, buf_str(&text),
			  "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER), and let the agent load "
			  "them");
}

static pid_t parsers(const struct check_view *view, const struct config *config)
{
	(void)config;
	return view->parsers(view->ctx, false);
}

static pid_t openers(const struct check_view *view, const struct config *config)
{
	(void)config;
	return view->parsers(view->ctx, true);
}

static pid_t delivery(const struct check_view *view, const struct config *config)
{
	struct privileges p;

	privileges_of(view, config, &p);
	return view->delivery(view->ctx, config, p.of_thread[THREAD_NETWORK]);
}

void check_processes(const struct check_view *view, const struct config *config, struct check_report *report)
{
	static const struct helper helpers[] = {
		{"process: delivery", delivery, DELIVERY_CAPABILITIES,
		 "there is none: the agent cannot run without it"},
		{"process: parsers", parsers, 0,
		 "there is none: threads of the agent read the binaries of all tenants"},
		{"process: openers", openers, 1ull << CAP_DAC_READ_SEARCH,
		 "there is none: threads of the agent open what tenants wrote"},
	};

	check_agent(view, report);
	for (size_t i = 0; i < ARRAY_SIZE(helpers); i++)
		check_helper(view, config, report, &helpers[i]);
}
