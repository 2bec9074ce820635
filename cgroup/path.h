// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the workload of a process (container, pod or systemd unit) in the text of /proc/<pid>/cgroup
 * (cgroups(7)). Pure: text in, values out; no allocation, no errors. A part that is not recognised leaves its
 * field empty.
 */
#ifndef PROFLET_CGROUP_PATH_H
#define PROFLET_CGROUP_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The container's runtime, if the path names it; the bare `pod<uid>/<id>` of the cgroupfs driver does not. */
enum cgroup_runtime {
	CGROUP_RUNTIME_UNKNOWN,
	CGROUP_RUNTIME_DOCKER,
	CGROUP_RUNTIME_CONTAINERD,
	CGROUP_RUNTIME_CRIO,
	CGROUP_RUNTIME_PODMAN,
};

#define CGROUP_ID_LEN 64    /* hex digits of a container id */
#define CGROUP_UNIT_MAX 256 /* bytes, with NUL */

/* Plain values; each string is NUL terminated, "" when unknown. */
struct cgroup_identity {
	char container_id[CGROUP_ID_LEN + 1]; /* without prefix or suffix */
	char pod_uid[37]; /* canonical with dashes; a static pod's 32 digits stay as they are */
	/*
	 * systemd unit of a process outside any container. Below another manager, that manager's unit comes
	 * first: "user@1000.service/app-x.scope" is not the "app-x.scope" of the system or of another user.
	 */
	char unit[CGROUP_UNIT_MAX];
	enum cgroup_runtime runtime;
	/*
	 * A folder is named like a container or a pod, but in a folder that is not root's: who owns that
	 * could take any name. It was not believed.
	 */
	bool suspicious;
	/*
	 * A number of whoever is responsible for the process, who cannot choose it: of the pod, else the
	 * container, else the unit or that of its manager (a user), else the first two components of the
	 * path. Never 0.
	 */
	uint64_t tenant;
};

/* A folder of a hierarchy. Borrowed; not NUL terminated. */
struct cgroup_folder {
	bool unified;
	const char *controllers; /* of a v1 hierarchy: "cpu,cpuacct", "name=systemd" */
	size_t controllers_len;
	const char *path; /* from the root of the hierarchy */
	size_t len;
	size_t own_len; /* of this much of it nothing need be known: our own group is there, too */
};

/* From where a path is read. Zeroed: from outside of all. */
struct cgroup_observer {
	const char *base; /* path of our cgroup namespace in the unified hierarchy (namespace.h); NULL: "" */
	const char *own;  /* text of our own /proc/self/cgroup; NULL: not known */
	/* Whether only root can have made what is in this folder. NULL: it is taken for granted. */
	bool (*is_roots)(void *data, const struct cgroup_folder *folder);
	void *data;
};

/*
 * Reads the lines of v1, v2 and hybrid hierarchies, and uses the most specific one. The innermost container
 * that is also ours (we run inside of a node that is a container) is overridden by the outermost one below
 * that: whatever is below a container's group may have been named by that container. Always writes *ret.
 */
void cgroup_path_parse(const char *text, size_t len, const struct cgroup_observer *from,
		       struct cgroup_identity *ret);
/* True when nothing was recognised: a host process outside any unit. */
bool cgroup_identity_empty(const struct cgroup_identity *id);
/* "docker", "containerd", "cri-o", "podman", "unknown". Static. */
const char *cgroup_runtime_name(enum cgroup_runtime runtime);

#endif
