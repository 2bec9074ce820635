/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * x86-64: where the interrupted registers are. The context is read by UAPI offset through volatile: CO-RE
 * would take the kernel's own pt_regs (cs is 16 bits wide there since 6.9), and clang would merge the loads
 * of both kinds.
 */
#ifndef PROFLET_BPF_REGS_X86_H
#define PROFLET_BPF_REGS_X86_H

#include "bpf/kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip;
	unsigned short cs; /* of 64 bits before 6.9: loads are resized */
	unsigned long flags, sp;
};

#pragma clang attribute pop

/* Byte offsets in the UAPI struct pt_regs. */
#define REGS_BP 32
#define REGS_IP 128
#define REGS_CS 136
#define REGS_SP 152
#define REGS_BYTES 168

#define USER_CS_32 0x23 /* a 32-bit task */
#define USER_CS_MASK 3
#define THREAD_SIZE_5_10 16384ul

/* The program's context, linux/bpf_perf_event.h, with the registers as an array. */
struct bpf_perf_event_data {
	__u64 regs[REGS_BYTES / 8];
	__u64 sample_period, addr;
};

#define CTX_REG(ctx, offset) (*(volatile __u64 *)((char *)(ctx) + (offset)))

/* X(DWARF register number, field and offset in struct pt_regs) (System V ABI, figure 3.36) */
/* clang-format off */
#define DWARF_REGISTERS(X) \
	X(0, ax, 80) X(1, dx, 96) X(2, cx, 88) X(3, bx, 40) \
	X(4, si, 104) X(5, di, 112) X(6, bp, 32) X(7, sp, 152) \
	X(8, r8, 72) X(9, r9, 64) X(10, r10, 56) X(11, r11, 48) \
	X(12, r12, 24) X(13, r13, 16) X(14, r14, 8) X(15, r15, 0) \
	X(REGISTER_IP, ip, 128)
/* clang-format on */

#endif
