// SPDX-License-Identifier: Apache-2.0
/*
 * The samples as perf.data, the file of `perf record` (Linux sources: tools/perf/Documentation/
 * perf.data-file-format.txt, include/uapi/linux/perf_event.h), for perf report, script and annotate, and for
 * programs that read such files. Each sample is a record of its own, with its time, thread, CPU and stack.
 *
 * A frame is an address in an ELF file here, whatever process it ran in. So each file has one place in a made
 * address space, which is the same in all processes; only files that are linked to a fixed address are at
 * that one. Frames that have no address are left out: those of interpreted languages, and marks for missing
 * frames.
 */
#ifndef PROFLET_OUTPUT_PERF_H
#define PROFLET_OUTPUT_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct output_info;
struct output_perf;
struct output_stack;

/*
 * `samples` is an empty file for reading and writing, to which some 100 to 1,000 bytes are added for each
 * sample until output_perf_free; borrowed. 0 or -ENOMEM.
 */
int output_perf_new(struct output_perf **ret, FILE *samples);
void output_perf_free(struct output_perf *p); /* NULL is fine */
/*
 * Adds each sample of a stack, whose times by CLOCK_MONOTONIC must be known. 0; -EIO or -errno of writing;
 * -ENOMEM: they are not all there. All later calls then return the same.
 */
int output_perf_add(struct output_perf *p, const struct output_stack *s, uint32_t frequency_hz);
/*
 * Writes the file. Without `chains` the samples have no callers, as `perf2bolt -nl` wants them. 0, -ENOMEM,
 * -EIO, -errno of `f` or of the samples, or the first error of output_perf_add. May be called several times,
 * but not be followed by output_perf_add.
 */
int output_perf_write(struct output_perf *p, const struct output_info *info, bool chains, FILE *f);
/* Frames whose file has no mapping: there was no room for it, or no memory. */
uint64_t output_perf_unmapped(const struct output_perf *p);

static inline void output_perf_free_p(struct output_perf **p)
{
	output_perf_free(*p);
}
#define _cleanup_output_perf_ __attribute__((cleanup(output_perf_free_p)))

#endif
