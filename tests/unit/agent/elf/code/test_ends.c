// SPDX-License-Identifier: Apache-2.0
/* What the ways to the ends of functions say of the instructions before. */
#include "agent/elf/code/ends.h"

#include <criterion/criterion.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/elf/code/x86.h"
#include "tests/unit/agent/elf/cfi_bytes.h"

#define INSNS_MAX 12

/*
 * Code in which the frame is lost throughout, and what is known before each instruction: where the return
 * address is from rsp, r<number>: in which register, -: nothing, !: that is in doubt, ?: a guess
 */
static const struct {
	const char *what;
	struct bytes code;
	const char *expected;
} cases[] = {
	{"one behind the other: add rsp, 8; nop; ret", BYTES("\x48\x83\xc4\x08\x90\xc3"), "8 0 0"},
	{"a branch to the end: test; je; add rsp, 8; jmp; add rsp, 8; ret",
	 BYTES("\x48\x85\xc0\x74\x06\x48\x83\xc4\x08\xeb\x04\x48\x83\xc4\x08\xc3"), "8 8 8 0 8 0"},
	{"two ends: je; ret; add rsp, 8; ret", BYTES("\x74\x01\xc3\x48\x83\xc4\x08\xc3"), "! 0 8 0"},
	{"what is in doubt is so before: nop; je; ret; add rsp, 8; ret",
	 BYTES("\x90\x74\x01\xc3\x48\x83\xc4\x08\xc3"), "! ! 0 8 0"},
	{"a loop that moves words: mov [rsp], rax; dec rcx; jne back; ret",
	 BYTES("\x48\x89\x44\x24\x08\x48\xff\xc9\x75\xf6\xc3"), "0 0 0 0"},
	{"a loop that pops some: pop rax; dec rcx; jne back; ret", BYTES("\x58\x48\xff\xc9\x75\xfa\xc3"),
	 "! ! ! 0"},
	{"a jump back: jmp forward; ret; nop; jmp to the ret", BYTES("\xeb\x01\xc3\x90\xeb\xfc"), "0 0 0 0"},
	{"a jump elsewhere: jmp; ret", BYTES("\xeb\x40\xc3"), "- 0"},
	{"a jump into an instruction: jmp; add rsp, 8; ret", BYTES("\xeb\x01\x48\x83\xc4\x08\xc3"), "- 8 0"},
	{"a call: call; ret", BYTES("\xe8\x00\x00\x00\x00\xc3"), "- 0"},
	{"in a register on both ways: je; push rcx; ret; push rcx; ret", BYTES("\x74\x02\x51\xc3\x51\xc3"),
	 "r1 r1 0 r1 0"},
	{"a guess: nop; jmp rax", BYTES("\x90\xff\xe0"), "0? 0?"},
	{"a guess, and an end that says the same: je; jmp rax; ret", BYTES("\x74\x02\xff\xe0\xc3"), "0 0? 0"},
};

/* Reads the instructions; those that end a function are known. */
static size_t read_ends(const struct bytes *code, struct code_end ret[INSNS_MAX])
{
	size_t n = 0;

	for (size_t off = 0; off < code->len;) {
		const struct x86_insn insn = x86_decode((const uint8_t *)code->data + off, code->len - off);
		struct code_end end = {.off = (uint32_t)off, .len = insn.len};

		cr_assert(insn.len && n < INSNS_MAX);
		if (insn.op == X86_RETURN || insn.op == X86_JUMP_FAR_AWAY) {
			end.kind = CODE_END_KNOWN;
			end.back = flow_back_exit(insn.op == X86_JUMP_FAR_AWAY);
		}
		ret[n++] = end;
		off += insn.len;
	}
	return n;
}

static void put_end(struct buf *out, const struct code_end *end)
{
	const char *space = out->len ? " " : "", *guess = end->back.guessed ? "?" : "";
	int r;

	if (end->kind == CODE_END_NONE)
		r = buf_printf(out, "%s-", space);
	else if (end->kind == CODE_END_DOUBTFUL)
		r = buf_printf(out, "%s!", space);
	else if (end->back.reg != X86_NO_REG)
		r = buf_printf(out, "%sr%u%s", space, end->back.reg, guess);
	else
		r = buf_printf(out, "%s%d%s", space, end->back.at, guess);
	cr_assert_eq(r, 0);
}

Test(ends, followed)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct bytes *code = &cases[i].code;
		_cleanup_buf_ struct buf out = {0};
		struct code_end ends[INSNS_MAX];
		const size_t n = read_ends(code, ends);

		cr_assert_eq(code_ends_follow((const uint8_t *)code->data, ends, n), 0);
		for (size_t k = 0; k < n; k++)
			put_end(&out, &ends[k]);
		cr_expect_str_eq(buf_str(&out), cases[i].expected, "%s: %s", cases[i].what, buf_str(&out));
	}
}
