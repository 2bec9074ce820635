// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a process with .NET: that of a sound one (dotnet_machine.h), of which the input changes
 * bytes: u32 offset, u8 value each. Rows are made of what is found, too, with the bytes there as unwind
 * information.
 */
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/dotnet_rows.h"
#include "tests/support/dotnet_machine.h"

#define CHANGE_BYTES 5u

static void require(int condition)
{
	if (!condition)
		abort();
}

static void make_rows(struct dotnet_machine *m, const struct dotnet_place *p)
{
	struct memory_code code = {.va = p->start, .n = (uint32_t)(p->end - p->start), .function = true};
	uint8_t unwind[DOTNET_UNWIND_MAX];
	struct memory_rows rows = {0};
	uint8_t *bytes;

	if (p->end - p->start > DM_BYTES || vm_read(&m->reader->memory, unwind, p->unwind, 4) < 0 ||
	    vm_read(&m->reader->memory, unwind, p->unwind, 4 + 2u * unwind[2]) < 0)
		return;
	bytes = malloc(code.n);
	code.code = bytes;
	if (bytes && vm_read(&m->reader->memory, bytes, p->start, code.n) == 0) {
		if (dotnet_rows_make(&rows, &code, false, unwind, 4 + 2u * unwind[2]) == 0) {
			require(rows.n && !rows.v[0].off);
			for (size_t i = 1; i < rows.n; i++)
				require(rows.v[i].off > rows.v[i - 1].off && rows.v[i].off < code.n);
		}
		require(dotnet_rows_leaves(bytes, code.n) <= code.n);
	}
	memory_rows_fini(&rows);
	free(bytes);
}

static void look_at(struct dotnet_machine *m, uint64_t address)
{
	struct dotnet_place p;
	char name[VM_TEXT_MAX];

	if (dotnet_place_find(&p, m->reader, address) < 0)
		return;
	require(p.start <= address && address < p.end);
	if (p.kind == DOTNET_STUB)
		return;
	if (dotnet_place_name(&p, m->reader, name, sizeof name) == 0)
		require(strlen(name) < sizeof name);
	make_rows(m, &p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t wanted[] = {DM_FIRST + 8,
					  DM_FIRST + 0x44,
					  DM_SECOND,
					  DM_DYNAMIC + 0x110,
					  DM_THUNK,
					  DM_STUBS + 8,
					  DM_IMAGE + DM_READY_CODE + 4,
					  DM_IMAGE + DM_READY_CODE + 5 * DM_FUNCTION_BYTES};
	struct dotnet_machine m;

	dm_init(&m);
	for (size_t i = 0; i + CHANGE_BYTES <= size; i += CHANGE_BYTES) {
		uint32_t at;

		memcpy(&at, data + i, sizeof at);
		m.bytes[at % DM_BYTES] = data[i + 4];
	}
	if (dotnet_reader_init(m.reader) == 0)
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			look_at(&m, DM_BASE + wanted[i]);
	dm_free(&m);
	return 0;
}
