// SPDX-License-Identifier: Apache-2.0
/* A real ELF file in a memfd, damaged and repaired in place. */
#ifndef PROFLET_MUTATIONS_TARGET_H
#define PROFLET_MUTATIONS_TARGET_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATCHES_MAX 64

struct target {
	const char *path;
	uint8_t *bytes; /* owned: the undamaged bytes */
	size_t len;
	int fd; /* owned memfd */
	struct patch {
		uint64_t at;
		uint8_t byte;
	} patches[PATCHES_MAX];
	size_t n_patches;
	uint64_t cut; /* length of the truncated file; len if it is not truncated */
};

struct range {
	uint64_t offset, len;
};

int target_open(struct target *t, const char *path);
void target_close(struct target *t);
/* The range of the section in the file, by the undamaged headers. False: there is none. */
bool target_section(const struct target *t, const char *name, struct range *ret, uint64_t *ret_va);
/* The ranges of program headers and of section headers; empty when there are none. */
struct range target_phdrs(const struct target *t);
struct range target_shdrs(const struct target *t);
/*
 * target_patch records a damaged byte, target_apply writes the damage, target_repair undoes it. 0 or -errno.
 */
void target_patch(struct target *t, uint64_t at, uint8_t byte);
void target_cut(struct target *t, uint64_t len);
int target_apply(struct target *t);
int target_repair(struct target *t);

#endif
