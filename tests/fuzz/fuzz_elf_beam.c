// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a process with BEAM: that of a sound one (beam_machine.h), of which the input changes bytes:
 * u32 offset, u8 value each; a byte that is left over makes it one to which no symbol leads. The code of
 * what is found is followed, too.
 */
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/beam_rows.h"
#include "agent/elf/code/prologue.h"
#include "tests/support/beam_machine.h"

#define CHANGE_BYTES 5u

static void require(int condition)
{
	if (!condition)
		abort();
}

/* Callees are the code itself. */
static int32_t saved(void *data, uint64_t address, bool pointer)
{
	const struct memory_code *code = data;
	const uint32_t at = (uint32_t)(address % code->n);
	const int32_t off = prologue_saves(code->code + at, code->n - at, 13);

	(void)pointer;
	require(off == 0 || (off <= -16 && off % 8 == 0));
	return off;
}

static void follow(const uint8_t *bytes, uint64_t va, uint32_t n, enum beam_code kind, uint32_t info)
{
	struct memory_code code = {.va = va, .code = bytes, .n = n, .frame_pointer = bytes[n - 1] & 1};
	const uint32_t end = kind == BEAM_SHARED ? n - info : n;
	struct memory_rows rows = {0};

	if (beam_rows_make(&rows, &code, kind, info, &(struct beam_callees){saved, &code}) == 0) {
		require(rows.n && !rows.v[0].off);
		for (size_t i = 1; i < rows.n; i++)
			require(rows.v[i].off > rows.v[i - 1].off && rows.v[i].off < end);
	}
	memory_rows_fini(&rows);
}

static void look_at(struct beam_machine *m, const struct beam_layout *l, uint64_t address)
{
	struct beam_function f;
	uint8_t *bytes;
	uint64_t n;

	if (beam_function_find(&f, m->memory, &m->vm, l, address) < 0)
		return;
	n = f.end - f.start;
	require(f.start <= address && address < f.end && n > BEAM_INFO_BYTES &&
		strlen(f.name) < sizeof f.name);
	if (n > BM_BYTES)
		return;
	bytes = malloc(n);
	if (bytes && vm_read(m->memory, bytes, f.start, n) == 0) {
		follow(bytes, f.start, (uint32_t)n, BEAM_FUNCTION, BEAM_INFO_BYTES);
		follow(bytes, f.start, (uint32_t)n, BEAM_SHARED, 0);
		follow(bytes, f.start, (uint32_t)n, BEAM_SHARED, (uint32_t)n / 3);
	}
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t wanted[] = {BM_CODE + 50, BM_CODE + BM_FUNCTION_BYTES, BM_SHARED,
					  BM_MODULE_END - 1};
	struct beam_machine m;
	struct beam_layout l;

	bm_init(&m);
	if (size % CHANGE_BYTES)
		bm_strip(&m);
	for (size_t i = 0; i + CHANGE_BYTES <= size; i += CHANGE_BYTES) {
		uint32_t at;

		memcpy(&at, data + i, sizeof at);
		m.bytes[at % BM_BYTES] = data[i + 4];
	}
	if (beam_layout_read(&l, m.memory, &m.vm) == 0) {
		require(beam_layout_valid(&l));
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			look_at(&m, &l, BM_BASE + wanted[i]);
	}
	bm_free(&m);
	return 0;
}
