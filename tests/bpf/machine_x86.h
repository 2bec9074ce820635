// SPDX-License-Identifier: Apache-2.0
/* x86-64 as the tests know it: written from the psABI and the kernel's sources, not from bpf/arch_x86.h. */
#ifndef PROFLET_TESTS_BPF_MACHINE_X86_H
#define PROFLET_TESTS_BPF_MACHINE_X86_H

#include <elf.h>
#include <stdint.h>

#define MACHINE_ELF EM_X86_64
#define DWARF_SP 7	  /* rsp */
#define DWARF_FP 6	  /* rbp */
#define DWARF_PRESERVED 3 /* rbx */
#define SELF_BYTES 0	  /* from what pthread_self() returns to the thread pointer */

/* The signal frame at sp in the trampoline: struct ucontext, with uc_mcontext.gregs at 40. */
#define GREG(n) (40 + 8 * (n))
#define FRAME_FLAGS 0
#define FRAME_LINK 8
#define FRAME_SP GREG(15)
#define FRAME_FP GREG(10)
#define FRAME_IP GREG(16)
#define FRAME_PRESERVED GREG(11)
#define FRAME_GOOD_FLAGS 7

/* Where the frame has each register, by DWARF number; 0: there is none. */
static const uint16_t frame_registers[] = {GREG(13), GREG(12), GREG(14), GREG(11), GREG(9), GREG(8),
					   GREG(10), GREG(15), GREG(0),	 GREG(1),  GREG(2), GREG(3),
					   GREG(4),  GREG(5),  GREG(6),	 GREG(7)};

struct machine_code {
	const char *name;
	uint64_t words[2];
};

static const struct machine_code sigreturns[] = {
	{"mov $15, %eax; syscall", {0x00050f0000000fb8ull, 0}},
	{"mov $15, %rax; syscall", {0x0f0000000fc0c748ull, 0x05}},
};
/* The eight bytes before a return address, the lowest first. */
static const struct machine_code calls[] = {
	{"call rel32", {0x12345678e8000000ull, 0}},
	{"call rax", {0xd0ff000000000000ull, 0}},
	{"call r15", {0xd7ff410000000000ull, 0}},
	{"call [rbx]", {0x13ff000000000000ull, 0}},
	{"call [rsp]", {0x2414ff0000000000ull, 0}},
	{"call [rax + 8]", {0x0850ff0000000000ull, 0}},
	{"call [rsp + 8]", {0x082454ff00000000ull, 0}},
	{"call [rip + 32 bits]", {0x1234567815ff0000ull, 0}},
	{"call [r13 + 32 bits]", {0x1234567895ff4100ull, 0}},
	{"call [rsp + 32 bits]", {0x123456782494ff00ull, 0}},
	{"call [32 bits]", {0x123456782514ff00ull, 0}},
	{"call [rax * 8 + 32 bits]", {0x12345678c514ff00ull, 0}},
};
static const struct machine_code not_calls[] = {
	{"nops", {0x9090909090909090ull, 0}},
	{"jmp rel32", {0x12345678e9000000ull, 0}},
	{"jmp rax", {0xe0ff000000000000ull, 0}},
	{"push [rax]", {0x30ff000000000000ull, 0}},
	{"jmp [rip + 32 bits]", {0x1234567825ff0000ull, 0}},
	{"zeros", {0, 0}},
};
static const struct machine_code not_sigreturn = {"mov $16, %eax; syscall", {0x00050f00000010b8ull, 0}};

/* In a method that HotSpot has compiled: eight bytes of its body; how much of the frame is left where. */
#define INSTRUCTION_OF_BODY 0x9090909090909090ull
static const struct {
	const char *name;
	uint64_t code;
	unsigned words; /* 6: all of the frame that the tests make */
	int is_sure;
} epilogues[] = {
	{"pop rbp", 0x9090c35dull, 2, 1},
	{"ret", 0x909090c3ull, 1, 1},
	{"ret 8", 0x900008c2ull, 1, 1},
	{"cmp rsp, [r15 + 40]", 0x90903b28673b49ull, 1, 1},
	{"cmp rsp, [r15 + N]", 0x0328a73b49ull, 1, 1},
	{"add rsp, 32", 0xc35d20c48348ull, 6, 1},
	{"ja", 0x1234870full, 6, 0},
	{"test eax, [rip + N]", 0x12340585ull, 6, 0},
	{"mov r10, [r15 + N]", 0x12578b4dull, 6, 0},
	{"test [r10], eax", 0x90028541ull, 6, 0},
	{"mov r10, N", 0x1234ba49ull, 6, 0},
	{"lea r10, [rip + N]", 0x12158d4cull, 6, 0},
	{"push rbx", 0x53ull, 6, 0},
	{"pop r12", 0x5c41ull, 6, 0},
	{"sub rsp, 16", 0x10ec8348ull, 6, 0},
	{"jmp", 0x1234e9ull, 6, 0},
};

#endif
