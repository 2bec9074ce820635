// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "cgroup/limit.h"

/* A directory that replaces "/". */
static char root[64];

static void make(void)
{
	strcpy(root, "/tmp/proflet-limit-XXXXXX");
	cr_assert(mkdtemp(root));
}

static void clean(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -r %s", root);
	cr_assert_eq(system(command), 0);
}

static void put(const char *path, const char *content)
{
	char command[512], name[256];
	FILE *f;

	snprintf(name, sizeof name, "%s%s", root, path);
	snprintf(command, sizeof command, "mkdir -p $(dirname %s)", name);
	cr_assert_eq(system(command), 0);
	f = fopen(name, "w");
	cr_assert(f);
	fputs(content, f);
	fclose(f);
}

#define V2(at) "29 23 0:26 " at " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1(at)                                                                             \
	"30 29 0:27 " at " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" \
	"31 29 0:28 " at " /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"

static uint64_t limit_with(const char *groups, const char *mounts)
{
	uint64_t limit = 1;

	put("/proc/self/cgroup", groups);
	put("/proc/self/mountinfo", mounts);
	cr_assert_eq(cgroup_memory_limit(root, &limit), 0);
	return limit;
}

Test(cgroup_limit, v2_least_of_the_groups_above, .init = make, .fini = clean)
{
	put("/sys/fs/cgroup/a/b/memory.max", "max\n");
	put("/sys/fs/cgroup/a/memory.max", "134217728\n");
	cr_expect_eq(limit_with("0::/a/b\n", V2("/")), 134217728);
	put("/sys/fs/cgroup/a/b/memory.max", "67108864\n");
	cr_expect_eq(limit_with("0::/a/b\n", V2("/")), 67108864);
}

Test(cgroup_limit, v2_own_group_is_the_mount, .init = make, .fini = clean)
{
	put("/sys/fs/cgroup/memory.max", "1000000\n");
	cr_expect_eq(limit_with("0::/\n", V2("/")), 1000000, "private namespace");
	cr_expect_eq(limit_with("0::/pods/x\n", V2("/pods/x")), 1000000, "bind mount");
	cr_expect_eq(limit_with("0::/../other\n", V2("/")), 1000000, "a path out of the namespace");
	cr_expect_eq(limit_with("0::/pods/xyz\n", V2("/pods/x")), 1000000, "not below the mount");
}

Test(cgroup_limit, v1_and_hybrid, .init = make, .fini = clean)
{
	put("/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "5000000\n");
	put("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	cr_expect_eq(limit_with("4:cpu,cpuacct:/x\n5:memory:/docker/1\n0::/y\n", V1("/")), 5000000);
	cr_expect_eq(limit_with("4:cpu,cpuacct:/x\n5:memory:/other\n0::/y\n", V1("/")), UINT64_MAX);
}

static int weight_with(const char *groups, const char *mounts, struct cgroup_cpu *ret)
{
	put("/proc/self/cgroup", groups);
	put("/proc/self/mountinfo", mounts);
	return cgroup_cpu_weight(root, ret);
}

Test(cgroup_limit, cpu_weight, .init = make, .fini = clean)
{
	struct cgroup_cpu cpu = {0};

	put("/sys/fs/cgroup/a/b/cpu.weight", "11\n");
	cr_assert_eq(weight_with("0::/a/b\n", V2("/"), &cpu), 0);
	cr_expect_eq(cpu.version, 2u);
	cr_expect_eq(cpu.weight, 11u);
	cr_expect_str_eq(cpu.folder, "/sys/fs/cgroup/a/b");
	put("/sys/fs/cgroup/cpu,cpuacct/pod/cpu.shares", "51\n");
	cr_assert_eq(weight_with("4:cpu,cpuacct:/pod\n5:memory:/m\n0::/a/b\n", V2("/") V1("/"), &cpu), 0);
	cr_expect_eq(cpu.version, 1u, "the controller is in one hierarchy only");
	cr_expect_eq(cpu.weight, 51u);
	cr_expect_str_eq(cpu.folder, "/sys/fs/cgroup/cpu,cpuacct/pod");
}

Test(cgroup_limit, no_cpu_weight, .init = make, .fini = clean)
{
	struct cgroup_cpu cpu = {.weight = 7};

	cr_expect_eq(cgroup_cpu_weight(root, &cpu), -ENOENT);
	cr_expect_eq(weight_with("0::/\n", V2("/"), &cpu), -ENODATA, "the root has none");
	put("/sys/fs/cgroup/cpu.weight", "odd\n");
	cr_expect_eq(weight_with("0::/\n", V2("/"), &cpu), -ENODATA);
	cr_expect_eq(weight_with("5:memory:/m\n", V1("/"), &cpu), -ENOENT);
	cr_expect_eq(cpu.weight, 7u);
}

Test(cgroup_limit, nothing_to_be_seen, .init = make, .fini = clean)
{
	uint64_t limit = 1;

	cr_expect_eq(cgroup_memory_limit(root, &limit), -ENOENT);
	put("/proc/self/cgroup", "garbage\n0:\n");
	put("/proc/self/mountinfo", "garbage - cgroup2\n1 2 3 - cgroup2 a rw\n");
	cr_expect_eq(cgroup_memory_limit(root, &limit), -ENOENT);
	cr_expect_eq(limit, 1);
}
