// SPDX-License-Identifier: Apache-2.0
/*
 * The first byte is the operation's result, the others are what a parser process answers when an unwind table
 * is wanted. Whatever it says, the blocks that are accepted have the form of blocks, and what it says of a
 * language runtime can be used.
 */
#include <errno.h>
#include <stdlib.h>

#include "agent/elf/runtime/facts.h"
#include "agent/unwind/table_job.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct table_result result;
	uint64_t at = 0;
	int wanted, r;

	if (!size)
		return 0;
	wanted = -(data[0] & 3);
	r = table_answer_read(&result, data + 1, size - 1, wanted);
	require(r == wanted || r == -EBADMSG);
	require(r == 0 || result.blocks.n == 0);
	require(result.debug.found + result.debug.version.recent <= 2); /* these are flags: UBSan looks */
	require(result.names.found + result.names.version.recent <= 2);
	require(!result.runtime || (result.runtime->kind && runtime_facts_valid(result.runtime)));
	for (size_t i = 0; i < result.blocks.n; i++) {
		const struct unwind_block *b = &result.blocks.blocks[i];

		require(b->va >= at && b->va < b->end && unwind_block_valid(b));
		at = b->end;
	}
	table_result_fini(&result);
	return 0;
}
