// SPDX-License-Identifier: Apache-2.0
#include "agent/check/privileges.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include "agent/base/cleanup.h"
#include "agent/check/check_facts.h"
#include "agent/config/config.h"

#define BIT(n) CHECK_CAPABILITY(n)

DEFINE_CLEANUP(cap_t, cap_free)

/* Reading binaries of other processes, and the kernel's symbols. */
#define READ (BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_CHECKPOINT_RESTORE) | BIT(CAP_SYSLOG))
/* The main thread's work: new segments and counters are BPF maps; CPUs that come online get perf events. */
#define MAIN (BIT(CAP_BPF) | BIT(CAP_PERFMON) | READ)
/* The start: limits, rings above perf_event_mlock_kb, priority, a port below 1024, and giving up
 * capabilities. */
#define START                                                                                        \
	(BIT(CAP_SYS_RESOURCE) | BIT(CAP_IPC_LOCK) | BIT(CAP_SYS_NICE) | BIT(CAP_NET_BIND_SERVICE) | \
	 BIT(CAP_SETPCAP))

static const struct {
	int number;
	const char *name;
} names[] = {
	{CAP_BPF, "BPF"},
	{CAP_PERFMON, "PERFMON"},
	{CAP_SYS_PTRACE, "SYS_PTRACE"},
	{CAP_SYS_RESOURCE, "SYS_RESOURCE"},
	{CAP_DAC_READ_SEARCH, "DAC_READ_SEARCH"},
	{CAP_SYSLOG, "SYSLOG"},
	{CAP_CHECKPOINT_RESTORE, "CHECKPOINT_RESTORE"},
	{CAP_IPC_LOCK, "IPC_LOCK"},
	{CAP_SYS_NICE, "SYS_NICE"},
	{CAP_SYS_ADMIN, "SYS_ADMIN"},
	{CAP_DAC_OVERRIDE, "DAC_OVERRIDE"},
};

/* Whether a CPU may come online later. It gets a ring of its own then. */
static bool cpus_may_come(const struct check_view *view)
{
	char possible[256], online[256];

	return view->read_file(view->ctx, "/sys/devices/system/cpu/possible", possible, sizeof possible) <
		       0 ||
	       view->read_file(view->ctx, "/sys/devices/system/cpu/online", online, sizeof online) < 0 ||
	       strcmp(possible, online) != 0;
}

static bool perf_takes_admin(const struct check_view *view)
{
	int level;

	return check_paranoid_level(view, &level) == 0 && level > 2;
}

/* Adds SYS_ADMIN if it replaces one that is missing. */
static uint64_t with_admin(uint64_t wanted, uint64_t held)
{
	return wanted & CHECK_BY_SYS_ADMIN & ~held ? wanted | BIT(CAP_SYS_ADMIN) : wanted;
}

void privileges_of(const struct check_view *view, const struct config *config, struct privileges *ret)
{
	struct privileges p = {.kept = MAIN};
	/* for a directory or a socket that another user owns */
	uint64_t foreign =
		config->queue.spool || strncmp(config->endpoint, "unix:", 5) == 0 ? BIT(CAP_DAC_OVERRIDE) : 0;

	if (view->capabilities(view->ctx, &p.held) < 0)
		p.held = 0;
	if (cpus_may_come(view))
		p.kept |= BIT(CAP_IPC_LOCK);
	if (perf_takes_admin(view))
		p.kept |= BIT(CAP_SYS_ADMIN);
	p.kept = with_admin(p.kept, p.held) & p.held;
	p.start = (p.kept | START | foreign) & p.held;
	p.of_thread[THREAD_READER] = with_admin(READ, p.held) & p.kept;
	p.of_thread[THREAD_NETWORK] = (BIT(CAP_DAC_READ_SEARCH) | foreign) & p.held;
	*ret = p;
}

void privileges_keep_nice(struct privileges *p)
{
	p->kept |= BIT(CAP_SYS_NICE) & p->held;
	p->of_thread[THREAD_READER] |= BIT(CAP_SYS_NICE) & p->held;
}

int privileges_format(uint64_t set, struct buf *b)
{
	const char *before = "";
	unsigned others;
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
		if (!(set & BIT(names[i].number)))
			continue;
		r = buf_printf(b, "%s%s", before, names[i].name);
		set &= ~BIT(names[i].number);
		before = ", ";
	}
	others = (unsigned)__builtin_popcountll(set);
	if (r == 0 && others)
		r = buf_printf(b, "%s%u other%s", *before ? " and " : "", others, others > 1 ? "s" : "");
	else if (r == 0 && !*before)
		r = buf_puts(b, "none");
	return r;
}

/* Sets the calling thread's permitted and effective sets to `set`, and clears inheritable and ambient. */
static int hold(uint64_t set)
{
	_cleanup_(cap_free_p) cap_t caps = cap_init();
	int r = caps ? 0 : -1;

	for (int i = 0; i < cap_max_bits() && r == 0; i++) {
		cap_value_t value = i;

		if (!(set & BIT(i)))
			continue;
		r = cap_set_flag(caps, CAP_PERMITTED, 1, &value, CAP_SET);
		if (r == 0)
			r = cap_set_flag(caps, CAP_EFFECTIVE, 1, &value, CAP_SET);
	}
	if (r == 0)
		r = cap_set_proc(caps);
	return r < 0 ? -errno : 0;
}

static struct privileges limits;

/* On failure the thread keeps the capabilities of the thread that created it. */
static void on_thread(enum thread_kind kind)
{
	(void)hold(limits.of_thread[kind]);
}

int privileges_limit(const struct privileges *p)
{
	int r;

	for (int i = 0; i < cap_max_bits(); i++)
		if (!(p->start & BIT(i)))
			(void)cap_drop_bound(i); /* fails without SETPCAP: the container runtime has limited
						    the set then */
	r = hold(p->start);
	if (r < 0)
		return r;
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	limits = *p;
	thread_set_begin(on_thread);
	return 0;
}

int privileges_settle(const struct privileges *p)
{
	return hold(p->kept);
}
