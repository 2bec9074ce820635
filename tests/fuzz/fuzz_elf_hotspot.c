// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a process with a HotSpot: that of a sound one (hotspot_machine.h), of which the input
 * changes bytes: u32 offset, u8 value each. The first byte says in which form.
 */
#include <stdlib.h>

#include "agent/elf/code/a64_hotspot.h"
#include "agent/elf/code/hotspot_rows.h"
#include "agent/elf/runtime/hotspot_code.h"
#include "agent/elf/runtime/hotspot_layout.h"
#include "agent/elf/runtime/hotspot_names.h"
#include "tests/support/hotspot_machine.h"

#define CHANGE_BYTES 5u

static void require(int condition)
{
	if (!condition)
		abort();
}

static void look_at_code(struct hotspot_machine *m, const struct hotspot_layout *l,
			 const struct hotspot_blob *b)
{
	struct memory_code code = {.va = b->start, .n = (uint32_t)(b->end - b->start), .function = true};
	struct hotspot_entry entries[HOTSPOT_ENTRIES_MAX];
	struct memory_rows rows = {0};
	uint8_t *bytes;

	require(b->end > b->start);
	if (b->end - b->start > MEMORY_CODE_MAX)
		return;
	bytes = malloc(code.n);
	code.code = bytes;
	if (bytes && vm_read(m->memory, bytes, b->start, code.n) == 0 &&
	    (b->kind == HOTSPOT_CODE_INTERPRETER
		     ? hotspot_interpreter_rows(
			       &rows, &code, b->frame_bytes, entries,
			       hotspot_entries_read(m->memory, l, b, entries, HOTSPOT_ENTRIES_MAX))
		     : hotspot_rows_make(&rows, &code, b->kind, b->frame_bytes)) == 0)
		for (size_t i = 0; i < rows.n; i++)
			require(rows.v[i].off < code.n &&
				(i ? rows.v[i].off > rows.v[i - 1].off : !rows.v[i].off));
	memory_rows_fini(&rows);
	rows = (struct memory_rows){0};
	if (bytes && b->kind != HOTSPOT_CODE_INTERPRETER && b->frame_bytes <= MEMORY_CODE_MAX &&
	    a64_hotspot_rows(&rows, &code, b->kind, b->frame_bytes) == 0)
		for (size_t i = 0; i < rows.n; i++)
			require(rows.v[i].off < code.n &&
				(i ? rows.v[i].off > rows.v[i - 1].off : !rows.v[i].off));
	memory_rows_fini(&rows);
	free(bytes);
}

static void look_at_scopes(struct hotspot_machine *m, const struct hotspot_layout *l,
			   const struct hotspot_blob *b)
{
	struct hotspot_scopes *s = calloc(1, sizeof *s);

	if (s && hotspot_scopes_read(m->memory, l, b, s) == 0) {
		require(s->n_methods >= 1 && s->n_methods <= HOTSPOT_METHODS_MAX);
		for (uint32_t i = 0; i < s->n_places; i++)
			require(s->places[i].scope < s->n_scopes);
		for (uint32_t i = 0; i < s->n_scopes; i++)
			require(s->scopes[i].method < s->n_methods &&
				(s->scopes[i].outer == HOTSPOT_NO_SCOPE || s->scopes[i].outer < i));
	}
	free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t wanted[] = {HM_BASE + HM_NMETHOD_CODE + 3, HM_BASE + HM_INTERPRETER};
	struct hotspot_method method;
	struct hotspot_layout l;
	struct hotspot_blob b;
	struct hotspot_machine m;

	if (!size)
		return 0;
	hm_init(&m, data[0] & 1);
	for (size_t i = 1; i + CHANGE_BYTES <= size; i += CHANGE_BYTES) {
		uint32_t at;

		memcpy(&at, data + i, sizeof at);
		m.bytes[at % HM_BYTES] = data[i + 4];
	}
	if (hotspot_layout_read(&l, m.memory, HM_STRUCTS, HM_TYPES) == 0) {
		require(hotspot_layout_valid(&l));
		if (hotspot_heaps_read(&l.code, m.memory, &l) == 0)
			require(hotspot_layout_valid(&l));
		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
			if (hotspot_blob_find(m.memory, &l, wanted[i], &b) < 0)
				continue;
			require(b.start <= wanted[i] && wanted[i] < b.end && b.kind < HOTSPOT_CODE_KINDS);
			look_at_code(&m, &l, &b);
			if (b.method)
				look_at_scopes(&m, &l, &b);
		}
		if (hotspot_method_read(m.memory, &l, HM_BASE + HM_METHOD, &method) == 0) {
			require(strlen(method.name) < sizeof method.name);
			(void)hotspot_line(m.memory, &l, method.constant, data[0]);
		}
	}
	hm_free(&m);
	return 0;
}
