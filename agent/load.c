// SPDX-License-Identifier: Apache-2.0
#include "agent/load.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/config/config.h"
#include "agent/probe/probe.h"

/* A segment occupies one page more than its usable size. */
uint32_t load_segments(const struct config *c)
{
	uint64_t n = c->memory.tables_bytes / SEGMENT_VALUE;

	return n > SEGMENTS_MAX ? SEGMENTS_MAX : n ? (uint32_t)n : 1;
}

static uint32_t ticks_per_second(void)
{
	uint64_t ns = clock_tick_ns();

	return ns ? (uint32_t)((NS_PER_SEC + ns / 2) / ns) : UINT32_MAX;
}

void load_fit_frequency(struct config *c)
{
	bool tick = c->sampling.event == CONFIG_EVENT_TICK;
	uint32_t hz = ticks_per_second();

	if (c->sampling.event == CONFIG_EVENT_AUTO)
		tick = probe_takes_tick(PROBE_EVENT_AUTO);
	if (!tick || c->sampling.frequency <= hz)
		return;
	log_warn("sampling.frequency %u: the kernel has %u ticks a second, and perf events are not used: %u",
		 c->sampling.frequency, hz, hz);
	c->sampling.frequency = hz;
}

static void set_why(char **ret_why, const char *text)
{
	*ret_why = strdup(text);
}

/* Joins libbpf's lines into one. */
static void set_libbpf_why(char **ret_why, int r, char *text)
{
	for (char *end = text ? strchr(text, '\n') : NULL; end; end = strchr(end, '\n'))
		*end = end[1] ? ';' : '\0';
	if (asprintf(ret_why, "the BPF program could not be loaded: %s%s%s", strerror(-r),
		     text && *text ? ": " : "", text ? text : "") < 0)
		*ret_why = NULL;
}

static int explain(int r, char *text, char **ret_why)
{
	if (r == -ESRCH) /* what libbpf returns without BTF */
		set_why(ret_why, "the kernel does not describe its types (/sys/kernel/btf/vmlinux): boot a "
				 "kernel built "
				 "with CONFIG_DEBUG_INFO_BTF=y, or mount /sys read-only in the container");
	else if (r == -EKEYREJECTED)
		set_why(ret_why,
			"sampling by the timer tick takes the addresses of kernel functions, and they "
			"are hidden: "
			"add SYSLOG to the capabilities, or set kernel.kptr_restrict to 0 or 1");
	else if (r == -ENOTSUP)
		set_why(ret_why,
			"sampling by the timer tick is not possible on this kernel: it has no such function");
	else if (r < 0)
		set_libbpf_why(ret_why, r, text);
	return r;
}

int load_begin(struct probe **ret, const struct config *c, char **ret_why)
{
	_cleanup_free_ char *text = NULL;
	struct probe_options o = {
		.event = c->sampling.event == CONFIG_EVENT_CYCLES      ? PROBE_EVENT_CYCLES
			 : c->sampling.event == CONFIG_EVENT_CPU_CLOCK ? PROBE_EVENT_CPU_CLOCK
			 : c->sampling.event == CONFIG_EVENT_TICK      ? PROBE_EVENT_TICK
								       : PROBE_EVENT_AUTO,
		.frequency_hz = c->sampling.frequency,
		.user_frames = c->stack.depth,
		.max_segments = load_segments(c),
	};

	return explain(probe_new(ret, &o, &text), text, ret_why);
}

int load_end(struct probe *p, char **ret_why)
{
	_cleanup_free_ char *text = NULL;

	return explain(probe_loaded(p, &text), text, ret_why);
}
