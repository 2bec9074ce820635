// SPDX-License-Identifier: Apache-2.0
/*
 * Where programs want more CPU time than there is, each control group gets a share by its weight. Kubernetes
 * sets the weight from the CPU request: 1024 shares for a whole CPU. With control groups v2, the container
 * runtime converts shares to a weight. It did so linearly at first; runc 1.3.2 and crun 1.23 brought a curve
 * with the default weight at one CPU. A weight does not reveal which of the two made it.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/clock.h"
#include "agent/check/checks.h"
#include "cgroup/limit.h"

#define SHARES_MIN 2u
#define SHARES_MAX 262144u
#define REQUEST_MAX 256001u /* millicores: no weight is above that of 256 CPUs */
#define REQUEST_SMALL 100u  /* millicores: below it, the weight is worth a warning if CPUs are busy */

#define GROUP_WAITS 25.0   /* percent of the last minute in which programs of our group waited for a CPU */
#define MACHINE_WAITS 50.0 /* the same of the whole machine */
#define WAIT_TO_RUN 4	   /* this process waited more than this many times as long as it ran, */
#define WAIT_MIN_NS (500 * NS_PER_MS) /* and for at least so long */

/* CPU requests, in millicores, that give the group its weight: by v1 or the runtime's curve, and linearly. */
struct requests {
	size_t from, to, linear_from, linear_to;
};

/* As the kubelet: floor(m * 1024 / 1000). */
static uint64_t shares_of(size_t millicores)
{
	uint64_t shares = (uint64_t)millicores * 1024 / 1000;

	return shares < SHARES_MIN ? SHARES_MIN : shares > SHARES_MAX ? SHARES_MAX : shares;
}

static uint64_t weight_linear(size_t millicores)
{
	return 1 + (shares_of(millicores) - SHARES_MIN) * 9999 / (SHARES_MAX - SHARES_MIN);
}

/* The parabola of the weight's logarithm that meets (2, 1), (1024, 100) and (262144, 10000). */
static uint64_t weight_curve(size_t millicores)
{
	uint64_t shares = shares_of(millicores);
	double l = log2((double)shares);

	if (shares == SHARES_MIN)
		return 1;
	return shares == SHARES_MAX ? 10000 : (uint64_t)ceil(pow(10, (l * l + 125 * l) / 612 - 7.0 / 34));
}

/* The requests for which the ascending function `of` returns `value`. */
static void invert(uint64_t (*of)(size_t millicores), uint64_t value, size_t *ret_from, size_t *ret_to)
{
	size_t from = array_first(REQUEST_MAX, i, of(i) >= value),
	       behind = array_first(REQUEST_MAX, j, of(j) > value);

	*ret_from = from;
	*ret_to = behind > from ? behind - 1 : from;
}

static struct requests requests_of(const struct cgroup_cpu *group)
{
	struct requests r = {0};

	invert(group->version == 1 ? shares_of : weight_curve, group->weight, &r.from, &r.to);
	if (group->version == 1) {
		r.linear_from = r.from;
		r.linear_to = r.to;
	} else {
		invert(weight_linear, group->weight, &r.linear_from, &r.linear_to);
	}
	return r;
}

static bool is_default(const struct cgroup_cpu *group)
{
	return group->weight == (group->version == 1 ? CGROUP_CPU_SHARES_DEFAULT : CGROUP_CPU_WEIGHT_DEFAULT);
}

static void describe_weight(const struct cgroup_cpu *group, const struct requests *r, char *ret, size_t size)
{
	const char *file = group->version == 1 ? "cpu.shares" : "cpu.weight";

	if (is_default(group))
		snprintf(ret, size, "%s is %" PRIu64 ", the default of control groups", file, group->weight);
	else if (group->version == 1 && group->weight <= SHARES_MIN)
		snprintf(ret, size, "%s is %" PRIu64 ": no CPU request", file, group->weight);
	else if (group->version == 1)
		snprintf(ret, size, "%s is %" PRIu64 ", a CPU request of %zum", file, group->weight, r->from);
	else
		snprintf(ret, size,
			 "%s is %" PRIu64 ", a CPU request of %zum to %zum (runc 1.3.2, crun 1.23, or newer) "
			 "or of %zum to %zum (older)",
			 file, group->weight, r->from, r->to, r->linear_from, r->linear_to);
}

/*
 * For how many percent of the last minute some program waited for a CPU ("some avg10=1.58 avg60=2.72 …");
 * negative: unknown.
 */
static double pressure_of(const struct check_view *view, const char *path)
{
	char text[256];
	double percent;

	if (view->read_file(view->ctx, path, text, sizeof text) <= 0 ||
	    sscanf(text, "some avg10=%*f avg60=%lf", &percent) != 1)
		return -1;
	return percent;
}

static double group_pressure(const struct check_view *view, const struct cgroup_cpu *group)
{
	char path[sizeof group->folder + sizeof "/cpu.pressure"];

	if (group->version != 2)
		return -1;
	snprintf(path, sizeof path, "%s/cpu.pressure", group->folder);
	return pressure_of(view, path);
}

/* Whether this process itself waits: *ret_… as the kernel counted them. */
static bool waits_itself(const struct check_view *view, uint64_t *ret_run_ns, uint64_t *ret_wait_ns)
{
	char text[128];

	return view->read_file(view->ctx, "/proc/self/schedstat", text, sizeof text) > 0 &&
	       sscanf(text, "%" SCNu64 " %" SCNu64, ret_run_ns, ret_wait_ns) == 2 &&
	       *ret_wait_ns > *ret_run_ns * WAIT_TO_RUN && *ret_wait_ns >= WAIT_MIN_NS;
}

/* Writes who waits for CPUs, and for how long. Returns whether the agent would get too little. */
static bool describe_waiting(const struct check_view *view, const struct cgroup_cpu *group,
			     const struct requests *requests, char *ret, size_t size)
{
	double own = group ? group_pressure(view, group) : -1;
	double machine = pressure_of(view, "/proc/pressure/cpu");
	uint64_t run_ns, wait_ns;

	if (waits_itself(view, &run_ns, &wait_ns)) {
		snprintf(ret, size, "this check ran for %.2f s and waited %.2f s for a CPU",
			 (double)run_ns / NS_PER_SEC, (double)wait_ns / NS_PER_SEC);
		return true;
	}
	if (own >= 0) {
		snprintf(ret, size, "the group waited for a CPU in %.0f %% of the last minute", own);
		return own >= GROUP_WAITS;
	}
	if (machine >= 0) {
		snprintf(ret, size, "programs of this machine waited for a CPU in %.0f %% of the last minute",
			 machine);
		return machine >= MACHINE_WAITS && group && requests->to < REQUEST_SMALL &&
		       requests->linear_to < REQUEST_SMALL;
	}
	snprintf(ret, size, "it is unknown whether programs wait for a CPU (no /proc/pressure/cpu)");
	return false;
}

void check_cpu(const struct check_view *view, struct check_report *report)
{
	char weight[200], waiting[100], detail[320];
	struct requests requests = {0};
	struct cgroup_cpu group;
	int r = view->cpu_group(view->ctx, &group);
	bool starved;

	if (r == 0) {
		requests = requests_of(&group);
		describe_weight(&group, &requests, weight, sizeof weight);
	} else {
		snprintf(weight, sizeof weight, "%s",
			 r == -ENODATA ? "the control group has no CPU weight of its own"
				       : "the CPU weight of the control group is unknown");
	}
	starved = describe_waiting(view, r == 0 ? &group : NULL, &requests, waiting, sizeof waiting);
	snprintf(detail, sizeof detail, "%s; %s", weight, waiting);
	check_add(report, starved ? CHECK_DEGRADED : CHECK_OK, "cpu weight", detail,
		  starved ? "raise the CPU request (resources.requests.cpu of the chart, CPUWeight= of a "
			    "systemd unit): tables and names come late"
			  : "");
}
