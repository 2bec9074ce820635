// SPDX-License-Identifier: Apache-2.0
/*
 * What a parser process answers when the rules of two addresses are wanted: those that are accepted can be
 * applied.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/unwind/rule_job.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

static int read_memory(void *data, void *to, uint32_t bytes, uint64_t address)
{
	(void)data;
	require(bytes > 0 && bytes <= 8);
	if (address >= 0x10000)
		return -1;
	memcpy(to, &address, bytes);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct frame_memory memory = {read_memory, NULL, NULL};
	struct frame_query query[2] = {{.va = 0x1000}, {.va = 0x2000}};
	int r = rule_answer_read(query, 2, data, size);

	require(r == 0 || r == -EBADMSG);
	for (int i = 0; r == 0 && i < 2; i++) {
		struct frame_registers regs = {.known = 0x1ffff};

		for (unsigned k = 0; k < FRAME_REGISTERS; k++)
			regs.value[k] = 0x1000 * k;
		if (query[i].error == 0)
			(void)frame_rule_step(&query[i].rule, &memory, &regs);
	}
	return 0;
}
