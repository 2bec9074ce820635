// SPDX-License-Identifier: Apache-2.0
/* A healthy system for the checks, from which each test takes something away. */
#ifndef PROFLET_TEST_FAKE_SYSTEM_H
#define PROFLET_TEST_FAKE_SYSTEM_H

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/check/check.h"
#include "agent/check/check_facts.h"
#include "agent/check/check_view.h"
#include "agent/check/checks.h"
#include "agent/config/config.h"
#include "cgroup/limit.h"

#define CAP(n) (1ull << (n))
#define N_PERFMON 38
#define N_BPF 39
#define N_RESTORE 40

static const uint64_t all_capabilities = CAP(N_PERFMON) | CAP(N_BPF) | CAP(N_RESTORE) | CAP(CAP_SYS_PTRACE) |
					 CAP(CAP_DAC_READ_SEARCH) | CAP(CAP_SYSLOG) | CAP(CAP_IPC_LOCK);

struct fake {
	const char *release, *version;
	uint64_t without; /* capabilities taken away */
	uint64_t with;	  /* capabilities added */
	int perf, pmu, bpf, collector, kubelet, listen;
	int hardened;
	uint64_t memlock, open_files;
	int folder, parent; /* -errno of the spool's folder, and of the one above */
	uint64_t used_up;
	pid_t pid;
	bool no_parsers;
	const struct cgroup_cpu *cpu_group; /* NULL: of a request of 100m */
	int cpu_error;
	const char *path, *content; /* one file that differs; content NULL: cannot be opened, -error */
	int error;
	const char *mounts; /* what /proc/self/mounts says; NULL: as healthy */
};

static const struct {
	const char *path, *content;
} healthy[] = {
	{"/proc/1/status", "Name:\tinit\n"},
	{"/proc/self/mountinfo", "29 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup2 ro\n"},
	{"/proc/self/mounts", "proc /proc proc rw 0 0\n"},
	{"/proc/self/status",
	 "Name:\tproflet\nUid:\t0\t0\t0\t0\nNSpid:\t77\nCapEff:\t0000000000000003\nSeccomp:\t0\n"},
	{"/proc/78/status", "Name:\tproflet-parser\nUid:\t4294770000\t4294770000\t4294770000\t4294770000\n"
			    "CapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"},
	{"/proc/79/status", "Name:\tproflet-opener\nUid:\t4294770000\t4294770000\t4294770000\t4294770000\n"
			    "CapEff:\t0000000000000004\nNoNewPrivs:\t1\nSeccomp:\t2\n"},
	{"/proc/self/uid_map", "         0          0 4294967295\n"},
	{"/proc/self/ns/pid", "pid:[4026531836]"},
	{"/proc/self/schedstat", "40000000 1000000 3\n"},
	{"/proc/pressure/cpu", "some avg10=1.00 avg60=2.00 avg300=3.00 total=9\n"},
	{"/proc/sys/kernel/perf_event_paranoid", "2\n"},
	{"/proc/sys/kernel/kptr_restrict", "1\n"},
	{"/proc/kallsyms", "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _text\n"},
	{"/proc/cmdline", "root=/dev/sda1 quiet\n"},
	{"/proc/1/cgroup", "0::/init.scope\n"},
	{"/proc/1/maps",
	 "7ff000-7ff100 r--p 0 00:00 0 [vvar]\n55d000-55e000 r--p 00000000 08:01 1234 /sbin/init\n"},
	{"/proc/self/maps", "55d000-55e000 r--p 00000000 08:01 99 /proflet\n"},
	{"/proc/1/map_files/55d000-55e000", ""},
	{"/sys/kernel/btf/vmlinux", ""},
	{"/sys/kernel/security/lockdown", "[none] integrity confidentiality\n"},
};

static inline int find_file(const struct fake *f, const char *path, const char **content)
{
	if (f->path && strcmp(f->path, path) == 0) {
		*content = f->content;
		return f->content ? 0 : f->error ? f->error : -ENOENT;
	}
	if (f->mounts && strcmp(path, "/proc/self/mounts") == 0) {
		*content = f->mounts;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(healthy); i++) {
		if (strcmp(healthy[i].path, path) == 0) {
			*content = healthy[i].content;
			return 0;
		}
	}
	return -ENOENT;
}

static inline ssize_t fake_read(void *ctx, const char *path, char *buf, size_t size)
{
	const char *content;
	int r = find_file(ctx, path, &content);

	return r < 0 ? r : snprintf(buf, size, "%s", content);
}

static inline int fake_open(void *ctx, const char *path)
{
	const char *content;

	return find_file(ctx, path, &content);
}

static inline int fake_uname(void *ctx, char release[65], char version[65])
{
	const struct fake *f = ctx;

	snprintf(release, 65, "%s", f->release ? f->release : "6.12.9");
	snprintf(version, 65, "%s", f->version ? f->version : "#1 SMP");
	return 0;
}

static inline int fake_option(void *ctx, const char *release, const char *name)
{
	cr_assert_str_eq(name, "CONFIG_HARDENED_USERCOPY");
	cr_assert(release);
	return ((const struct fake *)ctx)->hardened;
}

static inline int fake_capabilities(void *ctx, uint64_t *ret)
{
	const struct fake *f = ctx;

	*ret = (all_capabilities & ~f->without) | f->with;
	return 0;
}

static inline int fake_memlock(void *ctx, uint64_t *ret)
{
	const struct fake *f = ctx;

	*ret = f->memlock ? f->memlock : UINT64_MAX;
	return 0;
}

static inline int fake_open_files(void *ctx, uint64_t *ret)
{
	const struct fake *f = ctx;

	*ret = f->open_files ? f->open_files : UINT64_MAX;
	return 0;
}

static inline int fake_folder(void *ctx, const char *path, uint64_t *ret_free)
{
	const struct fake *f = ctx;

	*ret_free = f->used_up ? 0 : 100 << 20;
	return strcmp(path, "/var/spool") == 0 ? f->parent : f->folder;
}

static inline int fake_cpu_group(void *ctx, struct cgroup_cpu *ret)
{
	static const struct cgroup_cpu usual = {.version = 1, .weight = 102};
	const struct fake *f = ctx;

	*ret = f->cpu_group ? *f->cpu_group : usual;
	return f->cpu_error;
}

static inline int fake_perf(void *ctx, uint32_t type, uint64_t config)
{
	const struct fake *f = ctx;

	if (type == PERF_TYPE_SOFTWARE) {
		cr_assert_eq(config, PERF_COUNT_SW_CPU_CLOCK);
		return f->perf;
	}
	cr_assert_eq(config, PERF_COUNT_HW_CPU_CYCLES);
	return f->pmu;
}

static inline int fake_bpf(void *ctx)
{
	return ((const struct fake *)ctx)->bpf;
}

static inline pid_t fake_getpid(void *ctx)
{
	const struct fake *f = ctx;

	return f->pid ? f->pid : 77;
}

static inline pid_t fake_parsers(void *ctx, bool openers)
{
	const struct fake *f = ctx;

	return f->no_parsers ? 0 : openers ? 79 : 78;
}

static inline pid_t fake_delivery(void *ctx, const struct config *config, uint64_t capabilities)
{
	(void)capabilities;
	(void)config;
	return fake_parsers(ctx, false);
}

static inline int fake_collector(void *ctx, const struct config *config, char **ret_why)
{
	const struct fake *f = ctx;

	(void)config;
	if (f->collector)
		*ret_why = strdup("endpoint http://localhost:4317: nobody there");
	return f->collector;
}

static inline int fake_kubelet(void *ctx, const struct config *config, size_t *ret_pods, char **ret_why)
{
	const struct fake *f = ctx;

	cr_assert(config->kubernetes.metadata);
	*ret_pods = 7;
	*ret_why = f->kubelet ? strdup("https://n:10250: HTTP 403") : NULL;
	return f->kubelet;
}

static inline int fake_listen(void *ctx, const char *address)
{
	const struct fake *f = ctx;

	cr_assert(address);
	return f->listen;
}

static inline struct check_view view_of(struct fake *f)
{
	return (struct check_view){.ctx = f,
				   .uname = fake_uname,
				   .read_file = fake_read,
				   .read_link = fake_read,
				   .open_file = fake_open,
				   .kernel_option = fake_option,
				   .capabilities = fake_capabilities,
				   .memlock = fake_memlock,
				   .open_files = fake_open_files,
				   .folder = fake_folder,
				   .cpu_group = fake_cpu_group,
				   .perf_open = fake_perf,
				   .bpf_map_create = fake_bpf,
				   .getpid = fake_getpid,
				   .parsers = fake_parsers,
				   .delivery = fake_delivery,
				   .collector = fake_collector,
				   .kubelet = fake_kubelet,
				   .listen = fake_listen};
}

static inline struct config *config_with(const char *option, const char *value)
{
	char *argv[] = {(char *)"check", (char *)option, (char *)value};
	struct config *c = NULL;
	char *error = NULL;

	cr_assert_eq(config_load(&c, 3, argv, NULL, 0, NULL, &error), 0, "%s", error);
	return c;
}

static inline struct config *config_of(const char *event)
{
	return config_with("--sampling.event", event);
}

#endif
