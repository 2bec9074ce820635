// SPDX-License-Identifier: Apache-2.0
#include "agent/check/check.h"

#include <errno.h>
#include <stdio.h>

#include "agent/check/check_view.h"
#include "agent/check/checks.h"

void check_run(const struct check_view *view, const struct config *config, struct check_report *ret)
{
	*ret = (struct check_report){0};
	check_kernel(view, ret);
	check_deadlock(view, ret);
	check_btf(view, ret);
	check_lockdown(view, ret);
	check_capabilities(view, ret);
	check_privileges(view, config, ret);
	check_user_namespace(view, ret);
	check_bpf(view, ret);
	check_perf(view, config, ret);
	check_pmu(view, config, ret);
	check_memlock(view, ret);
	check_open_files(view, ret);
	check_proc(view, ret);
	check_kallsyms(view, config, ret);
	check_cgroup(view, ret);
	check_pid_namespace(view, ret);
	check_binaries(view, ret);
	check_spool(view, config, ret);
	check_listen(view, config, ret);
	check_kubelet(view, config, ret);
	check_collector(view, config, ret);
	check_processes(view, config, ret);
	check_cpu(view, ret);
}

int check_kernel_supported(char **ret_why)
{
	struct check_report report = {0};

	check_kernel(&check_view_real, &report);
	check_deadlock(&check_view_real, &report);
	for (size_t i = 0; i < report.n; i++) {
		if (report.results[i].status != CHECK_FAILS)
			continue;
		if (asprintf(ret_why, "%s; %s", report.results[i].detail, report.results[i].fix) < 0) {
			*ret_why = NULL;
			return -ENOMEM;
		}
		return -EOPNOTSUPP;
	}
	return 0;
}

int check_permissions(char **ret_missing)
{
	return check_permissions_of(&check_view_real, ret_missing);
}

int check_lost(int (*fn)(const char *name, const char *lost, void *data), void *data)
{
	return check_lost_of(&check_view_real, fn, data);
}
