// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a process with code of V8: that of a sound one (v8_code_memory.h), of which the input changes
 * bytes: u16 offset, u8 value each. Before these, it says which layout the code has, u8, and at which offset
 * code is looked for, u16.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/elf/runtime/v8_inlined.h"
#include "tests/support/v8_code_memory.h"

#define HEAD_BYTES 3u
#define CHANGE_BYTES 3u

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check(const struct v8_inlined *x, const struct v8_compiled *code)
{
	require(x->n_functions >= 1 && x->n_functions <= HOTSPOT_METHODS_MAX);
	require(x->n_places <= HOTSPOT_PLACES_MAX && x->n_scopes <= HOTSPOT_SCOPES_MAX);
	for (uint32_t i = 0; i < x->n_scopes; i++)
		require(x->scopes[i].method < x->n_functions &&
			(x->scopes[i].outer == HOTSPOT_NO_SCOPE || x->scopes[i].outer < i));
	for (uint32_t i = 0; i < x->n_places; i++)
		require(x->places[i].scope < x->n_scopes && x->places[i].end < code->end - code->start &&
			(!i || x->places[i].end > x->places[i - 1].end));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[CODE_BYTES];
	static struct vm_memory memory;
	static struct v8_inlined inlined;
	struct v8_layout layout = code_layout;
	struct v8_compiled code;
	uint16_t at;

	if (size < HEAD_BYTES)
		return 0;
	code_init(bytes);
	layout.code.is_wrapped = data[0] & 1;
	layout.code.flag_bits = data[0] & 2;
	if (data[0] & 4) {
		layout.code.code = layout.code.start = 0;
		layout.code.header = 128;
	}
	for (size_t i = HEAD_BYTES; i + CHANGE_BYTES <= size; i += CHANGE_BYTES) {
		memcpy(&at, data + i, sizeof at);
		bytes[at % CODE_BYTES] = data[i + 2];
	}
	memset(&memory, 0, sizeof memory);
	memory.read = code_read;
	memory.data = bytes;
	memcpy(&at, data + 1, sizeof at);
	if (v8_compiled_find(&memory, &layout, CODE_BASE + at % CODE_BYTES, &code) < 0)
		return 0;
	require(code.start <= CODE_BASE + at % CODE_BYTES && code.end > CODE_BASE + at % CODE_BYTES);
	if (v8_inlined_read(&memory, &layout, &code, &inlined) == 0)
		check(&inlined, &code);
	return 0;
}
