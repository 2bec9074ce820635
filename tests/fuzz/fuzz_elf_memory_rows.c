// SPDX-License-Identifier: Apache-2.0
/*
 * The first bytes say what is known of the code, the others are code that a process has generated, of this
 * machine or of arm64. The rows must begin at 0 and go up inside of the code; at the instruction that ran,
 * there is a rule or a reason.
 */
#include <errno.h>
#include <stdlib.h>

#include "agent/elf/code/a64_memory.h"
#include "agent/elf/code/memory_rows.h"

#define VA 0x7f0000001000u
#define HEAD_BYTES 4u
#define CODE_BYTES_MAX 4096u
#define X86_REGISTERS 16u

static void require(int condition)
{
	if (!condition)
		abort();
}

static void check_rule(const struct elf_rule *rule, const struct memory_code *code)
{
	if (rule->cfa_kind == CFA_NONE) {
		require(rule->cfa_off == NO_RULE_REFUSED || rule->cfa_off == NO_RULE_PENDING);
		return;
	}
	if (rule->cfa_kind == CFA_SIGNAL) /* bytes of a trampoline */
		return;
	/* on the stack; where it was, on arm64; in the register that took it from the stack */
	require(rule->ra.kind == REG_CFA_OFF || rule->ra.kind == REG_SAME ||
		(rule->ra.kind == REG_REGISTER && rule->ra.reg < X86_REGISTERS));
	/* what is only a guess is checked where it is used */
	require(code->function || rule->flags & RULE_CHECKED || rule->cfa_kind != CFA_REG_OFF);
}

static void check_rows(const struct memory_rows *rows, const struct memory_code *code)
{
	const struct memory_row *wanted = NULL;

	require(rows->n > 0 && rows->v[0].off == 0);
	for (size_t i = 0; i < rows->n; i++) {
		require(rows->v[i].off < code->n);
		require(i == 0 || rows->v[i].off > rows->v[i - 1].off);
		check_rule(&rows->v[i].rule, code);
		if (rows->v[i].off <= code->wanted)
			wanted = &rows->v[i];
	}
	/* an instruction that ran does not wait for rows that nobody makes */
	require(wanted->rule.cfa_kind != CFA_NONE || wanted->rule.cfa_off == NO_RULE_REFUSED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory_code code = {0};
	struct memory_rows rows = {0};

	if (size <= HEAD_BYTES)
		return 0;
	code.va = VA + (data[0] >> 4); /* functions are not always aligned */
	code.function = data[0] & 1;
	code.frame_pointer = data[0] & 2;
	code.single = code.function && data[0] & 8;
	code.code = data + HEAD_BYTES;
	code.n = size - HEAD_BYTES < CODE_BYTES_MAX ? (uint32_t)(size - HEAD_BYTES) : CODE_BYTES_MAX;
	code.wanted = (uint32_t)(data[1] | data[2] << 8) % code.n;
	if (data[0] & 4)
		require(a64_memory_rows(&rows, &code) == 0);
	else
		require(memory_rows_make(&rows, &code) == (memory_rows_machine() ? 0 : -ENOTSUP));
	if (data[0] & 4 || memory_rows_machine())
		check_rows(&rows, &code);
	memory_rows_fini(&rows);
	return 0;
}
