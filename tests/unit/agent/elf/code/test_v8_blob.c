// SPDX-License-Identifier: Apache-2.0
/* The table of V8's builtins, and their code, by what they look like. */
#include "agent/elf/code/v8_blob.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS 600u
#define ALIGN 64u

struct made {
	uint8_t *table, *code;
	size_t table_bytes, code_bytes;
};

/* Bytes of instructions of the function `i`. */
static uint32_t length_of(uint32_t i)
{
	return 16 + i * 37 % 500;
}

/* Functions one behind the other, each with padding, and an entry of `stride` bytes for each. */
static struct made make(size_t stride)
{
	struct made m = {.table_bytes = (FUNCTIONS + 1) * stride};
	uint32_t at = 0;

	m.table = calloc(1, m.table_bytes);
	m.code = malloc((size_t)FUNCTIONS * 1024);
	cr_assert(m.table && m.code);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		const uint32_t entry[] = {at, length_of(i)};
		const uint32_t next = (at + length_of(i) + ALIGN) / ALIGN * ALIGN;

		memcpy(m.table + i * stride, entry, sizeof entry);
		memset(m.code + at, 0x90, length_of(i));
		memset(m.code + at + length_of(i), 0xcc, next - at - length_of(i));
		m.code_bytes = at + length_of(i);
		at = next;
	}
	return m;
}

static void made_free(struct made *m)
{
	free(m->table);
	free(m->code);
}

/* Each version of V8 has entries of its own size. */
Test(v8_blob, found)
{
	for (size_t stride = 12; stride <= 32; stride += 4) {
		struct made m = make(stride);
		struct v8_blob b;

		cr_assert(v8_blob_is_table(m.table, m.table_bytes, &b), "%zu", stride);
		cr_expect_eq(b.stride, stride);
		cr_expect_eq(b.n, FUNCTIONS);
		cr_expect_eq(v8_blob_offset(&b, 1), 64u);
		cr_expect_eq(v8_blob_length(&b, 1), length_of(1));
		cr_expect(v8_blob_is_code(&b, m.code, m.code_bytes));
		cr_expect_not(v8_blob_is_code(&b, m.code, m.code_bytes - 1), "it ends before");
		cr_expect_not(v8_blob_is_code(&b, m.code + ALIGN, m.code_bytes), "another place");
		made_free(&m);
	}
}

/* Functions that are never called trap at once, but not the first one. */
Test(v8_blob, traps)
{
	struct made m = make(12);
	struct v8_blob b;

	cr_assert(v8_blob_is_table(m.table, m.table_bytes, &b));
	m.code[v8_blob_offset(&b, 90)] = 0xcc;
	cr_expect(v8_blob_is_code(&b, m.code, m.code_bytes));
	m.code[0] = 0xcc;
	cr_expect_not(v8_blob_is_code(&b, m.code, m.code_bytes));
	memset(m.code, 0xcc, m.code_bytes);
	m.code[0] = 0x90;
	cr_expect_not(v8_blob_is_code(&b, m.code, m.code_bytes));
	made_free(&m);
}

/* What is no table. */
Test(v8_blob, doubts)
{
	struct made m = make(12);
	struct v8_blob b;
	uint32_t wrong = 1;

	cr_expect_not(v8_blob_is_table(m.table + 12, m.table_bytes - 12, &b), "not its beginning");
	cr_expect_not(v8_blob_is_table(m.table, FUNCTIONS * 12 - 1, &b), "its end is not there");
	cr_expect_not(v8_blob_is_table(m.table, 4, &b));
	memcpy(m.table + (size_t)(V8_BLOB_FUNCTIONS_MIN - 1) * 12, &wrong, sizeof wrong);
	cr_expect_not(v8_blob_is_table(m.table, m.table_bytes, &b), "too few in their order");
	memset(m.table, 0, m.table_bytes);
	cr_expect_not(v8_blob_is_table(m.table, m.table_bytes, &b), "nothing but zeros");
	made_free(&m);
}
