// SPDX-License-Identifier: Apache-2.0
/* One request to the kubelet of this node, with the address, token and certificates of the configuration. */
#ifndef PROFLET_DELIVERY_KUBELET_QUERY_H
#define PROFLET_DELIVERY_KUBELET_QUERY_H

#include <stddef.h>
#include <stdint.h>

#include "cgroup/kubelet.h"

struct buf;
struct config;
struct kubelet_query;

/* Appends the kubelet's URL: the configured one, or this node's address with the usual port. 0 or -ENOMEM. */
int kubelet_query_url(const struct config *config, struct buf *b);
/* 0 or -ENOMEM. The configuration is borrowed for the call. */
int kubelet_query_new(struct kubelet_query **ret, const struct config *config, uint64_t timeout_ns);
void kubelet_query_free(struct kubelet_query *q); /* NULL is fine */
/* As kubelet_fetch. Blocks. */
int kubelet_query_run(struct kubelet_query *q, struct pod_list *ret, char ret_why[KUBELET_WHY_MAX]);
/*
 * Requests it once, now, for `check`. 0 with the number of pods; or -errno as kubelet_fetch, with *ret_why
 * = a line for the operator (owned).
 */
int kubelet_query_probe(const struct config *config, uint64_t timeout_ns, size_t *ret_pods, char **ret_why);

#endif
