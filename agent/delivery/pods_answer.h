// SPDX-License-Identifier: Apache-2.0
/* A list of pods as flat bytes, from the delivery process to the agent. Private to delivery/. */
#ifndef PROFLET_DELIVERY_PODS_ANSWER_H
#define PROFLET_DELIVERY_PODS_ANSWER_H

#include <stddef.h>

struct buf;
struct pod_list;

/* 0, -ENOMEM, or -EOVERFLOW at the maximum of `b`. */
int pods_answer_put(const struct pod_list *pods, struct buf *b);
/*
 * Any bytes may come, and the maxima of cgroup/pods.h hold for what is taken. 0; -EBADMSG; -ENOMEM. *ret is
 * written on success only, and freed by pod_list_fini.
 */
int pods_answer_get(const void *bytes, size_t len, struct pod_list *ret);

#endif
