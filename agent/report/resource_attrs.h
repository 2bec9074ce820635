// SPDX-License-Identifier: Apache-2.0
/*
 * Which resource the samples of a process belong to, and its attributes. A resource is a container; of the
 * host's processes a systemd unit or, outside any, an executable. With `resource: process` each process is
 * one. Private to agent/report. Main loop only.
 */
#ifndef PROFLET_REPORT_RESOURCE_ATTRS_H
#define PROFLET_REPORT_RESOURCE_ATTRS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/sample/aggregate.h"
#include "otlp/profile.h"

struct cgroup_meta;
struct config;
struct pod_table;
struct proc_image;
struct resources;

#define RESOURCE_ATTRS_MAX 64

/* `config` and `pods` (NULL: nothing is known of pods) are borrowed. 0 or -ENOMEM. */
int resources_new(struct resources **ret, const struct config *config, const struct pod_table *pods);
void resources_free(struct resources *r);
/* The control group that the image's process ran in; NULL: not known. Borrowed from the image. */
const struct cgroup_meta *resource_workload(const struct proc_image *i);
/* The attributes of the resource that a process belongs to. Borrowed from image, workload, pods and `r`,
 * until the loop goes on. */
size_t resource_attrs(const struct resources *r, const struct proc_image *i, struct otlp_attr *ret);
/* What the kubelet calls the container of a process; NULL: not known. Borrowed as above. */
const char *resource_container_name(const struct resources *r, const struct proc_image *i);
/* Entries, whose owners are images, in an order in which those of one resource stand together; owned by the
 * caller. NULL: no memory. */
const struct sample_entry **resource_order(const struct resources *r, const struct sample_aggregate *samples,
					   size_t *ret_n);
bool resource_same(const struct resources *r, const struct sample_entry *a, const struct sample_entry *b);

#endif
