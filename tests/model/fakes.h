// SPDX-License-Identifier: Apache-2.0
/* What stands in for the registry of binaries, the worker threads and the clock. */
#ifndef PROFLET_TESTS_MODEL_FAKES_H
#define PROFLET_TESTS_MODEL_FAKES_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/binary/binary.h"
#include "agent/proc/mapping.h"

#define FILES 10u /* indices 1 to FILES */
#define FILE_BLOCKS 3u
#define TEXT_OFFSET 0x1000u /* of the only segment in the file */
#define TEXT_BYTES 0x10000u
#define TEXT_VA 0x401000u

struct build_job;

/* A binary, what its table will be, and where its job is. */
struct fake_file {
	bool present;
	unsigned refs;
	uint64_t serial; /* of the content; no two files have the same */
	struct binary binary;
	struct elf_segment segment;
	unsigned n_blocks;
	struct {
		uint64_t va, end;
		uint32_t len; /* bytes */
	} blocks[FILE_BLOCKS];
	struct build_job *job;	/* with the workers; NULL: none */
	bool placing;		/* the job is done, and its table waits for room */
	unsigned placing_since; /* grace periods that had begun then */
};

struct binary_registry {
	struct fake_file files[FILES + 1];
};

extern uint64_t fake_now_ns; /* what clock_mono_ns() returns */
extern struct binary_registry fake_registry;
extern bool fake_workers_full;
extern const struct proc_files fake_files; /* by which mappings hold their files */

/* What stands behind the header of a block, so that a reader can tell whose it is. */
struct fake_mark {
	uint64_t serial;
	uint32_t file, block;
};

/* Makes what the job would have read from the file. */
void fake_job_fill(struct build_job *j);

#endif
