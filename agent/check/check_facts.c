// SPDX-License-Identifier: Apache-2.0
#include "agent/check/check_facts.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/config.h"

static int parse_version(const char *s, uint32_t *ret)
{
	unsigned major, minor, patch = 0;

	if (!s || sscanf(s, "%3u.%3u.%3u", &major, &minor, &patch) < 2 || major > 255 || minor > 255)
		return -EINVAL;
	*ret = CHECK_VERSION(major, minor, patch > 255 ? 255 : patch);
	return 0;
}

int check_kernel_version(const struct check_view *view, uint32_t *ret)
{
	char release[65], version[65], signature[128];
	const char *debian;
	int r = view->uname(view->ctx, release, version);

	if (r < 0)
		return r;
	/*
	 * The releases of Debian (6.1.0-18) and Ubuntu (6.2.0-39) name the ABI; the patch level is elsewhere.
	 */
	debian = strstr(version, "Debian ");
	if (debian && parse_version(debian + strlen("Debian "), ret) == 0)
		return 0;
	if (view->read_file(view->ctx, "/proc/version_signature", signature, sizeof signature) > 0 &&
	    parse_version(strrchr(signature, ' ') ? strrchr(signature, ' ') + 1 : NULL, ret) == 0)
		return 0;
	return parse_version(release, ret);
}

bool check_has_itself(const struct check_view *view, int capability)
{
	uint64_t mask;

	return view->capabilities(view->ctx, &mask) == 0 && (mask & CHECK_CAPABILITY(capability));
}

bool check_has(const struct check_view *view, int capability)
{
	return check_has_itself(view, capability) ||
	       ((CHECK_BY_SYS_ADMIN & CHECK_CAPABILITY(capability)) && check_has_itself(view, CAP_SYS_ADMIN));
}

bool check_seccomp_active(const struct check_view *view)
{
	char text[4096];
	const char *line;

	if (view->read_file(view->ctx, "/proc/self/status", text, sizeof text) <= 0)
		return false;
	line = strstr(text, "\nSeccomp:");
	return line && atoi(line + strlen("\nSeccomp:")) == 2;
}

int check_paranoid_level(const struct check_view *view, int *ret)
{
	char text[32];
	char *end;
	long v;

	if (view->read_file(view->ctx, "/proc/sys/kernel/perf_event_paranoid", text, sizeof text) <= 0)
		return -ENOENT;
	v = strtol(text, &end, 10);
	if (end == text || v < -1 || v > 100)
		return -EINVAL;
	*ret = (int)v;
	return 0;
}

bool check_takes_tick(const struct check_view *view, const struct config *config)
{
	int r = config->sampling.event == CONFIG_EVENT_AUTO
			? view->perf_open(view->ctx, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK)
			: 0;

	return config->sampling.event == CONFIG_EVENT_TICK || r == -EPERM || r == -EACCES;
}
