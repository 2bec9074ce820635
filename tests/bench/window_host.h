// SPDX-License-Identifier: Apache-2.0
/*
 * A host that does not exist, for bench_window: processes of several programs in containers and outside, and
 * the call trees that their samples come from. Files, their names and the kernel's are this machine's. The
 * report that gets the samples is the real one. Everything follows from a seed.
 */
#ifndef PROFLET_BENCH_WINDOW_HOST_H
#define PROFLET_BENCH_WINDOW_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/abi.h"

#define HOST_PROCESSES 200
#define HOST_THREADS 4 /* of each process */
#define HOST_RECORD_MAX \
	(sizeof(struct sample_record) + sizeof(uint64_t) * (KERNEL_FRAMES_MAX + USER_FRAMES_MAX))

struct report;
struct binary_registry;
struct host;

/* Opens the files, of which the first two are the libraries of every program. 0 or -errno. */
int host_new(struct host **ret, const char *const *paths, size_t n_paths);
void host_free(struct host *h);
/* Makes the next sample at that time. Returns the length of the record. */
size_t host_sample(struct host *h, uint64_t time_ns, void *record);
/* Hands such a record to the report as the agent does. */
void host_report(struct host *h, struct report *to, const void *record, size_t len);

/* The binaries that the frames are of. Borrowed. */
struct binary_registry *host_binaries(const struct host *h);

#endif
