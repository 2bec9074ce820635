// SPDX-License-Identifier: Apache-2.0
/* arm64 as the tests know it: written from the psABI and the kernel's sources, not from bpf/arch_arm64.h. */
#ifndef PROFLET_TESTS_BPF_MACHINE_ARM64_H
#define PROFLET_TESTS_BPF_MACHINE_ARM64_H

#include <elf.h>
#include <stdint.h>

#define MACHINE_ELF EM_AARCH64
#define DWARF_SP 31
#define DWARF_FP 29
#define DWARF_PRESERVED 19
#define SELF_BYTES 0x740 /* glibc 2.36's struct pthread: pthread_self() to the thread pointer */

/*
 * The signal frame at sp in the trampoline: siginfo (128 bytes), then struct ucontext with uc_flags, uc_link,
 * uc_stack (24 bytes), uc_sigmask (128 bytes with what is reserved for it), and uc_mcontext at a multiple of
 * 16: fault_address, regs[31], sp, pc.
 */
#define FRAME_FLAGS 128
#define FRAME_LINK (FRAME_FLAGS + 8)
#define FRAME_REG(n) (FRAME_FLAGS + (8 + 8 + 24 + 128 + 15) / 16 * 16 + 8 + 8 * (n))
#define FRAME_SP FRAME_REG(31)
#define FRAME_FP FRAME_REG(29)
#define FRAME_IP FRAME_REG(32)
#define FRAME_PRESERVED FRAME_REG(19)
#define FRAME_GOOD_FLAGS 0

/* Where the frame has each register, by DWARF number; 0: there is none. */
static const uint16_t frame_registers[] = {
	FRAME_REG(0),  FRAME_REG(1),  FRAME_REG(2),  FRAME_REG(3),  FRAME_REG(4),  FRAME_REG(5),
	FRAME_REG(6),  FRAME_REG(7),  FRAME_REG(8),  FRAME_REG(9),  FRAME_REG(10), FRAME_REG(11),
	FRAME_REG(12), FRAME_REG(13), FRAME_REG(14), FRAME_REG(15), FRAME_REG(16), FRAME_REG(17),
	FRAME_REG(18), FRAME_REG(19), FRAME_REG(20), FRAME_REG(21), FRAME_REG(22), FRAME_REG(23),
	FRAME_REG(24), FRAME_REG(25), FRAME_REG(26), FRAME_REG(27), FRAME_REG(28), FRAME_REG(29),
	FRAME_REG(30), FRAME_REG(31)};

struct machine_code {
	const char *name;
	uint64_t words[2];
};

static const struct machine_code sigreturns[] = {{"mov x8, #139; svc #0", {0xd4000001d2801168ull, 0}}};
/* The eight bytes before a return address, the lowest first. */
static const struct machine_code calls[] = {
	{"bl", {0x94001234d503201full, 0}},	   {"bl back", {0x97ffff00d503201full, 0}},
	{"blr x8", {0xd63f0100d503201full, 0}},	   {"blraa x8, x9", {0xd73f0909d503201full, 0}},
	{"blraaz x8", {0xd63f091fd503201full, 0}},
};
static const struct machine_code not_calls[] = {
	{"nops", {0xd503201fd503201full, 0}},
	{"b", {0x14001234d503201full, 0}},
	{"br x8", {0xd61f0100d503201full, 0}},
	{"ret", {0xd65f03c0d503201full, 0}},
	{"bl one instruction earlier", {0xd503201f94001234ull, 0}},
	{"zeros", {0, 0}},
};
static const struct machine_code not_sigreturn = {"mov x8, #140; svc #0", {0xd4000001d2801188ull, 0}};

/* As on x86-64: the return address is not on the stack any more when the frame is not. */
#define INSTRUCTION_OF_BODY 0xd503201fd503201full
static const struct {
	const char *name;
	uint64_t code;
	unsigned words;
	int is_sure;
} epilogues[] = {
	{"ldp x29, x30, [sp, #32]", 0xa9427bfdull, 6, 1},
	{"add sp, sp, #48", 0x9100c3ffull, 6, 1},
	{"ret", 0xd65f03c0ull, 6, 0},
	{"cmp sp, x8", 0xeb2863ffull, 6, 0},
	{"b.hi", 0x54000028ull, 6, 0},
	{"ldr x8, [x28, #40]", 0xf9401788ull, 6, 0},
	{"sub sp, sp, #16", 0xd10043ffull, 6, 0},
};

#endif
