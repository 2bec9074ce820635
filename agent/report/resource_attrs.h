// SPDX-License-Identifier: Apache-2.0
/*
 * OTLP resources: to which one the samples of a process belong, and its attributes. A resource is a
 * container; for processes outside of containers, a systemd unit; for those outside of both, an executable.
 * With the setting `resource: process`, each process is a resource. Private to agent/report. Main loop only.
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
struct pod;
struct proc_image;
struct resources;

#define RESOURCE_ATTRS_MAX 64
#define RESOURCE_LABEL_MAX 320 /* names of pods have 253 bytes at most, those of containers 63 */

/* `config` and `pods` (NULL: pods have no names) are borrowed. 0 or -ENOMEM. */
int resources_new(struct resources **ret, const struct config *config, const struct pod_table *pods);
/* NULL is fine. */
void resources_free(struct resources *r);
/* The container, pod or unit that the image's process ran in; NULL: unknown. Borrowed from the image. */
const struct cgroup_meta *resource_workload(const struct proc_image *i);
/*
 * Writes the attributes of the resource that a process belongs to, and returns how many there are: at most
 * RESOURCE_ATTRS_MAX. Their strings are borrowed until pod table or image change.
 */
size_t resource_attrs(const struct resources *r, const struct proc_image *i, struct otlp_attr *ret);
/*
 * The pod of a process, as the kubelet has listed it, and the name of its container (*ret_container); NULL:
 * unknown. Borrowed as above.
 */
const struct pod *resource_pod(const struct resources *r, const struct proc_image *i,
			       const char **ret_container);
/*
 * What people call the container of a process, as POD/CONTAINER or POD, into `buf`, which is returned and
 * should have RESOURCE_LABEL_MAX bytes; NULL: the kubelet has not listed it.
 */
const char *resource_container_label(const struct resources *r, const struct proc_image *i, char *buf,
				     size_t size);
/*
 * The entries of a window, whose owners are images, in an order in which those of one resource are adjacent.
 * The array of *ret_n is the caller's; the entries are borrowed. NULL: no memory.
 */
const struct sample_entry **resource_order(const struct resources *r, const struct sample_aggregate *samples,
					   size_t *ret_n);
/* Whether the processes of two entries belong to one resource. */
bool resource_same(const struct resources *r, const struct sample_entry *a, const struct sample_entry *b);

#endif
