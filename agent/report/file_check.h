// SPDX-License-Identifier: Apache-2.0
/*
 * Looks whether the files of a closed window's frames still have the content that they had when they were
 * mapped. A library can be written anew while processes have it mapped and run its code; their samples then
 * are of the new code, which neither the names nor the unwind table of the old one fit. Private to
 * agent/report. Main loop only.
 */
#ifndef PROFLET_REPORT_FILE_CHECK_H
#define PROFLET_REPORT_FILE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct binary_registry;
struct sample_entry;
struct unwind_tables;
struct worker_job;

/*
 * Makes a job that looks at the files of `n` binaries; it holds them until it is done. What it finds goes
 * into the registry (binary.changed, binary.unchanged_ns), and the tables of changed files are dropped. The
 * registry and the tables (NULL: there are none) are borrowed. NULL: there is nothing to look at, or no
 * memory.
 */
struct worker_job *file_check_new(struct binary_registry *binaries, struct unwind_tables *tables,
				  const uint32_t *files, size_t n);
/*
 * Whether samples of this entry may have been taken when the file of the binary had other content already. A
 * program's own file cannot be written while it runs.
 */
bool file_check_doubts(const struct binary_registry *binaries, uint32_t file, const struct sample_entry *e);

#endif
