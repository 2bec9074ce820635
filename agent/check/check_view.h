// SPDX-License-Identifier: Apache-2.0
/* What the checks see of the system: a struct of functions, so that tests can show each check a system that
 * lacks something. */
#ifndef PROFLET_CHECK_VIEW_H
#define PROFLET_CHECK_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup_cpu;
struct config;

/* A function returns 0 or a length on success, else -errno. Each gets `ctx` as its first argument. */
struct check_view {
	void *ctx;
	/* uname(2): release "6.1.0-18-amd64" and version "#1 SMP … Debian 6.1.76-1 (2024-02-01)". */
	int (*uname)(void *ctx, char release[65], char version[65]);
	/* The first size - 1 bytes of a file, NUL terminated; the length or -errno. */
	ssize_t (*read_file)(void *ctx, const char *path, char *buf, size_t size);
	ssize_t (*read_link)(void *ctx, const char *path, char *buf, size_t size); /* as read_file */
	int (*open_file)(void *ctx, const char *path); /* can it be opened for reading? */
	/* A switch of the kernel's build configuration: 1 on, 0 off, -ENOENT unknown. */
	int (*kernel_option)(void *ctx, const char *release, const char *name);
	int (*capabilities)(void *ctx, uint64_t *ret_effective); /* bit n: capability number n */
	int (*memlock)(void *ctx, uint64_t *ret_bytes);		 /* soft RLIMIT_MEMLOCK; UINT64_MAX: none */
	/* Opens and closes a perf event on CPU 0 for all processes. */
	int (*perf_open)(void *ctx, uint32_t type, uint64_t config);
	int (*bpf_map_create)(void *ctx); /* a one-element array, created and closed */
	pid_t (*getpid)(void *ctx);
	/* As parser_pid(), or parser_opener_pid(). */
	pid_t (*parsers)(void *ctx, bool openers);
	/* A delivery process that keeps these, which is started for this; 0: there is none. */
	pid_t (*delivery)(void *ctx, const struct config *config, uint64_t capabilities);
	int (*open_files)(void *ctx, uint64_t *ret_max); /* hard RLIMIT_NOFILE */
	/* Can files be created in this directory, and how much space is free? -ENOENT, -EROFS, -EACCES, … */
	int (*folder)(void *ctx, const char *path, uint64_t *ret_free_bytes);
	int (*cpu_group)(void *ctx, struct cgroup_cpu *ret); /* as cgroup_cpu_weight() */
	/* Does the collector accept profiles? As collector_probe(), within 2 s; the caller frees *ret_why. */
	int (*collector)(void *ctx, const struct config *config, char **ret_why);
	/* As http_server_probe(). */
	int (*listen)(void *ctx, const char *address);
	/* Does the kubelet list its pods? As kubelet_query_probe(), within 2 s. */
	int (*kubelet)(void *ctx, const struct config *config, size_t *ret_pods, char **ret_why);
};

/* The running system. */
extern const struct check_view check_view_real;

#endif
