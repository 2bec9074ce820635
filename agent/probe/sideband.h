// SPDX-License-Identifier: Apache-2.0
/*
 * Perf side-band: what the kernel tells about processes (perf_event_open(2), "sample layout"). Pure decoding
 * of one record, and the per-CPU rings that they come from, merged by time. Rank 1.
 */
#ifndef PROFLET_PROBE_SIDEBAND_H
#define PROFLET_PROBE_SIDEBAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIDEBAND_BUILD_ID_MAX 20

enum sideband_kind {
	SIDEBAND_MMAP, /* an executable mapping was made */
	SIDEBAND_COMM, /* a task was renamed; `exec`: by execve, its old image is gone */
	SIDEBAND_FORK, /* ppid/ptid made pid/tid; a thread when pid == ppid */
	SIDEBAND_EXIT, /* task tid of pid ended */
	SIDEBAND_LOST, /* n_lost records of this CPU were lost */
	SIDEBAND_OTHER,
};

struct sideband_event {
	enum sideband_kind kind;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t pid, tid, ppid, ptid;
	bool exec;
	uint64_t n_lost;
	struct {			     /* SIDEBAND_MMAP */
		uint64_t start, len, offset; /* process address, bytes, file offset */
		bool executable;
		bool has_build_id; /* else has an inode (0 for memory without a file) */
		uint8_t build_id[SIDEBAND_BUILD_ID_MAX];
		uint8_t build_id_len;
		uint32_t dev_major, dev_minor;
		uint64_t inode;
	} mmap;
	const char *name; /* path of a mapping, or comm; borrowed from the record, NUL terminated */
};

/*
 * Decodes one record of `len` bytes, header included, as a SIDEBAND_SAMPLE_TYPE event with sample_id_all
 * gives it. 0, or -EBADMSG when the bytes do not hold what the header says.
 */
int sideband_decode(const uint8_t *record, size_t len, struct sideband_event *ret);

struct probe;
struct sideband;

/* Opens one event a CPU (PERFMON), with build ids where the kernel has them (5.12). 0 or -errno. */
int sideband_new(struct sideband **ret);
/*
 * The same from the program's raw tracepoints, where the probe samples by the tick: without mappings, and an
 * execve is told of when its mappings are there. The probe outlives it. 0 or -errno.
 */
int sideband_new_of_tasks(struct sideband **ret, struct probe *probe);
/* Whether mappings are told of. */
bool sideband_has_mappings(const struct sideband *s);
void sideband_free(struct sideband *s);
/*
 * Now and then: opens rings of CPUs that came online, lets go of those that went. Returns the number of CPUs
 * that changed: what one did before its ring was open is not known; -errno, and it is tried again next time.
 */
int sideband_follow(struct sideband *s);
/* An epoll fd, readable when records wait. Borrowed. */
int sideband_fd(struct sideband *s);
/* Whether records wait. */
bool sideband_pending(const struct sideband *s);
/*
 * Hands every waiting record of this PID namespace to fn, oldest first over all CPUs; those that were written
 * since the call began are left for the next one. fn's view is valid in the call only. Returns the number of
 * events or -errno.
 */
typedef void (*sideband_fn)(const struct sideband_event *event, void *data);
int sideband_drain(struct sideband *s, sideband_fn fn, void *data);
/*
 * New executable memory of the process, without a file and within [start, end), is not handed on any more,
 * until anything else is heard of the process. For one process at a time, the last one; a runtime may make
 * thousands a second.
 */
void sideband_ignore(struct sideband *s, uint32_t pid, uint64_t start, uint64_t end);
/* Records lost in the kernel, and records that did not decode, since the start. */
uint64_t sideband_lost(const struct sideband *s);

#endif
