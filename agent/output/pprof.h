// SPDX-License-Identifier: Apache-2.0
/*
 * The profile as gzip'ed pprof (github.com/google/pprof, proto/profile.proto, perftools.profiles.Profile):
 * sample types samples/count and, with a known frequency, cpu/nanoseconds; addresses and mappings in ELF
 * virtual addresses; the labels process, pid, thread, container.id, container.name on every sample.
 */
#ifndef PROFLET_OUTPUT_PPROF_H
#define PROFLET_OUTPUT_PPROF_H

#include <stdio.h>

struct output_profile;

/* 0, -ENOMEM, -EIO when `f` failed. */
int output_pprof_write(const struct output_profile *p, FILE *f);

#endif
