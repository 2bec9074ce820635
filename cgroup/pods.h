// SPDX-License-Identifier: Apache-2.0
/*
 * Parses the kubelet's list of pods (GET /pods: a PodList of the core API, v1). Pure. The result has what
 * samples are labelled and selected by.
 */
#ifndef PROFLET_CGROUP_PODS_H
#define PROFLET_CGROUP_PODS_H

#include <stddef.h>
#include <stdint.h>

#include "cgroup/path.h"

#define PODS_MAX 2048u		/* per list; a node has 110 to 500 */
#define POD_CONTAINERS_MAX 128u /* per pod, including init, ephemeral and ended ones */
#define POD_LABELS_MAX 128u
#define POD_UID_MAX 64u		/* bytes */
#define POD_TEXT_MAX 1024u	/* bytes of a name, image or label; longer ones are left out */
#define POD_JSON_MAX (8u << 20) /* bytes of memory for the parsed JSON of one pod; more is an error */

struct pod_container {
	char id[CGROUP_ID_LEN + 1]; /* "" before it is created */
	char *name;		    /* NULL: unknown, as below; owned */
	char *image;		    /* from the specification, without tag and digest; owned */
};

struct pod_label {
	char *key, *value; /* owned, not NULL */
};

/* Immutable; reference counted, used by one thread at a time. */
struct pod {
	unsigned refs;
	char *uid;	 /* never NULL */
	char *other_uid; /* may be in its cgroup paths instead: that of a static pod's manifest */
	char *name, *namespace;
	char *workload; /* its deployment, … or job; its own name if it has none */
	char *service;	/* the annotation resource.opentelemetry.io/service.name */
	struct pod_label *labels;
	size_t n_labels;
	struct pod_container *containers;
	size_t n_containers;
};

struct pod_list {
	struct pod **items; /* one reference each; owned */
	size_t n;
	size_t n_left_out; /* pods, containers and labels without UID or beyond a maximum */
};

/*
 * 0; -EBADMSG: no list of pods, with *ret_why = what is wrong (static); -ENOMEM. *ret is written on success
 * only, and freed by pod_list_fini.
 */
int pod_list_parse(const void *data, size_t len, struct pod_list *ret, const char **ret_why);
void pod_list_fini(struct pod_list *l); /* zeroed is fine, twice, too */

struct pod *pod_ref(struct pod *p);
void pod_unref(struct pod *p); /* NULL is fine */
/* The name of the pod's service, NULL if not even the pod's name is known. Borrowed. */
const char *pod_service_name(const struct pod *p);
/* The value of a label, NULL: no such label. Borrowed. */
const char *pod_label(const struct pod *p, const char *key);

#endif
