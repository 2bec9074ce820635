// SPDX-License-Identifier: Apache-2.0
/*
 * One request to the kubelet: GET /pods. Blocks for up to `timeout_ns`, so it needs a thread of its own.
 * Token and certificates are read each time, because they are renewed while we run.
 */
#ifndef PROFLET_CGROUP_KUBELET_H
#define PROFLET_CGROUP_KUBELET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cgroup/pods.h"

#define KUBELET_ANSWER_MAX (16u << 20) /* bytes */
#define KUBELET_WHY_MAX 400

/* All borrowed for the call. */
struct kubelet_request {
	const char *url;	/* "https://10.0.0.5:10250"; over http the token is neither read nor sent */
	const char *token_file; /* NULL: none */
	const char *ca;		/* PEM file with the only trusted roots; NULL: the system's roots */
	bool insecure;		/* accept any certificate */
	uint64_t timeout_ns;
	const atomic_bool *cancel; /* when true, give up within a second; NULL: never */
};

/*
 * 0 with *ret, to be freed by pod_list_fini; else `ret_why` is a line for the operator, without secrets and
 * without text from the server: -EACCES (HTTP 401, 403), -EPROTO (the answer is no list of pods), -EFBIG,
 * -ETIMEDOUT, -ECONNREFUSED (any other failure to get an answer), -ECANCELED, -ENOMEM, or an errno of reading
 * the token.
 */
int kubelet_fetch(const struct kubelet_request *q, struct pod_list *ret, char ret_why[KUBELET_WHY_MAX]);

#endif
