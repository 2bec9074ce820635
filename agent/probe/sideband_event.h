// SPDX-License-Identifier: Apache-2.0
/* What processes do, as the kernel reports it: by the perf side-band or by raw tracepoints. */
#ifndef PROFLET_PROBE_SIDEBAND_EVENT_H
#define PROFLET_PROBE_SIDEBAND_EVENT_H

#include <stdbool.h>
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
		uint64_t inode, generation; /* the second tells an inode from others that had its number */
	} mmap;
	const char *name; /* path of a mapping, or comm; borrowed from the record, NUL terminated */
};

/* The event is valid during the call only. */
typedef void (*sideband_fn)(const struct sideband_event *event, void *data);

#endif
