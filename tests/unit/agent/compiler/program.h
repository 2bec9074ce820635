// SPDX-License-Identifier: Apache-2.0
/* Samples of a program for the tests of agent/compiler, and what is written of them. */
#ifndef PROFLET_TESTS_COMPILER_PROGRAM_H
#define PROFLET_TESTS_COMPILER_PROGRAM_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/base/frame.h"
#include "agent/compiler/samples.h"
#include "agent/elf/file/elf_image.h"
#include "agent/output/profile.h"

DEFINE_CLEANUP(struct compiler_samples *, compiler_samples_free)

/* The segment of the program that contains the address, as a module of that name. */
static inline struct frame_module module_of(struct compiler_samples *s, const char *name, uint64_t va)
{
	const struct elf_segment *segment = elf_image_segment_at(compiler_samples_image(s), va);

	cr_assert_not_null(segment);
	return (struct frame_module){.path = name,
				     .name = name,
				     .start = segment->va,
				     .limit = segment->va + segment->file_bytes,
				     .file_offset = segment->offset};
}

static inline void add(struct compiler_samples *s, const struct frame_module *m, uint64_t va, uint64_t n)
{
	const struct frame frames[] = {{.module = m, .address = va}, {.module = m, .address = va + 1}};
	const struct output_stack stack = {.process = "p", .frames = frames, .n_frames = 2, .count = n};

	cr_assert_eq(compiler_samples_add(s, &stack), 0);
}

/* Runs a writer into memory; the caller frees the text. */
#define WRITTEN(call)                                    \
	({                                               \
		char *_text = NULL;                      \
		size_t _len;                             \
		FILE *f = open_memstream(&_text, &_len); \
		cr_assert_not_null(f);                   \
		cr_assert_eq((call), 0);                 \
		fclose(f);                               \
		_text;                                   \
	})

#endif
