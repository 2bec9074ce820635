// SPDX-License-Identifier: Apache-2.0
/* Formats the agent's numbers as text. */
#include "agent/agent.h"
#include "agent/base/buf.h"
#include "agent/sample/decode.h"

size_t agent_drops(const struct agent_stats *s, struct agent_drop ret[static AGENT_DROPS_MAX])
{
	static const char *const names[PROBE_COUNTERS_N] = {
		[COUNTER_RING_FULL] = "ring_full", [COUNTER_NO_PID] = "no_pid"};
	static const char *const refusals[SAMPLE_DROPS_N] = {
#define X(name, text) [SAMPLE_DROP_##name] = text,
		SAMPLE_DROPS(X)
#undef X
	};
	size_t n = 0;

	for (int i = 0; i < PROBE_COUNTERS_N; i++) {
		if (!names[i])
			continue;
		ret[n++] = (struct agent_drop){names[i], s->probe.counters[i]};
	}
	for (int i = 0; i < SAMPLE_DROPS_N; i++)
		ret[n++] = (struct agent_drop){refusals[i], s->refused[i]};
	for (int i = 0; i < REPORT_DROPS_N; i++)
		ret[n++] = (struct agent_drop){report_drop_text((enum report_drop)i), s->report.dropped[i]};
	return n;
}

int agent_format_drops(const struct agent_stats *s, struct buf *b)
{
	struct agent_drop drops[AGENT_DROPS_MAX];
	size_t n = agent_drops(s, drops);
	int r = s->not_selected ? buf_printf(b, " not_selected=%lu", (unsigned long)s->not_selected) : 0;

	for (size_t i = 0; i < n && r == 0; i++)
		if (drops[i].n)
			r = buf_printf(b, " dropped_%s=%lu", drops[i].reason, (unsigned long)drops[i].n);
	return r;
}

int agent_format_omitted(const struct agent_stats *s, struct buf *b)
{
	if (!s->report.shortened)
		return 0;
	return buf_printf(b, " shortened=%lu frames_omitted=%lu", (unsigned long)s->report.shortened,
			  (unsigned long)s->report.omitted);
}

int agent_format_endings(const struct agent_stats *s, struct buf *b)
{
	int r = 0;

	for (int i = 0; i < ENDINGS && r == 0; i++) {
		size_t at;

		if (!s->report.by_ending[i])
			continue;
		r = buf_puts(b, " ending_");
		at = b->len;
		if (r == 0)
			r = buf_printf(b, "%s=%lu", unwind_ending_text((enum unwind_ending)i),
				       (unsigned long)s->report.by_ending[i]);
		for (; at < b->len; at++)
			if (b->data[at] == ' ' || b->data[at] == '-')
				b->data[at] = '_';
	}
	return r < 0 ? r : agent_format_omitted(s, b);
}
