// SPDX-License-Identifier: Apache-2.0
/* Paths as kernels, runtimes and service managers write them; each row is one file /proc/<pid>/cgroup. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "cgroup/path.h"

#define A "2227daf62df6694645fee5df53c1f91271546a9560e8600a525690ae252b7f63"
#define B "90d81341ef3a0ea5cc28b2bd6cd9b9d6b28dfb7f1d6f1d9a0d5e8b5f2a1c7e44"
#define C "dc679f8a8319c8cf7d38e1adf263bc08d231a9f8c5d0ba2b9f9f4b9d21d3c0aa"
#define UID "6fb6a7c1-29f3-4f0d-8a6c-0a5a3f3f8c1e"
#define UID_ "6fb6a7c1_29f3_4f0d_8a6c_0a5a3f3f8c1e"
#define UID2 "0c8b9f57-9ad4-4cbb-9a3f-9e3f4ffb5e0d"
#define UID2_ "0c8b9f57_9ad4_4cbb_9a3f_9e3f4ffb5e0d"
#define STATIC_UID "8d5a6f1be2b34cc3a5f0a2d9f7b1e6c4"
#define TASK "f2c4a9d1e0b34c5f8a7d6e5c4b3a2918"
#define BURST "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice"
#define EFFORT "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice"
#define GUARANTEED "/kubepods.slice/kubepods-pod" UID_ ".slice"
#define USER "/user.slice/user-1000.slice/user@1000.service"

#define NONE CGROUP_RUNTIME_UNKNOWN
#define DOCKER CGROUP_RUNTIME_DOCKER
#define CONTAINERD CGROUP_RUNTIME_CONTAINERD
#define CRIO CGROUP_RUNTIME_CRIO
#define PODMAN CGROUP_RUNTIME_PODMAN

static const struct cgroup_observer outside = {.base = NULL};

struct row {
	const char *text, *container_id, *pod_uid, *unit;
	enum cgroup_runtime runtime;
};

static void check_row(const struct row *row, const struct cgroup_observer *from)
{
	struct cgroup_identity id;

	cgroup_path_parse(row->text, strlen(row->text), from, &id);
	cr_expect_str_eq(id.container_id, row->container_id, "container of %s", row->text);
	cr_expect_str_eq(id.pod_uid, row->pod_uid, "pod of %s: %s", row->text, id.pod_uid);
	cr_expect_str_eq(id.unit, row->unit, "unit of %s: %s", row->text, id.unit);
	cr_expect_eq(id.runtime, row->runtime, "runtime of %s: %s", row->text,
		     cgroup_runtime_name(id.runtime));
}

static void check(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_row(&rows[i], &outside);
}

Test(path, containers_outside_kubernetes)
{
	static const struct row rows[] = {
		{"0::/docker/" A "\n", A, "", "", DOCKER},
		{"0::/system.slice/docker-" A ".scope\n", A, "", "", DOCKER},
		{"0::/system.slice/docker-" A ".scope", A, "", "", DOCKER},
		{"4:memory:/docker/" A "\n3:cpuset:/docker/" A "\n", A, "", "", DOCKER},
		{"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" A ".scope\n", A, "",
		 "", DOCKER},
		{"0::/my-parent/" A "\n", A, "", "", NONE},
		{"0::/my.slice/docker-" A ".scope\n", A, "", "", DOCKER},
		{"1:name=systemd:/actions_job/" A "\n", A, "", "", NONE},
		{"0::/docker/" A "/docker/" B "\n", A, "", "", DOCKER}, /* B is what A says */
		{"0::/docker/" A "/init\n", A, "", "", DOCKER},
		{"0::/system.slice/docker-" A ".scope/init.scope\n", A, "", "", DOCKER},
		{"0::/docker/" A "/system.slice/nginx.service\n", A, "", "", DOCKER},
		{"0::/docker/" A "/user.slice/user-0.slice/session-1.scope\n", A, "", "", DOCKER},
		{"0::/system.slice/docker-" A ".scope/buildkit/x6l2hd5nbkpqr3a0t9w1\n", A, "", "", DOCKER},
		{"0::/../../system.slice/docker-" A ".scope\n", A, "", "", DOCKER},
		{"0::/../" A "\n", A, "", "", NONE},
		{"9:perf_event:/ecs/0123456789abcdef0123456789abcdef/" A "\n", A, "", "", DOCKER},
		{"0::/ecs.slice/ecs-tasks.slice/ecs-tasks-x.slice/docker-" A ".scope\n", A, "", "", DOCKER},
		{"0::/default/" A "\n", A, "", "", CONTAINERD},
		{"0::/system.slice/nerdctl-" A ".scope\n", A, "", "", CONTAINERD},
		{"0::/k8s.io/" A "\n", A, "", "", CONTAINERD},
		{"0::/machine.slice/libpod-" A ".scope\n", A, "", "", PODMAN},
		{"0::/machine.slice/libpod-" A ".scope/container\n", A, "", "", PODMAN},
		{"0::/libpod_parent/libpod-" A "\n", A, "", "", PODMAN},
		{"0::" USER "/user.slice/libpod-" A ".scope/container\n", A, "", "", PODMAN},
		{"0::/machine.slice/machine-libpod_pod_" B ".slice/libpod-" A ".scope/container\n", A, "", "",
		 PODMAN},
		{"0::/libpod_parent/" B "/libpod-" A "\n", A, "", "", PODMAN},
		{"0::/system.slice/web.service/libpod-payload-" A "\n", A, "", "", PODMAN},
		{"0::/system.slice/docker-" A ".scope (deleted)\n", A, "", "", DOCKER},
		{"0::/docker/" A "/system.slice/podman.service/libpod_parent/libpod-" B "\n", A, "", "",
		 DOCKER},
	};

	check(rows, ARRAY_SIZE(rows));
}

Test(path, pods)
{
	static const struct row rows[] = {
		{"0::" BURST "/cri-containerd-" A ".scope\n", A, UID, "", CONTAINERD},
		{"0::" EFFORT "/cri-containerd-" A ".scope\n", A, UID, "", CONTAINERD},
		{"0::" GUARANTEED "/cri-containerd-" A ".scope\n", A, UID, "", CONTAINERD},
		{"0::" BURST "/crio-" A ".scope\n", A, UID, "", CRIO},
		{"0::" BURST "/crio-" A ".scope/container\n", A, UID, "", CRIO},
		{"0::" BURST "/docker-" A ".scope\n", A, UID, "", DOCKER},
		{"0::/kubepods/burstable/pod" UID "/" A "\n", A, UID, "", NONE},
		{"0::/kubepods/besteffort/pod" UID "/" A "\n", A, UID, "", NONE},
		{"0::/kubepods/pod" UID "/" A "\n", A, UID, "", NONE},
		{"0::/kubepods/burstable/pod" UID "/crio-" A "\n", A, UID, "", CRIO},
		{"0::/kubepods/burstable/pod" STATIC_UID "/" A "\n", A, STATIC_UID, "", NONE},
		{"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" STATIC_UID
		 ".slice/cri-containerd-" A ".scope\n",
		 A, STATIC_UID, "", CONTAINERD},
		/* conmon belongs to the pod and to none of its containers */
		{"0::" BURST "/crio-conmon-" A ".scope\n", "", UID, "crio-conmon-" A ".scope", NONE},
		{"0::/kubepods/burstable/pod" UID "/crio-conmon-" A "\n", "", UID, "", NONE},
		{"0::" BURST "\n", "", UID, "", NONE},
		/* containerd with a systemd path and the cgroupfs driver */
		{"1:name=systemd:/system.slice/containerd.service/kubepods-burstable-pod" UID_
		 ".slice:cri-containerd:" A "\n",
		 A, UID, "", CONTAINERD},
		{"0::/kubepods-besteffort-pod" UID_ ".slice:cri-containerd:" A "\n", A, UID, "", CONTAINERD},
		/* cgroups below the container: delegation, systemd inside */
		{"0::" BURST "/cri-containerd-" A ".scope/init.scope\n", A, UID, "", CONTAINERD},
		{"0::" BURST "/cri-containerd-" A ".scope/system.slice/sshd.service\n", A, UID, "",
		 CONTAINERD},
		{"0::/kubepods/burstable/pod" UID "/" A "/worker/7\n", A, UID, "", NONE},
		/* seen from a private cgroup namespace */
		{"0::/../../kubepods-burstable-pod" UID_ ".slice/cri-containerd-" A ".scope\n", A, UID, "",
		 CONTAINERD},
		{"0::/../../../kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
		 ".slice/cri-containerd-" A ".scope\n",
		 A, UID, "", CONTAINERD},
		{"0::/../../pod" UID "/" A "\n", A, UID, "", NONE},
		{"0::/../../burstable/pod" UID "/" A "\n", A, UID, "", NONE},
		{"0::/../cri-containerd-" A ".scope\n", A, "", "", CONTAINERD},
		/* a pod whose own container runs docker, or claims to run another pod */
		{"0::/kubepods/burstable/pod" UID "/" A "/docker/" B "\n", A, UID, "", NONE},
		{"0::/kubepods/burstable/pod" UID "/" A "/kubepods/pod" UID2 "/" B "\n", A, UID, "", NONE},
		{"0::/kubepods/burstable/pod" UID "/pod" UID2 "/" B "\n", B, UID, "", NONE},
		{"0::/kubepods/burstable/pod" UID "/kata_" A "\n", A, UID, "", NONE},
		{"0::" GUARANTEED "/cri-containerd-" A ".scope (deleted)\n", A, UID, "", CONTAINERD},
	};

	check(rows, ARRAY_SIZE(rows));
}

/* Seen from outside, everything on such a node belongs to the node's container. */
Test(path, nodes_that_are_containers_from_outside)
{
	static const struct row rows[] = {
		{"0::/docker/" A "/kubelet/kubepods/burstable/pod" UID "/" B "\n", A, "", "", DOCKER},
		{"0::/kubepods/pod" UID "/" A "/docker/" B "/kubelet/kubepods/pod" UID2 "/" C "\n", A, UID,
		 "", NONE},
		{"4:cpu:/docker/" A "/kubepods/pod" UID "/" B "\n", A, "", "", DOCKER},
	};

	check(rows, ARRAY_SIZE(rows));
}

/* Seen from a pod of such a node; each row with our own group. */
Test(path, nodes_that_are_containers)
{
	static const struct {
		struct row row;
		const char *own;
	} rows[] = {
		{{"0::/docker/" A "/kubelet/kubepods/burstable/pod" UID "/" B "\n", B, UID, "", NONE},
		 "0::/docker/" A "/kubelet/kubepods/besteffort/pod" UID2 "/" C "\n"},
		{{"0::/docker/" A "/kubelet/kubepods/burstable/pod" UID "/" B "/docker/" C "\n", B, UID, "",
		  NONE},
		 "0::/docker/" A "/kubelet/kubepods/besteffort/pod" UID2 "/" C "\n"},
		{{"0::/system.slice/docker-" A ".scope/kubelet.slice/kubelet-kubepods.slice/"
		  "kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" UID_
		  ".slice/cri-containerd-" B ".scope\n",
		  B, UID, "", CONTAINERD},
		 "0::/system.slice/docker-" A ".scope/system.slice/proflet.service\n"},
		{{"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_
		  ".slice/cri-containerd-" B ".scope\n",
		  B, UID, "", CONTAINERD},
		 "0::/\n"},
		{{"0::/docker/" A "/kubelet.slice/kubelet.service\n", A, "", "", DOCKER},
		 "0::/docker/" A "/kubelet/kubepods/pod" UID2 "/" C "\n"},
		{{"0::/docker/" A "/init.scope\n", A, "", "", DOCKER},
		 "0::/docker/" A "/kubelet/kubepods/pod" UID2 "/" C "\n"},
		{{"0::/machine.slice/libpod-" A ".scope/container/kubelet/kubepods/pod" UID "/" B "\n", B,
		  UID, "", NONE},
		 "0::/machine.slice/libpod-" A ".scope/container/kubelet/kubepods/pod" UID "/" C "\n"},
		{{"0::/docker/" A "/docker/" B "/kubepods/pod" UID "/" C "\n", C, UID, "", NONE},
		 "0::/docker/" A "/docker/" B "/kubepods/pod" UID2 "/" C "\n"},
		/* kind inside a pod */
		{{"0::/kubepods/pod" UID "/" A "/docker/" B "/kubelet/kubepods/pod" UID2 "/" C "\n", C, UID2,
		  "", NONE},
		 "0::/kubepods/pod" UID "/" A "/docker/" B "/kubelet/kubepods/pod" UID "/" A "\n"},
		/* in the inner pod, in none of its containers: as on a plain node */
		{{"0::/docker/" A "/kubelet.slice/kubelet-kubepods-pod" UID2_ ".slice/crio-conmon-" B
		  ".scope\n",
		  "", UID2, "crio-conmon-" B ".scope", NONE},
		 "0::/docker/" A "/kubelet.slice/kubelet-kubepods-pod" UID_ ".slice/crio-" C ".scope\n"},
		/* beside us in our own pod, and in our own group */
		{{"0::/docker/" A "/kubepods/pod" UID "/" B "\n", B, UID, "", NONE},
		 "0::/docker/" A "/kubepods/pod" UID "/" C "\n"},
		{{"0::/docker/" A "/kubepods/pod" UID "/" C "\n", C, UID, "", NONE},
		 "0::/docker/" A "/kubepods/pod" UID "/" C "\n"},
		{{"0::/docker/" A "/kubepods/pod" UID "/" C "/" B "\n", B, UID, "", NONE},
		 "0::/docker/" A "/kubepods/pod" UID "/" C "\n"},
		/* each hierarchy has its own */
		{{"5:devices:/docker/" A "\n4:cpu:/docker/" A "/kubepods/pod" UID "/" B "\n", B, UID, "",
		  NONE},
		 "5:devices:/docker/" A "\n4:cpu:/docker/" A "/kubepods/pod" UID2 "/" C "\n0::/\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i].row, &(struct cgroup_observer){.own = rows[i].own});
}

/* --- who made it */

/* "data" is a folder; what is in it, or below it, may have been made by anyone. */
static bool not_below(void *data, const struct cgroup_folder *f)
{
	const char *folder = data;
	size_t n = strlen(folder);

	cr_expect_eq(f->path[0], '/');
	cr_expect_lt(f->own_len, f->len);
	return f->len < n || memcmp(f->path, folder, n) != 0;
}

#define SCOPE_OF_USER "/user.slice/libpod-" A ".scope"

Test(path, only_roots_names_are_believed)
{
	static const struct {
		struct row row;
		const char *theirs, *own;
		bool suspicious;
	} rows[] = {
		{{"0::/service/" A "\n", "", "", "", NONE}, "/service/", "", true},
		{{"0::/service/deep/docker-" A ".scope\n", "", "", "docker-" A ".scope", NONE},
		 "/service/",
		 "",
		 true},
		{{"0::/service/kubepods/pod" UID "/" A "\n", "", "", "", NONE}, "/service/", "", true},
		{{"0::/service/kubepods/pod" UID "\n", "", "", "", NONE}, "/service/", "", true},
		{{"0::" USER SCOPE_OF_USER "\n", "", "", "user@1000.service/libpod-" A ".scope", NONE},
		 USER "/",
		 "",
		 true},
		/* below a container: the container's name was root's choice */
		{{"0::/docker/" A "/docker/" B "\n", A, "", "", DOCKER}, "/docker/" A "/", "", false},
		{{"0::/docker/" A "\n", A, "", "", DOCKER}, "/docker/" A "/", "", false},
		/* on a node that is a container, its name remains */
		{{"0::/docker/" A "/service/" B "\n", A, "", "", DOCKER},
		 "/docker/" A "/service/",
		 "0::/docker/" A "/init.scope\n",
		 true},
		/* another hierarchy, in which all is root's, says more */
		{{"4:cpu:/service/" A "\n0::/docker/" B "\n", B, "", "", DOCKER}, "/service/", "", true},
		/* nothing is claimed */
		{{"0::/service/x.service\n", "", "", "x.service", NONE}, "/service/", "", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct cgroup_observer from = {
			.own = rows[i].own, .is_roots = not_below, .data = (void *)(uintptr_t)rows[i].theirs};
		const struct row *row = &rows[i].row;
		struct cgroup_identity id;

		check_row(row, &from);
		cgroup_path_parse(row->text, strlen(row->text), &from, &id);
		cr_expect_eq(id.suspicious, rows[i].suspicious, "%s", row->text);
	}
}

static uint64_t tenant(const char *text)
{
	struct cgroup_identity id;

	cgroup_path_parse(text, strlen(text), &outside, &id);
	return id.tenant;
}

/* Whoever can make groups, threads of control or containers of its own stays one tenant. */
Test(path, tenants)
{
	cr_expect_neq(tenant(""), 0);
	cr_expect_neq(tenant("0::/\n"), 0);
	cr_expect_eq(tenant("0::/kubepods/pod" UID "/" A "\n"), tenant("0::/kubepods/pod" UID "/" B "\n"));
	cr_expect_neq(tenant("0::/kubepods/pod" UID "/" A "\n"), tenant("0::/kubepods/pod" UID2 "/" A "\n"));
	cr_expect_neq(tenant("0::/docker/" A "\n"), tenant("0::/docker/" B "\n"));
	cr_expect_eq(tenant("0::/docker/" A "/x\n"), tenant("0::/docker/" A "/docker/" B "\n"));
	cr_expect_eq(tenant("0::" USER "/app.slice/a.scope\n"), tenant("0::" USER "/app.slice/b.scope\n"));
	cr_expect_neq(tenant("0::/system.slice/a.service\n"), tenant("0::/system.slice/b.service\n"));
	cr_expect_eq(tenant("0::/some/where/a\n"), tenant("0::/some/where/b/c\n"));
	cr_expect_neq(tenant("0::/some/where\n"), tenant("0::/some/where-else\n"));
	cr_expect_eq(tenant("4:cpu:/a/b/c\n0::/\n"), tenant("4:cpu:/a/b/d\n0::/\n"));
	cr_expect_neq(tenant("4:cpu:/a/b\n0::/\n"), tenant("4:cpu:/a/c\n0::/\n"));
}

Test(path, host_processes)
{
	static const struct row rows[] = {
		{"0::/\n", "", "", "", NONE},
		{"0::/..\n", "", "", "", NONE},
		{"0::/init.scope\n", "", "", "init.scope", NONE},
		{"0::/system.slice/nginx.service\n", "", "", "nginx.service", NONE},
		{"0::/system.slice/nginx.service/init.scope\n", "", "", "nginx.service", NONE},
		{"0::/system.slice/nginx.service/workers/3\n", "", "", "nginx.service", NONE},
		{"0::/system.slice/system-getty.slice/getty@tty1.service\n", "", "", "getty@tty1.service",
		 NONE},
		{"0::/system.slice/systemd-udevd.service/udev\n", "", "", "systemd-udevd.service", NONE},
		{"0::/user.slice/user-1000.slice/session-3.scope\n", "", "", "session-3.scope", NONE},
		{"0::" USER "/init.scope\n", "", "", "user@1000.service", NONE},
		{"0::" USER "/app.slice/dbus.service\n", "", "", "user@1000.service/dbus.service", NONE},
		{"0::" USER "/app.slice/app-gnome-firefox-2211.scope\n", "", "",
		 "user@1000.service/app-gnome-firefox-2211.scope", NONE},
		{"0::/system.slice/dev-disk-by\\x2duuid.swap\n", "", "", "", NONE},
		{"0::/system.slice/run-u\\x2d12.service\n", "", "", "run-u\\x2d12.service", NONE},
		{"0::/machine.slice/libpod-conmon-" A ".scope\n", "", "", "libpod-conmon-" A ".scope", NONE},
		{"0::/machine.slice/machine-libpod_pod_" A ".slice\n", "", "", "", NONE},
		{"0::/system.slice/" A ".service\n", "", "", A ".service", NONE},
		{"0::/system.slice/var-lib-docker-" A ".mount\n", "", "", "", NONE},
		{"0::/lxc.payload.web\n", "", "", "lxc.payload.web", NONE},
		{"0::/lxc.payload.web/system.slice/nginx.service\n", "", "", "lxc.payload.web/nginx.service",
		 NONE},
		{"0::/lxc/101/ns/system.slice/cron.service\n", "", "", "101/cron.service", NONE},
		{"0::/machine.slice/systemd-nspawn@deb.service/payload/system.slice/cron.service\n", "", "",
		 "systemd-nspawn@deb.service/cron.service", NONE},
		{"0::/garden/4e1e6f5c-3a5b-4a3e-7e4d-3c6f\n", "", "", "", NONE},
		{"4:memory:/process_api/aab16de32c17fa08a6af542bc70c8350\n0::/\n", "", "", "", NONE},
	};

	check(rows, ARRAY_SIZE(rows));
}

Test(path, several_lines)
{
	static const struct row rows[] = {
		/* v1: all controllers agree */
		{"12:pids:/kubepods/burstable/pod" UID "/" A "\n11:memory:/kubepods/burstable/pod" UID "/" A
		 "\n1:name=systemd:/kubepods/burstable/pod" UID "/" A "\n0::/\n",
		 A, UID, "", NONE},
		/* hybrid: the id stands in one hierarchy only */
		{"13:cpu,cpuacct:/docker/" A "\n0::/system.slice/containerd.service\n", A, "", "", DOCKER},
		{"13:cpu,cpuacct:/\n0::" BURST "/cri-containerd-" A ".scope\n", A, UID, "", CONTAINERD},
		{"5:devices:/system.slice/docker.service\n4:freezer:/\n1:name=systemd:/docker/" A "\n", A, "",
		 "", DOCKER},
		/* Units: systemd's own hierarchy decides. */
		{"8:cpu:/system.slice/old.service\n1:name=systemd:/system.slice/new.service\n", "", "",
		 "new.service", NONE},
		{"8:cpu:/user.slice\n1:name=systemd:/user.slice/user-0.slice/session-c1.scope\n0::/"
		 "user.slice/"
		 "user-0.slice/session-c1.scope\n",
		 "", "", "session-c1.scope", NONE},
		{"3:cpu:/system.slice/sshd.service\n", "", "", "sshd.service", NONE},
	};

	check(rows, ARRAY_SIZE(rows));
}

/* Runtimes and managers that give their groups names of another form, or put containers below them. */
Test(path, other_managers)
{
	static const struct row rows[] = {
		/* Amazon ECS, by cgroupfs and by systemd */
		{"0::/ecs/" TASK "/" A "\n", A, "", "", DOCKER},
		{"0::/ecs/web/" TASK "/" A "\n", A, "", "", NONE},
		{"9:memory:/ecs/" UID "/" A "\n0::/\n", A, "", "", DOCKER},
		{"0::/ecstasks.slice/ecstasks-" TASK ".slice/docker-" A ".scope\n", A, "", "", DOCKER},
		/* Fargate's ids belong to no container of a node on which an agent could run. */
		{"0::/ecs/" TASK "/" TASK "-2531612879\n", "", "", "", NONE},
		/* Nomad */
		{"0::/nomad.slice/docker-" A ".scope\n", A, "", "", DOCKER},
		{"0::/nomad.slice/share.slice/" UID ".web.scope\n", "", "", UID ".web.scope", NONE},
		/*
		 * BuildKit: outside of a container it has ids of its own, inside it has that container's id.
		 */
		{"0::/buildkit/v9fbq2mzj5mcw1d4u8r7x3k0e\n", "", "", "", NONE},
		{"0::/docker/buildkit/v9fbq2mzj5mcw1d4u8r7x3k0e\n", "", "", "", NONE},
		{"0::/docker/" A "/buildkit/v9fbq2mzj5mcw1d4u8r7x3k0e\n", A, "", "", DOCKER},
		{"0::/system.slice/docker-" A ".scope/init\n", A, "", "", DOCKER},
		{"0::/system.slice/docker.service/buildkit/v9fbq2mzj5mcw1d4u8r7x3k0e\n", "", "",
		 "docker.service", NONE},
		/* Cloud Foundry, Mesos, virtual machines, snaps */
		{"0::/system.slice/garden.service/garden/4e1e6f5c-3a5b-4a3e-7e4d-3c6f\n", "", "",
		 "garden.service", NONE},
		{"0::/mesos/" UID "\n", "", "", "", NONE},
		{"0::/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/emulator\n", "", "",
		 "machine-qemu\\x2d1\\x2dvm.scope", NONE},
		{"0::/system.slice/snap.microk8s.daemon-containerd.service\n", "", "",
		 "snap.microk8s.daemon-containerd.service", NONE},
		/* LXC and Incus, with containers of other runtimes inside */
		{"0::/lxc.payload.web/docker/" A "\n", A, "", "", DOCKER},
		{"0::/lxc.payload.node/kubepods/burstable/pod" UID "/" A "\n", A, UID, "", NONE},
		{"0::/lxc.payload.project_c1/.lxc\n", "", "", "lxc.payload.project_c1", NONE},
		{"0::/lxc.monitor.web\n", "", "", "lxc.monitor.web", NONE},
		{"12:pids:/lxc/web\n1:name=systemd:/lxc/web/init.scope\n", "", "", "web", NONE},
		/* A pod of podman with the cgroupfs driver, and processes that belong to the pod alone. */
		{"0::/libpod_parent/" B "/libpod-" A "/container\n", A, "", "", PODMAN},
		{"0::/libpod_parent/" B "/conmon\n", "", "", "", NONE},
		{"0::/libpod_parent/" B "\n", "", "", "", NONE},
		/* Sandboxes: all processes of a pod in one group. */
		{"0::/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" A ".scope/kata_overhead\n",
		 A, UID, "", CONTAINERD},
		{"0::/kata_overhead/" A "\n", A, "", "", NONE},
		/* systemd as a container's init, with users */
		{"0::" BURST "/crio-" A ".scope/user.slice/user-0.slice/session-1.scope\n", A, UID, "", CRIO},
		{"0::" BURST "/crio-" A ".scope/container/system.slice/nginx.service\n", A, UID, "", CRIO},
	};

	check(rows, ARRAY_SIZE(rows));
}

/* The part of the path that our own namespace omits is prepended. */
Test(path, in_a_cgroup_namespace)
{
#define OWN BURST "/cri-containerd-" A ".scope"
#define OWN_FS "/kubepods/burstable/pod" UID "/" A
	static const struct {
		struct row row;
		const char *base;
	} rows[] = {
		{{"0::/\n", A, UID, "", CONTAINERD}, OWN},
		{{"0::/worker/3\n", A, UID, "", CONTAINERD}, OWN},
		{{"0::/../cri-containerd-" B ".scope\n", B, UID, "", CONTAINERD}, OWN},
		{{"0::/..\n", "", UID, "", NONE}, OWN},
		{{"0::/../../kubepods-burstable-pod" UID2_ ".slice/crio-" B ".scope\n", B, UID2, "", CRIO},
		 OWN},
		{{"0::/../../../kubepods-pod" UID2_ ".slice/docker-" B ".scope\n", B, UID2, "", DOCKER}, OWN},
		{{"0::/../../../../system.slice/sshd.service\n", "", "", "sshd.service", NONE}, OWN},
		{{"0::/../../../../init.scope\n", "", "", "init.scope", NONE}, OWN},
		{{"0::/../../../../..\n", "", "", "", NONE}, OWN},
		{{"0::/\n", A, UID, "", NONE}, OWN_FS},
		{{"0::/../" B "\n", B, UID, "", NONE}, OWN_FS},
		{{"0::/../../pod" UID2 "/" B "\n", B, UID2, "", NONE}, OWN_FS},
		{{"0::/../../..\n", "", "", "", NONE}, OWN_FS},
		{{"0::/..x\n", A, UID, "", NONE}, OWN_FS},
		/* In a service on a plain host. */
		{{"0::/\n", "", "", "proflet.service", NONE}, "/system.slice/proflet.service"},
		{{"0::/../cron.service\n", "", "", "cron.service", NONE}, "/system.slice/proflet.service"},
		/* v1 hierarchies have paths of their own */
		{{"4:memory:/\n0::/\n", A, UID, "", NONE}, OWN_FS},
		{{"4:memory:/docker/" B "\n", B, "", "", DOCKER}, OWN_FS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(&rows[i].row, &(struct cgroup_observer){.base = rows[i].base});
}

Test(path, malformed)
{
	static const struct row rows[] = {
		{"", "", "", "", NONE},
		{"\n\n\n", "", "", "", NONE},
		{"::", "", "", "", NONE},
		{"0::", "", "", "", NONE},
		{"0:/docker/" A "\n", "", "", "", NONE},
		{"/docker/" A "\n", "", "", "", NONE},
		{"0::docker/" A "\n", "", "", "", NONE},
		{"garbage\n0::/docker/" A "\ngarbage", A, "", "", DOCKER},
		{"0:://docker//" A "//\n", A, "", "", DOCKER},
		{"0::/docker/" A "0\n", "", "", "", NONE}, /* 65 digits */
		{"0::/docker/f" A "\n", "", "", "", NONE}, /* 65 digits */
		{"0::/docker/2227DAF62DF6694645FEE5DF53C1F91271546A9560E8600A525690AE252B7F63\n", "", "", "",
		 NONE},
		{"0::/kubepods/pod6fb6a7c1-29f3_4f0d-8a6c-0a5a3f3f8c1e/x\n", "", "", "",
		 NONE}, /* mixed separators */
		{"0::/kubepods/pod" UID "0/x\n", "", "", "", NONE},
		{"0::/kubepods/mypod" UID "/x\n", "", "", "", NONE},
		{"0::/kubepods/pod/x\n", "", "", "", NONE},
		{"0::/system.slice/bad name.service\n", "", "", "", NONE},
		{"0::/system.slice/\xff\xfe.service\n", "", "", "", NONE},
	};

	check(rows, ARRAY_SIZE(rows));
}

/*
 * Every prefix of a valid file, in a block of exactly its size, so that the sanitizer sees a read past
 * the end.
 */
Test(path, truncated_anywhere)
{
	static const char text[] = "12:pids:/docker/" A "/kubelet\n0::" BURST "/cri-containerd-" A
				   ".scope/init.scope (deleted)\n";

	for (size_t n = 0; n < sizeof text; n++) {
		_cleanup_free_ char *copy = malloc(n ? n : 1);
		struct cgroup_identity id;

		memcpy(copy, text, n);
		cgroup_path_parse(copy, n, &outside, &id);
		cr_assert(!id.container_id[0] || strcmp(id.container_id, A) == 0);
		cr_assert(!id.pod_uid[0] || strcmp(id.pod_uid, UID) == 0);
	}
}

Test(path, unit_names_of_maximal_length)
{
	char name[300], text[1024];
	struct cgroup_identity id;

	memset(name, 'a', sizeof name);
	strcpy(name + 247, ".service"); /* 255 bytes, the maximum of a file name */
	snprintf(text, sizeof text, "0::/user@1.service/%s\n", name);
	cgroup_path_parse(text, strlen(text), &outside, &id);
	cr_expect_str_eq(id.unit, name, "no room for the manager: the unit stands whole");

	memset(name, 'a', sizeof name);
	strcpy(name + 248, ".service");
	snprintf(text, sizeof text, "0::/%s\n", name);
	cgroup_path_parse(text, strlen(text), &outside, &id);
	cr_expect(cgroup_identity_empty(&id));
}

Test(path, runtime_names)
{
	cr_expect_str_eq(cgroup_runtime_name(CGROUP_RUNTIME_DOCKER), "docker");
	cr_expect_str_eq(cgroup_runtime_name(CGROUP_RUNTIME_CONTAINERD), "containerd");
	cr_expect_str_eq(cgroup_runtime_name(CGROUP_RUNTIME_CRIO), "cri-o");
	cr_expect_str_eq(cgroup_runtime_name(CGROUP_RUNTIME_PODMAN), "podman");
	cr_expect_str_eq(cgroup_runtime_name(CGROUP_RUNTIME_UNKNOWN), "unknown");
	cr_expect_str_eq(cgroup_runtime_name((enum cgroup_runtime)99), "unknown");
}
