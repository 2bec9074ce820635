// SPDX-License-Identifier: Apache-2.0
/*
 * V8 has its builtins as one block of code in the binary, without call-frame information, and in read-only
 * data a table of where each begins (EmbeddedData::LayoutDescription, V8's src/snapshot/embedded/
 * embedded-data.h, from 10.2 on). It is there in stripped binaries, too. Neither has a symbol then: the table
 * is known by its numbers, and the block by the padding between functions. x86-64. Rank 1, private to elf/.
 */
#ifndef PROFLET_ELF_V8_BLOB_H
#define PROFLET_ELF_V8_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_gap;
struct code_starts;
struct elf_image;

#define V8_BLOB_FUNCTIONS_MIN 500u /* a table with fewer entries may be something else */
#define V8_BLOB_FUNCTIONS_MAX 16384u

/* Functions one behind the other, in the order of their addresses. */
struct v8_blob {
	const uint8_t *table; /* borrowed */
	size_t stride;	      /* bytes of an entry */
	uint32_t n;
};

/* Whether a table begins with the first of n bytes; it must end within them. */
bool v8_blob_is_table(const uint8_t *data, size_t n, struct v8_blob *ret);
/* Where the function `i` begins, and how many bytes of instructions it has, from the block's beginning. */
uint32_t v8_blob_offset(const struct v8_blob *b, uint32_t i);
uint32_t v8_blob_length(const struct v8_blob *b, uint32_t i);
/* Whether the block is the first of n bytes of code. */
bool v8_blob_is_code(const struct v8_blob *b, const uint8_t *code, size_t n);

/*
 * Adds the functions of the block, if one of the gaps has it and few starts are known in that gap, unlike
 * where the binary has symbols. The search ends at `until_ns` of this thread's CPU clock; 0: no limit. 0,
 * -ENOMEM.
 */
int v8_blob_read_starts(struct code_starts *s, const struct elf_image *img, const struct code_gap *gaps,
			size_t n_gaps, uint64_t until_ns);

#endif
