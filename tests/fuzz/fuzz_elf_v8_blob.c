// SPDX-License-Identifier: Apache-2.0
/*
 * The table of V8's builtins: a sound one with changes, which the input says, and its code; then the input as
 * a table. What is found is within the bytes.
 */
#include "agent/elf/code/v8_blob.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"

#define ENTRIES 600u
#define CHANGE_BYTES 6u
#define CODE_BYTES (1u << 20)

static void require(int condition)
{
	if (!condition)
		abort();
}

/* A sound table with changes: u16 entry, u32 in place of its offset. */
static void make_table(uint8_t *table, size_t stride, const uint8_t *data, size_t size)
{
	for (uint32_t i = 0; i < ENTRIES; i++) {
		const uint32_t entry[] = {i * 128, 16 + (size ? data[i % size] % 100 : 0) % 96};

		memcpy(table + i * stride, entry, sizeof entry);
	}
	for (size_t at = 0; at + CHANGE_BYTES <= size; at += CHANGE_BYTES) {
		uint16_t entry;

		memcpy(&entry, data + at, sizeof entry);
		memcpy(table + entry % ENTRIES * stride + (entry & 0x8000 ? 4 : 0), data + at + 2, 4);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t stride = 12 + (size ? data[0] % 6 : 0) * 4, bytes = (ENTRIES + 1) * stride;
	_cleanup_free_ uint8_t *table = array_zeroed(bytes, 1), *code = array_zeroed(CODE_BYTES, 1);
	struct v8_blob b;

	if (!table || !code)
		return 0;
	for (uint32_t i = 0; i < ENTRIES; i++)
		memset(code + i * 128 + 16, 0xcc, 112);
	make_table(table, stride, data, size);
	if (v8_blob_is_table(table, bytes, &b)) {
		require(b.n >= V8_BLOB_FUNCTIONS_MIN && b.n <= V8_BLOB_FUNCTIONS_MAX &&
			(b.n - 1) * b.stride + 8 <= bytes);
		for (uint32_t i = 1; i < b.n; i++)
			require(v8_blob_offset(&b, i) > v8_blob_offset(&b, i - 1));
		(void)v8_blob_is_code(&b, code, CODE_BYTES);
	}
	if (size >= 8)
		(void)v8_blob_is_table(data, size, &b);
	return 0;
}
