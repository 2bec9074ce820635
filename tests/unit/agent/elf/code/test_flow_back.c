// SPDX-License-Identifier: Apache-2.0
/* From the end of a function back, where the instructions up to there do not say what the frame is. */
#include "agent/elf/code/flow_back.h"

#include <elf.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/elf/file/arch.h"
#include "tests/unit/agent/elf/cfi_bytes.h"

#define INSNS_MAX 16

struct back_case {
	const char *what;
	struct bytes code; /* before the end */
	const char *rules; /* at the end, and before each instruction, the last one first */
};

static const struct back_case cases[] = {
	{"nothing before it", BYTES(""), "rsp+8"},
	{"V8's exit from C++: lea rsp, [r15 + 8]; push rcx; mov rsi, [r13 + 16]",
	 BYTES("\x49\x8d\x67\x08\x51\x49\x8b\x75\x10"), "rsp+8; rsp+8; rsp+0 rcx; none"},
	{"arguments moved over it: mov r10, [rsp + 80]; mov [rsp + 64], r10; mov r10, [rsp + 56]; mov [rsp + "
	 "80], "
	 "r10; add rsp, 64",
	 BYTES("\x4c\x8b\x54\x24\x50\x4c\x89\x54\x24\x40\x4c\x8b\x54\x24\x38\x4c\x89\x54\x24\x50\x48"
	       "\x83\xc4\x40"),
	 "rsp+8; rsp+72; rsp+72; rsp+72; rsp+0 r10; rsp+88"},
	{"pop rcx; pop rdx; push rcx", BYTES("\x59\x5a\x51"), "rsp+8; rsp+0 rcx; rsp+0 rcx; rsp+8"},
	{"through another register: mov rcx, rdx; push rcx", BYTES("\x48\x89\xd1\x51"),
	 "rsp+8; rsp+0 rcx; rsp+0 rdx"},
	{"its register is given another value: xor ecx, ecx; push rcx", BYTES("\x31\xc9\x51"),
	 "rsp+8; rsp+0 rcx; none"},
	{"the frame pointer is restored: pop rbp", BYTES("\x5d"), "rsp+8; none"},
	{"a call: call; nop", BYTES("\xe8\x00\x00\x00\x00\x90"), "rsp+8; rsp+8; none"},
	{"a branch: je", BYTES("\x74\x00"), "rsp+8; none"},
	{"half of it is written: mov [rsp + 4], rax", BYTES("\x48\x89\x44\x24\x04"), "rsp+8; none"},
	{"below the stack pointer: sub rsp, 8", BYTES("\x48\x83\xec\x08"), "rsp+8; none"},
	{"an unaligned step: add rsp, 4", BYTES("\x48\x83\xc4\x04"), "rsp+8; none"},
	{"aligned: and rsp, -16", BYTES("\x48\x83\xe4\xf0"), "rsp+8; none"},
	{"the stack pointer from memory: mov rsp, [r13 + 8]", BYTES("\x49\x8b\x65\x08"), "rsp+8; none"},
};

static void put_rule(struct buf *out, const struct flow_back *b)
{
	const struct flow_state state = flow_back_state(b);
	const struct elf_rule rule = flow_rule(&state);
	char reg[ELF_REGISTER_NAME_MAX] = "";

	if (rule.ra.kind == REG_REGISTER)
		elf_register_name(reg, EM_X86_64, rule.ra.reg);
	cr_expect_eq(rule.cfa_kind, CFA_REG_OFF);
	cr_expect_eq(rule.fp.kind, REG_SAME);
	cr_assert_eq(
		buf_printf(out, "%srsp+%d%s%s", out->len ? "; " : "", rule.cfa_off, reg[0] ? " " : "", reg),
		0);
}

static struct x86_insn decode(const struct bytes *code, size_t off)
{
	return x86_decode((const uint8_t *)code->data + off, code->len - off);
}

/* The offsets at which the instructions begin. */
static size_t begin(const struct bytes *code, size_t at[INSNS_MAX])
{
	size_t n = 0;

	for (size_t off = 0; off < code->len;) {
		const struct x86_insn insn = decode(code, off);

		cr_assert(insn.len && n < INSNS_MAX);
		at[n++] = off;
		off += insn.len;
	}
	return n;
}

Test(flow_back, functions)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct bytes *code = &cases[i].code;
		_cleanup_buf_ struct buf out = {0};
		struct flow_back b = flow_back_exit(false);
		size_t at[INSNS_MAX], n = begin(code, at);
		bool known = true;

		put_rule(&out, &b);
		while (known && n-- > 0) {
			const struct x86_insn insn = decode(code, at[n]);

			known = flow_back_step(&b, &insn);
			if (known)
				put_rule(&out, &b);
			else
				cr_assert_eq(buf_puts(&out, "; none"), 0);
		}
		cr_expect_str_eq(buf_str(&out), cases[i].rules, "%s: %s", cases[i].what, buf_str(&out));
	}
}
