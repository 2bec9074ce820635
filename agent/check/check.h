// SPDX-License-Identifier: Apache-2.0
/*
 * Whether `run` would work here. Each check is a function from a view of the system to one line: name,
 * status, what was found, and the exact fix. The view is a struct of functions, so that tests show each check
 * a system that lacks something. Rank 3.
 */
#ifndef PROFLET_CHECK_H
#define PROFLET_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/buf.h"

struct config;

/*
 * For commands that are about to start: 0; -EPERM with the capabilities that are missing in *ret_missing (one
 * line, owned by the caller): exit code 3; -ENOMEM.
 */
int check_permissions(char **ret_missing);
/*
 * 0; -EOPNOTSUPP with *ret_why (one line, owned by the caller) on a kernel that is too old or that can
 * deadlock when a perf event's program reads user memory; -ENOMEM.
 */
int check_kernel_supported(char **ret_why);

/* What the checks see. A function returns 0 or a length on success, -errno otherwise. `ctx` is handed back.
 */
struct check_view {
	void *ctx;
	/* uname(2): release "6.1.0-18-amd64" and version "#1 SMP … Debian 6.1.76-1 (2024-02-01)". */
	int (*uname)(void *ctx, char release[65], char version[65]);
	/* The first size - 1 bytes of a file, NUL terminated; the length or -errno. */
	ssize_t (*read_file)(void *ctx, const char *path, char *buf, size_t size);
	ssize_t (*read_link)(void *ctx, const char *path, char *buf, size_t size); /* as above */
	int (*open_file)(void *ctx, const char *path); /* can it be opened for reading? */
	/* A switch of the kernel's configuration: 1 on, 0 off, -ENOENT unknown. */
	int (*kernel_option)(void *ctx, const char *release, const char *name);
	int (*capabilities)(void *ctx, uint64_t *ret_effective); /* bit n: capability number n */
	int (*memlock)(void *ctx, uint64_t *ret_bytes);		 /* soft RLIMIT_MEMLOCK; UINT64_MAX: none */
	/* Opens and closes a perf event on CPU 0 for all processes. */
	int (*perf_open)(void *ctx, uint32_t type, uint64_t config);
	int (*bpf_map_create)(void *ctx); /* a one-element array, created and closed */
	pid_t (*getpid)(void *ctx);
	int (*open_files)(void *ctx, uint64_t *ret_max); /* hard RLIMIT_NOFILE */
	/* May files be made in this folder, and how much room is there? -ENOENT, -EROFS, -EACCES, … */
	int (*folder)(void *ctx, const char *path, uint64_t *ret_free_bytes);
	/* Does the collector take profiles? As deliver_probe(), within 2 s; *ret_why is the caller's to free.
	 */
	int (*collector)(void *ctx, const struct config *config, char **ret_why);
	/* As server_probe(). */
	int (*listen)(void *ctx, const char *address);
	/* Does the kubelet list its pods? As metadata_probe(), within 2 s. */
	int (*kubelet)(void *ctx, const struct config *config, size_t *ret_pods, char **ret_why);
};

/* As check_permissions, of a view. */
int check_permissions_of(const struct check_view *view, char **ret_missing);

/* Calls fn for each capability that is missing and not required, with what is lost; until it returns other
 * than 0, which is returned. */
int check_lost(const struct check_view *view, int (*fn)(const char *name, const char *lost, void *data),
	       void *data);

/* The running system. */
extern const struct check_view check_view_real;

/* The names are the contract of `proflet check --json`. */
enum check_status { CHECK_OK, CHECK_DEGRADED, CHECK_FAILS };

struct check_result {
	enum check_status status;
	bool permission; /* a failure that a capability, the user or a policy would end: exit code 3 */
	char name[24];
	char detail[320];
	char fix[320]; /* "" when there is nothing to do */
};

#define CHECK_MAX_RESULTS 32

struct check_report {
	struct check_result results[CHECK_MAX_RESULTS];
	size_t n;
};

/* Runs every check. */
void check_run(const struct check_view *view, const struct config *config, struct check_report *ret);
/* 0 run would work, 3 it lacks permissions, 1 something else is missing (see cmd.h). */
int check_exit_code(const struct check_report *report);
/* One line each: "ok  name  detail", with " → fix" where there is one. 0 or -ENOMEM. */
int check_format_text(const struct check_report *report, struct buf *b);
/* [{"name", "status", "detail", "fix"}, …]. 0 or -ENOMEM. */
int check_format_json(const struct check_report *report, struct buf *b);

/* The single checks, in the order of check_run; each appends its lines. */
void check_kernel(const struct check_view *view, struct check_report *report);
void check_deadlock(const struct check_view *view, struct check_report *report);
void check_btf(const struct check_view *view, struct check_report *report);
void check_lockdown(const struct check_view *view, struct check_report *report);
void check_capabilities(const struct check_view *view, struct check_report *report);
void check_privileges(const struct check_view *view, const struct config *config,
		      struct check_report *report);
void check_user_namespace(const struct check_view *view, struct check_report *report);
void check_bpf(const struct check_view *view, struct check_report *report);
void check_perf(const struct check_view *view, const struct config *config, struct check_report *report);
void check_pmu(const struct check_view *view, const struct config *config, struct check_report *report);
void check_memlock(const struct check_view *view, struct check_report *report);
void check_open_files(const struct check_view *view, struct check_report *report);
void check_proc(const struct check_view *view, struct check_report *report);
void check_kallsyms(const struct check_view *view, const struct config *config, struct check_report *report);
void check_cgroup(const struct check_view *view, struct check_report *report);
void check_pid_namespace(const struct check_view *view, struct check_report *report);
void check_binaries(const struct check_view *view, struct check_report *report);
void check_spool(const struct check_view *view, const struct config *config, struct check_report *report);
void check_listen(const struct check_view *view, const struct config *config, struct check_report *report);
void check_kubelet(const struct check_view *view, const struct config *config, struct check_report *report);
void check_collector(const struct check_view *view, const struct config *config, struct check_report *report);

/* Shared by the checks. */
void check_add(struct check_report *report, enum check_status status, const char *name, const char *detail,
	       const char *fix);
/* As check_add with CHECK_FAILS, for what a permission would end. */
void check_add_denied(struct check_report *report, const char *name, const char *detail, const char *fix);
/* A kernel version as one number: 0xMMmmpp. */
#define CHECK_VERSION(major, minor, patch) \
	((uint32_t)(major) << 16 | (uint32_t)(minor) << 8 | (uint32_t)(patch))
/* The kernel's upstream version, seen through the names that Debian and Ubuntu give theirs. 0 or -errno. */
int check_kernel_version(const struct check_view *view, uint32_t *ret);
/* True when the capability (linux/capability.h) is effective; CAP_SYS_ADMIN stands for BPF, PERFMON,
 * CHECKPOINT_RESTORE. */
bool check_has(const struct check_view *view, int capability);
bool check_seccomp_active(const struct check_view *view);
/* Whether `run` would sample by the timer's tick, which is found by the kernel's symbols. */
bool check_takes_tick(const struct check_view *view, const struct config *config);

#endif
