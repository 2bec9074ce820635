// SPDX-License-Identifier: Apache-2.0
/* Which capabilities are missing, and what is lost without each. One table serves the report and the messages
 * of commands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/check/check_facts.h"
#include "agent/check/checks.h"
#include "agent/check/privileges.h"

static const struct {
	int number;
	const char *name;
	bool required;	/* nothing works without it */
	uint32_t up_to; /* needed only on kernels before this version; 0: on all */
	const char *lost;
} capabilities[] = {
	{CAP_BPF, "CAP_BPF", true, 0, "no BPF program can be loaded"},
	{CAP_PERFMON, "CAP_PERFMON", true, 0,
	 "BPF programs may not trace, and no event of the host can be opened"},
	{CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE", true, CHECK_VERSION(5, 11, 0),
	 "the limit on locked memory cannot be raised for BPF maps (needed before Linux 5.11)"},
	{CAP_SYS_PTRACE, "CAP_SYS_PTRACE", false, 0,
	 "binaries of other processes cannot be read: their stacks end early and have no names"},
	{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", false, 0,
	 "binaries that are readable only for their owner cannot be read: their stacks end early"},
	{CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", false, 0,
	 "binaries that were deleted or replaced while they run cannot be read"},
	{CAP_SYSLOG, "CAP_SYSLOG", false, 0, "kernel functions have no names"},
	{CAP_IPC_LOCK, "CAP_IPC_LOCK", false, 0,
	 "event buffers stay within kernel.perf_event_mlock_kb: more process events are lost under load"},
};

/* Whether number `i` of the table is needed on this kernel. */
static bool applies(const struct check_view *view, size_t i)
{
	uint64_t memlock;
	uint32_t version;

	if (!capabilities[i].up_to)
		return true;
	if (view->memlock(view->ctx, &memlock) == 0 && memlock == UINT64_MAX)
		return false;
	return check_kernel_version(view, &version) == 0 && version < capabilities[i].up_to;
}

void check_capabilities(const struct check_view *view, struct check_report *report)
{
	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
		const char *name = capabilities[i].name;
		char detail[200], fix[160];

		if (!applies(view, i))
			continue;
		if (check_has(view, capabilities[i].number)) {
			check_add(report, CHECK_OK, name,
				  check_has_itself(view, capabilities[i].number) ? "present"
										 : "covered by CAP_SYS_ADMIN",
				  "");
			continue;
		}
		snprintf(detail, sizeof detail, "missing: %s", capabilities[i].lost);
		snprintf(fix, sizeof fix,
			 "add %s to the container's securityContext.capabilities.add, or run as root",
			 name + strlen("CAP_"));
		if (capabilities[i].required)
			check_add_denied(report, name, detail, fix);
		else
			check_add(report, CHECK_DEGRADED, name, detail, fix);
	}
}

#define USER_NAMESPACE_LOST "not the initial one: its capabilities do not count for BPF and perf events"
#define USER_NAMESPACE_FIX "set hostUsers: true in the pod, or run outside of rootless containers"

/* BPF and perf require capabilities in the initial user namespace; those of another one do not count. True
 * also when the namespace is unknown. */
static bool in_initial_user_namespace(const struct check_view *view)
{
	unsigned inside, outside, count;
	char text[256];

	return view->read_file(view->ctx, "/proc/self/uid_map", text, sizeof text) <= 0 ||
	       sscanf(text, "%10u %10u %10u", &inside, &outside, &count) != 3 ||
	       (inside == 0 && outside == 0 && count == UINT32_MAX);
}

/* Appends the names of missing capabilities; returns how many, or -ENOMEM. */
static int list_missing(const struct check_view *view, bool required, const char *before, struct buf *b)
{
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
		int r;

		if (capabilities[i].required != required || !applies(view, i) ||
		    check_has(view, capabilities[i].number))
			continue;
		r = buf_printf(b, "%s%s", n ? ", " : before, capabilities[i].name);
		if (r < 0)
			return r;
		n++;
	}
	return n;
}

int check_permissions_of(const struct check_view *view, char **ret_missing)
{
	_cleanup_buf_ struct buf b = {0};
	int n, r;

	if (!in_initial_user_namespace(view)) {
		*ret_missing = strdup("this user namespace is " USER_NAMESPACE_LOST "; " USER_NAMESPACE_FIX);
		return *ret_missing ? -EPERM : -ENOMEM;
	}
	n = list_missing(view, true, "missing capabilities: ", &b);
	if (n <= 0)
		return n;
	r = check_has(view, CAP_BPF) || check_has(view, CAP_PERFMON) ? 0
								     : buf_puts(&b, " (or CAP_SYS_ADMIN)");
	if (r == 0)
		r = list_missing(view, false, "; also missing, which reduces what is seen: ", &b);
	if (r >= 0)
		r = buf_puts(&b, "; run as root or grant them");
	if (r < 0)
		return r;
	*ret_missing = strdup(buf_str(&b));
	return *ret_missing ? -EPERM : -ENOMEM;
}

int check_lost_of(const struct check_view *view, int (*fn)(const char *name, const char *lost, void *data),
		  void *data)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(capabilities) && r == 0; i++)
		if (!capabilities[i].required && applies(view, i) && !check_has(view, capabilities[i].number))
			r = fn(capabilities[i].name, capabilities[i].lost, data);
	return r;
}

/* Which capabilities `run` keeps once it samples, and what it gives up by then. */
void check_privileges(const struct check_view *view, const struct config *config, struct check_report *report)
{
	_cleanup_buf_ struct buf b = {0};
	struct privileges p;
	int r;

	privileges_of(view, config, &p);
	if (!p.held)
		return;
	r = buf_puts(&b, "run keeps ");
	if (r == 0)
		r = privileges_format(p.kept, &b);
	if (r == 0)
		r = buf_puts(&b, "; it gives up ");
	if (r == 0)
		r = privileges_format(p.held & ~p.kept, &b);
	if (r == 0)
		r = buf_puts(&b, ", and the system calls that write files, start programs or connect");
	if (r == 0)
		check_add(report, CHECK_OK, "privileges", buf_str(&b), "");
}

void check_user_namespace(const struct check_view *view, struct check_report *report)
{
	if (in_initial_user_namespace(view))
		check_add(report, CHECK_OK, "user namespace", "the initial one", "");
	else
		check_add_denied(report, "user namespace", USER_NAMESPACE_LOST, USER_NAMESPACE_FIX);
}
