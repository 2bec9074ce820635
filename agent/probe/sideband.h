// SPDX-License-Identifier: Apache-2.0
/*
 * Perf side-band: the events by which the kernel reports what processes do (perf_event_open(2), "sample
 * layout"). Decodes single records (pure), and reads the rings of all CPUs as one sequence ordered by time.
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
	SIDEBAND_LOST, /* n_lost records, or more, are missing, for the reason `loss` */
	SIDEBAND_OTHER,
};

/* Why events are missing: X(name, text). The text is the metric's label. */
#define SIDEBAND_LOSSES(X)                                                                            \
	X(OVERFLOW, "overflow")	    /* the kernel found the ring full */                              \
	X(BAD_RECORD, "bad_record") /* bytes that are no record: what follows in that ring is lost */ \
	X(NO_MEMORY, "no_memory")   /* no memory to take records out of their ring */

enum sideband_loss {
#define X(name, text) SIDEBAND_LOSS_##name,
	SIDEBAND_LOSSES(X)
#undef X
		SIDEBAND_LOSSES_N
};

const char *sideband_loss_text(enum sideband_loss reason);

struct sideband_event {
	enum sideband_kind kind;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t pid, tid, ppid, ptid;
	bool exec;
	enum sideband_loss loss; /* SIDEBAND_LOST */
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

/* Opens one event per CPU (CAP_PERFMON), with build ids where the kernel has them (5.12). 0 or -errno. */
int sideband_new(struct sideband **ret);
/*
 * The same events from raw tracepoints of the BPF program, for a probe that samples by timer tick. They do
 * not include mappings, and an execve is reported only when its mappings exist. The probe must outlive the
 * result. 0 or -errno.
 */
int sideband_new_of_tasks(struct sideband **ret, struct probe *probe);
/* Whether mappings are reported. */
bool sideband_has_mappings(const struct sideband *s);
void sideband_free(struct sideband *s);
/*
 * Opens rings for CPUs that came online and lets go of those that went offline. Call now and then. Returns
 * the number of CPUs that changed: what happened on one before its ring was open is not known. -errno: it is
 * tried again at the next call.
 */
int sideband_follow(struct sideband *s);
/* An epoll fd, readable when records wait. Borrowed. */
int sideband_fd(struct sideband *s);
/* Whether records wait. */
bool sideband_pending(const struct sideband *s);
/*
 * Hands every waiting record of this PID namespace to fn, ordered by time over all CPUs. Records written
 * after the call began wait for the next one. The event is valid for the call of fn only. Whenever records
 * are missing, fn gets a SIDEBAND_LOST event in the same call. Returns the number of events; -errno when
 * nothing was read, nothing is lost, and the next call tries again.
 */
typedef void (*sideband_fn)(const struct sideband_event *event, void *data);
int sideband_drain(struct sideband *s, sideband_fn fn, void *data);
/*
 * Stops reporting new executable memory of the process that has no file and lies within [start, end), until
 * any other event of that process is reported. Holds for one process at a time, the last one named: a runtime
 * may make thousands of such mappings a second.
 */
void sideband_ignore(struct sideband *s, uint32_t pid, uint64_t start, uint64_t end);
/* What is missing since the start, by reason. */
void sideband_lost(const struct sideband *s, uint64_t ret[SIDEBAND_LOSSES_N]);

#endif
