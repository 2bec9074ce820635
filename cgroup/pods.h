// SPDX-License-Identifier: Apache-2.0
/*
 * Pods as the kubelet lists them (GET /pods: a PodList of the core API, v1). Pure: bytes in, values out. What
 * is kept is what samples are labelled and selected by. Rank 1.
 */
#ifndef PROFLET_CGROUP_PODS_H
#define PROFLET_CGROUP_PODS_H

#include <stddef.h>
#include <stdint.h>

#include "cgroup/path.h"

#define PODS_MAX 2048u		/* of a list; a node has 110 to 500 */
#define POD_CONTAINERS_MAX 128u /* of a pod: init, ephemeral and ended ones, too */
#define POD_LABELS_MAX 128u
#define POD_TEXT_MAX 1024u /* bytes of a name, image or label; what is longer is left out */
#define POD_JSON_MAX \
	(8u << 20) /* bytes of memory for the JSON of one pod; what needs more ends the reading */

struct pod_container {
	char id[CGROUP_ID_LEN + 1]; /* "" before it has been made */
	char *name;		    /* NULL: unknown, as below; owned */
	char *image;		    /* as the pod names it, without tag and digest; owned */
};

struct pod_label {
	char *key, *value; /* owned, not NULL */
};

/* Never changed once it is made; shared by reference count, one thread at a time. */
struct pod {
	unsigned refs;
	char *uid;	 /* never NULL */
	char *other_uid; /* under which its cgroups may go, too: a static pod has one from its manifest */
	char *name, *namespace;
	char *workload; /* what it belongs to: the deployment, … or job; its own name where there is none */
	char *service;	/* its annotation resource.opentelemetry.io/service.name */
	struct pod_label *labels;
	size_t n_labels;
	struct pod_container *containers;
	size_t n_containers;
};

struct pod_list {
	struct pod **items; /* one reference each; owned */
	size_t n;
	size_t n_left_out; /* without a UID, or at a maximum: pods, containers, labels */
};

/*
 * 0; -EBADMSG: no list of pods, with *ret_why = what is wrong (static); -ENOMEM. *ret is written on success
 * only, and ended with pod_list_fini.
 */
int pod_list_parse(const void *data, size_t len, struct pod_list *ret, const char **ret_why);
void pod_list_fini(struct pod_list *l); /* zeroed is fine, twice, too */

struct pod *pod_ref(struct pod *p);
void pod_unref(struct pod *p); /* NULL is fine */
/* What to call the service that runs in it: NULL where not even its name is known. Borrowed. */
const char *pod_service_name(const struct pod *p);
/* The value of a label, NULL: it has none. Borrowed. */
const char *pod_label(const struct pod *p, const char *key);

#endif
