// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/cpu_limit.h"

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/delivery/delivery.h"
#include "agent/telemetry/selfstat.h"

#define SAMPLES_LEAST 0.5 /* part of max that samples may use in any case */
/* Parts of the CPU time that is left for samples: the target of a new frequency; the frequency is raised
 * below RAISE. */
#define AIM 0.9
#define RAISE 0.8
#define RAISE_MOST 2u	/* factor at one look, as the load may come back */
#define BEYOND_LOOKS 6u /* consecutive looks before it is logged: a burst of new processes is harmless */

static double share(uint64_t now_ns, uint64_t before_ns, uint64_t elapsed_ns)
{
	return now_ns > before_ns ? (double)(now_ns - before_ns) / (double)elapsed_ns : 0;
}

static uint32_t at_least_one(double hz)
{
	return hz < 1 ? 1 : (uint32_t)hz;
}

static uint32_t rate_of(const struct cpu_limit *l, uint32_t hz)
{
	double left = l->max - l->other, least = l->max * SAMPLES_LEAST, room = left > least ? left : least;

	if (l->samples > room)
		return at_least_one(hz * AIM * room / l->samples);
	if (hz < l->wanted_hz && l->samples < RAISE * room) {
		double most = hz * (double)RAISE_MOST,
		       fits = l->samples > 0 ? hz * AIM * room / l->samples : most;

		fits = fits < most ? fits : most;
		return fits < l->wanted_hz ? at_least_one(fits) : l->wanted_hz;
	}
	return hz;
}

static bool look_is_due(const struct cpu_limit *l, uint64_t now_ns)
{
	return !l->looked_ns || now_ns - l->looked_ns >= CPU_LIMIT_LOOK_NS;
}

uint32_t cpu_limit_look(struct cpu_limit *l, uint64_t now_ns, struct cpu_use used, uint32_t hz)
{
	uint64_t elapsed = now_ns - l->looked_ns;
	bool first = !l->looked_ns;

	if (!look_is_due(l, now_ns))
		return hz;
	l->samples = share(used.samples_ns, l->used.samples_ns, elapsed);
	l->wasted = share(used.wasted_ns, l->used.wasted_ns, elapsed);
	l->other = share(used.all_ns, l->used.all_ns, elapsed) - l->samples - l->wasted;
	if (l->other < 0)
		l->other = 0; /* the clocks are not read at the same time */
	l->looked_ns = now_ns;
	l->used = used;
	if (first)
		return hz;
	l->n_beyond = l->other + l->wasted > l->max ? l->n_beyond + 1 : 0;
	return rate_of(l, hz);
}

static void log_change(const struct cpu_limit *l, uint32_t from, uint32_t to)
{
	double samples = 100 * l->samples, other = 100 * l->other, wasted = 100 * l->wasted,
	       max = 100 * l->max;

	if (to < from)
		log_warn("cpu.max: sampling at %u Hz, no longer %u: samples took %.2f %% of a CPU, all "
			 "else %.2f %%, "
			 "and %.4g %% are allowed",
			 to, from, samples, other, max);
	else if (to > from)
		log_info("cpu.max: sampling at %u Hz again%s", to,
			 to < l->wanted_hz ? "" : ", as configured");
	if (l->n_beyond == BEYOND_LOOKS)
		log_warn("cpu.max: new processes, tables and names alone take %.2f %% of a CPU, and "
			 "%.4g %% are "
			 "allowed: a lower sampling rate does not help%s",
			 other + wasted, max,
			 wasted > other ? "; most of it goes to files that crash or occupy who reads them"
					: "");
}

uint32_t cpu_limit_update(struct cpu_limit *l, uint32_t hz, struct agent *a, struct delivery *x)
{
	struct otlp_exporter_stats exporter;
	struct agent_stats s;
	struct selfstat self;
	uint64_t now = clock_mono_ns();
	struct cpu_use used;
	uint32_t next;

	if (!look_is_due(l, now)) /* checked first, because reading everything is expensive */
		return hz;
	agent_stats(a, &s);
	if (now - s.attached_ns < CPU_LIMIT_SETTLE_NS)
		return hz;
	delivery_stats(x, &exporter);
	selfstat_read(&self);
	used.samples_ns = s.probe.cpu_ns + s.samples_cpu_ns + exporter.cpu_ns;
	used.all_ns = s.probe.cpu_ns + self.cpu_ns + exporter.cpu_ns;
	used.wasted_ns = self.wasted_ns;
	next = cpu_limit_look(l, now, used, hz);
	log_change(l, hz, next);
	return next;
}
