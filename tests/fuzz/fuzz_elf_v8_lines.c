// SPDX-License-Identifier: Apache-2.0
/*
 * The memory of a process with a script of V8: that of a sound one (v8_memory.h), of which the input changes
 * bytes: u16 offset, u8 value each. Before these, it says which form the text has, u8, and after how many
 * reads another script is there, u8.
 */
#include <stdlib.h>

#include "agent/base/cleanup.h"
#include "tests/support/v8_memory.h"

#define HEAD_BYTES 2u
#define CHANGE_BYTES 3u

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t places[] = {0, 1, 5, 5, 20, 60, 70, 40000};
	static struct v8_machine m;
	struct v8_member members[ARRAY_SIZE(places)];
	uint32_t lines[ARRAY_SIZE(places)];
	struct v8_memory memory;
	int r;

	if (size < HEAD_BYTES)
		return 0;
	vm_init(&m, "'use strict';\nfunction a() {}\r\nclass B extends a { static get b() {\r\treturn /[/]/ "
		    "/ `${1}`; } }\n");
	if (data[0])
		vm_string(&m, VM_STRING, data[0], 30, VM_BASE + VM_OTHER + 1, VM_BASE + VM_EMPTY + 1);
	vm_string(&m, VM_OTHER, VM_EXTERNAL | (data[0] & VM_ONE_BYTE), 100, 1, VM_BASE + VM_TEXT);
	for (size_t i = HEAD_BYTES; i + CHANGE_BYTES <= size; i += CHANGE_BYTES) {
		uint16_t at;

		memcpy(&at, data + i, sizeof at);
		m.bytes[at] = data[i + 2];
	}
	m.changes_after = data[1];
	memory = vm_memory(&m);
	r = v8_lines_read(&memory, &vm_layout, &vm_script, places, lines, members, ARRAY_SIZE(places));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		require(r == 0 ? lines[i] <= INT32_MAX && v8_member_valid(&members[i]) : !lines[i]);
	require(lines[2] == lines[3]);
	return 0;
}
