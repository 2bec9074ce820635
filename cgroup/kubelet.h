// SPDX-License-Identifier: Apache-2.0
/*
 * One question to the kubelet: GET /pods. Blocks for as long as it takes, at most `timeout_ns`: for a thread
 * of its own. Token and certificates are read each time, since they are replaced while we run. Rank 1.
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
	const char *url;	/* "https://10.0.0.5:10250"; over http no token is sent, nor read */
	const char *token_file; /* NULL: none */
	const char *ca;		/* PEM file of the only roots that are trusted; NULL: the system's */
	bool insecure;		/* any certificate will do */
	uint64_t timeout_ns;
	const atomic_bool *cancel; /* true: give up within a second; NULL: never */
};

/*
 * 0 with *ret, to be ended with pod_list_fini; else `ret_why` is a line for the operator, without secrets and
 * without words of the server's: -EACCES (HTTP 401, 403), -EPROTO (another answer that is no list of pods),
 * -EFBIG, -ETIMEDOUT, -ECONNREFUSED (anything else that kept it from answering), -ECANCELED, -ENOMEM, or an
 * errno of reading the token.
 */
int kubelet_ask(const struct kubelet_request *q, struct pod_list *ret, char ret_why[KUBELET_WHY_MAX]);

#endif
