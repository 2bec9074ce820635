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
static const struct machine_code not_sigreturn = {"mov $16, %eax; syscall", {0x00050f00000010b8ull, 0}};

#endif
