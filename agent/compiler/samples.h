// SPDX-License-Identifier: Apache-2.0
/*
 * Samples of one program by the address that ran, as ELF virtual address. Stacks of a recording are added;
 * those that ended in other code are counted only. Not thread safe. Rank 4.
 */
#ifndef PROFLET_COMPILER_SAMPLES_H
#define PROFLET_COMPILER_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct compiler_samples;
struct elf_image;
struct output_stack;

#define COMPILER_ADDRESSES_MAX (1u << 24)

struct compiler_address {
	uint64_t va, n; /* n: samples */
};

/* Opens the program. 0; -ENOEXEC: it is no ELF file; -errno; -ENOMEM. */
int compiler_samples_new(struct compiler_samples **ret, const char *path);
void compiler_samples_free(struct compiler_samples *s); /* NULL is fine */
/* 0; -ENOMEM, -ENOSPC: more than COMPILER_ADDRESSES_MAX addresses. */
int compiler_samples_add(struct compiler_samples *s, const struct output_stack *stack);
/* Sorted by address; borrowed until the next add. 0 or -ENOMEM. */
int compiler_samples_get(struct compiler_samples *s, const struct compiler_address **ret, size_t *ret_n);
uint64_t compiler_samples_all(const struct compiler_samples *s);   /* that were added */
uint64_t compiler_samples_own(const struct compiler_samples *s);   /* of these, in the program */
uint64_t compiler_samples_other(const struct compiler_samples *s); /* in another build of it */
/* The program; both borrowed. */
struct elf_image *compiler_samples_image(struct compiler_samples *s);
int compiler_samples_fd(const struct compiler_samples *s);

#endif
