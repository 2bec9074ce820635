// SPDX-License-Identifier: Apache-2.0
/*
 * The single checks. Each looks at one aspect of the view and appends its lines to the report: name, status,
 * what was found, and the exact fix. Private to agent/check and the tests.
 */
#ifndef PROFLET_CHECKS_H
#define PROFLET_CHECKS_H

#include "agent/check/check_result.h"
#include "agent/check/check_view.h"

/* check_kernel.c: its version, its build, what it is configured to forbid */
void check_kernel(const struct check_view *view, struct check_report *report);
void check_deadlock(const struct check_view *view, struct check_report *report);
void check_btf(const struct check_view *view, struct check_report *report);
void check_lockdown(const struct check_view *view, struct check_report *report);

/* check_capabilities.c */
void check_capabilities(const struct check_view *view, struct check_report *report);
void check_privileges(const struct check_view *view, const struct config *config,
		      struct check_report *report);
void check_user_namespace(const struct check_view *view, struct check_report *report);
/* As check_permissions, check_lost in check.h, for a view. */
int check_permissions_of(const struct check_view *view, char **ret_missing);
int check_lost_of(const struct check_view *view, int (*fn)(const char *name, const char *lost, void *data),
		  void *data);

/* check_events.c: BPF, perf events, and the limits they are under */
void check_bpf(const struct check_view *view, struct check_report *report);
void check_perf(const struct check_view *view, const struct config *config, struct check_report *report);
void check_pmu(const struct check_view *view, const struct config *config, struct check_report *report);
void check_memlock(const struct check_view *view, struct check_report *report);
void check_open_files(const struct check_view *view, struct check_report *report);

/* check_proc.c: what /proc shows of the kernel and of other processes */
void check_proc(const struct check_view *view, struct check_report *report);
void check_kallsyms(const struct check_view *view, const struct config *config, struct check_report *report);
void check_cgroup(const struct check_view *view, struct check_report *report);
void check_pid_namespace(const struct check_view *view, struct check_report *report);
void check_binaries(const struct check_view *view, struct check_report *report);

/* check_processes.c: what each process of the agent may do */
void check_processes(const struct check_view *view, const struct config *config, struct check_report *report);

/*
 * check_cpu.c: how much CPU time the agent gets where the CPUs are busy. Called last, because it also looks
 * at how long the checks before it waited.
 */
void check_cpu(const struct check_view *view, struct check_report *report);

/* check_delivery.c: collector, spool, kubelet, and the address of the agent's own server */
void check_spool(const struct check_view *view, const struct config *config, struct check_report *report);
void check_listen(const struct check_view *view, const struct config *config, struct check_report *report);
void check_kubelet(const struct check_view *view, const struct config *config, struct check_report *report);
void check_collector(const struct check_view *view, const struct config *config, struct check_report *report);

#endif
