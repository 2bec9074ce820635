// SPDX-License-Identifier: Apache-2.0
/* What a parser process answers when the names of three addresses are wanted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/symbol/batch.h"

static void require(int condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t addrs[] = {0x1000, 0x1010, 0x2000};
	struct symbol_batch b = {.fd = -1, .debug_fd = -1, .addrs = addrs, .n_addrs = ARRAY_SIZE(addrs)};
	int r = symbol_answer_read(&b, data, size);

	require(r == 0 || r == -EBADMSG);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(addrs); i++)
		require(symbol_ranges_find(&b.ranges, addrs[i]) != NULL);
	for (size_t i = 0; i < b.ranges.n; i++) {
		const struct symbol_range *x = &b.ranges.v[i];

		require(x->start < x->end && (i == 0 || x->start >= b.ranges.v[i - 1].end));
		if (x->names) /* both strings end inside */
			require(x->system_name_at + strlen(x->names + x->system_name_at) < x->names_bytes &&
				strlen(x->names) < x->names_bytes);
	}
	symbol_ranges_fini(&b.ranges);
	return 0;
}
