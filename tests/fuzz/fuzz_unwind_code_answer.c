// SPDX-License-Identifier: Apache-2.0
/*
 * What a parser process answers when rows of 4,096 bytes of generated code are wanted, or HotSpot's code:
 * those that are accepted make a table.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/unwind/code_job.h"
#include "agent/unwind/hotspot_job.h"
#include "agent/unwind/pack.h"

#define CODE_BYTES 4096u

static void require(int condition)
{
	if (!condition)
		abort();
}

static void read_records(const uint8_t *data, size_t size)
{
	struct flat_reader from = flat_read(data, size);
	int r = 1;

	while (r > 0) {
		struct vm_record x = {0};

		r = vm_record_next(&from, &x);
		require(r == 0 || r == 1 || r == -EBADMSG || r == -ENOMEM);
		if (r == 1 && x.found.answer == VM_CODE)
			require(x.rows.n && x.rows.v[x.rows.n - 1].off < x.found.end - x.found.start);
		memory_rows_fini(&x.rows);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory_rows rows = {0};
	int r = code_answer_read(&rows, CODE_BYTES, data, size);

	require(r == 0 || r == -EBADMSG);
	for (size_t i = 0; i < rows.n; i++) {
		require(rows.v[i].off < CODE_BYTES && (i == 0 || rows.v[i].off > rows.v[i - 1].off));
		(void)unwind_rule_pack(&rows.v[i].rule, EM_X86_64);
		(void)unwind_rule_pack(&rows.v[i].rule, EM_AARCH64);
	}
	memory_rows_fini(&rows);
	read_records(data, size);
	return 0;
}
