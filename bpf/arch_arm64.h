/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * arm64: see arch.h. Numbers of registers: "DWARF for the Arm 64-bit Architecture".
 *
 * A call leaves the return address in x30. A function that calls others saves it beside the frame pointer, as
 * a rule at the bottom of its frame ("stp x29, x30, [sp, #-N]!"), so that it may lie far from the CFA but not
 * far from the saved frame pointer. A frame record therefore does not say where the caller's stack pointer
 * is, only what it is above of.
 */
#ifndef PROFLET_BPF_ARCH_ARM64_H
#define PROFLET_BPF_ARCH_ARM64_H

#include "bpf/abi.h"

#define REGISTER_SP 31u
#define REGISTER_FP 29u
#define REGISTER_RA 30u
#define REGISTER_IP 32u
#define REGISTER_INDEX 9u /* no rule has it */
#define REGISTER_JVM_BYTECODE 22u
#define REGISTER_JVM_METHOD 12u
/*
 * An interpreted method calls with room for all of its operands below the ones that it has. The frame of an
 * interpreted callee takes that room, so that it lies above the caller's stack pointer, by less than:
 */
#define JVM_SENDER_BELOW (1u << 19)
#define V8_ENTRY_EXIT (-24) /* from the frame record of an entry: what it has saved of the thread's state */
#define REGISTERS_ALL 0xffffffffu

/*
 * The return address is unwind_rule.ra words from the saved frame pointer where that is saved at the CFA
 * (UNWIND_FP_CFA). Where unwind_rule.fp is not needed for the frame pointer, it is added in the same way,
 * but then counts from the CFA. A rule whose byte is a register for the CFA has the usual place: behind the
 * frame pointer, else the word below the CFA.
 */
static inline __s64 arch_ra_offset(__u64 rule)
{
	__u64 kind = rule >> 48;
	int fp_saved = (kind & UNWIND_FP_MASK) == UNWIND_FP_CFA << UNWIND_FP_SHIFT;
	int by_fp = (kind & UNWIND_FP_MASK) == UNWIND_FP_FP << UNWIND_FP_SHIFT;
	__s64 ra = (__s64)rule >> 56;

	if (kind & UNWIND_RA_REG)
		return 0; /* the caller's frame: it saved its own return address there */
	if ((kind & UNWIND_CFA_MASK) == UNWIND_CFA_REG)
		ra = fp_saved ? 1 : -1;
	if (!by_fp)
		ra += (__s64)(rule << 16) >> 48;
	return ra * 8;
}

/*
 * A pointer authentication code lies above the address, in bits that depend on the kernel's configuration
 * (NT_ARM_PAC_MASK). In an address of user space all of them are 0 when it is not signed.
 */
static inline __u64 arch_strip_ip(__u64 ip, __u64 mask)
{
	return ip & ~mask;
}

#ifdef __aarch64__
/*
 * By XPACLRI, which removes the code from the address in x30, and does nothing on a CPU without such codes.
 * Bit 55 says whose half the address is in, and the top byte is never part of a code.
 */
static inline __u64 arch_ip_signature(void)
{
	const __u64 all = (1ull << 55) - 1;
	register __u64 x30 __asm__("x30") = all;

	__asm__ volatile("hint #7" : "+r"(x30));
	return all & ~x30;
}
#endif

#define INTERRUPTED_RA 16 /* below its stack pointer */

#define FRAME_RECORD_RA 8
#define FRAME_RECORD_BYTES 16

static inline int arch_has_rule(__u32 cfa)
{
	return cfa != UNWIND_CFA_PLT && cfa != UNWIND_CFA_DEREF_INDEX && cfa != UNWIND_CFA_KEPT;
}

static inline __u64 arch_plt_cfa(__u64 ip, __u64 sp, __u64 n)
{
	(void)ip, (void)n;
	return sp;
}

/* struct rt_sigframe: 128 bytes of siginfo, then the ucontext, whose uc_mcontext is aligned to 16 bytes. */
#define SIGNAL_FLAGS 128
#define SIGNAL_LINK 136
#define SIGNAL_FLAGS_MAX 0
#define SIGNAL_REGISTERS 312 /* uc_mcontext.regs: x0 to x30, sp, pc */
#define SIGNAL_WORDS 33
/* clang-format off */
#define SIGNAL_FRAME(X) \
	X(0, 0) X(1, 1) X(2, 2) X(3, 3) X(4, 4) X(5, 5) X(6, 6) X(7, 7) \
	X(8, 8) X(9, 9) X(10, 10) X(11, 11) X(12, 12) X(13, 13) X(14, 14) X(15, 15) \
	X(16, 16) X(17, 17) X(18, 18) X(19, 19) X(20, 20) X(21, 21) X(22, 22) X(23, 23) \
	X(24, 24) X(25, 25) X(26, 26) X(27, 27) X(28, 28) X(29, 29) X(30, 30) X(31, 31) X(REGISTER_IP, 32)
/* clang-format on */

static inline int arch_is_sigreturn(__u64 code)
{
	return code == 0xd4000001d2801168ull; /* mov x8, #139; svc #0 */
}

static inline int arch_record_at(__u64 code)
{
	(void)code;
	return -1;
}

static inline int arch_pushed_by_luajit(__u64 code)
{
	(void)code;
	return -1;
}

/* bl, or blr and its forms with pointer authentication: the instruction before the return address. */
static inline int arch_follows_call(__u64 code)
{
	__u32 insn = code >> 32;

	return (insn & 0xfc000000) == 0x94000000 || (insn & 0xfefff000) == 0xd63f0000;
}

/*
 * What pthread_self() points to ends where the thread pointer points; its size depends on the C library. No
 * two threads have theirs so near to each other.
 */
/*
 * As on x86-64. An epilogue is ldp x29, x30; add sp; a poll; ret: what the first two restore is still there
 * until sp has moved, and behind that the return address is in x30.
 */
static inline int arch_frame_left(__u64 code)
{
	__u32 insn = (__u32)code;

	if (insn == 0xd65f03c0 || (insn & 0xffe0ffff) == 0xeb2063ff)
		return -1; /* ret; cmp sp, xN */
	if ((insn & 0xff00001f) == 0x54000008 || (insn & 0xffc003e0) == 0xf9400380)
		return -1;				   /* b.hi; ldr xN, [x28, N] */
	return (insn & 0xff8003ff) == 0xd10003ff ? -1 : 0; /* sub sp, sp, N */
}

static inline int arch_is_self(__u64 tp, __u64 self)
{
	return tp - self - 1 < 4095;
}

/* Values of pthread keys lie in it, at places that depend on its size; thread-local variables are above. */
#define TSD_GLIBC RUNTIME_NO_OFFSET
#define TSD_MUSL RUNTIME_NO_OFFSET
#define SLOTS_FROM (-(__s32)RUNTIME_SLOTS_BYTES * 4)
#define SLOTS_TO (__s32) RUNTIME_SLOTS_BYTES
#define REGISTER_PHP_INSTRUCTION 28  /* in the loop, as Zend/zend_execute.c declares it for GCC */
#define REGISTER_RUBY_INSTRUCTION 19 /* the next one has the control frame: vm_exec.c of Ruby declares them */

#define PAGE_BYTES_MIN 4096
#define RED_ZONE_BYTES 0

#ifdef __bpf__

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long regs[31];
	unsigned long sp, pc, pstate;
};

struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
};

struct task_struct___thread {
	struct thread_struct thread;
};

#pragma clang attribute pop

/*
 * tpidr_el0, as it was saved when the task last left a CPU, or as clone or execve set it: the program sets
 * the register without the kernel, but does so once, at its start.
 */
#define arch_thread_pointer(task) BPF_CORE_READ((struct task_struct___thread *)(task), thread.uw.tp_value)

#define REGS_FIELD_IP pc
#define REGS_FIELD_SP sp
#define REGS_FIELD_FP regs[29]
#define REGS_FIELD_MODE pstate

/* struct user_pt_regs, with which the kernel's own struct begins. */
#define REGS_FP 232
#define REGS_SP 248
#define REGS_IP 256
#define REGS_MODE 264
#define REGS_BYTES 272

/* clang-format off */
#define DWARF_REGISTERS(X) \
	X(0, regs[0], 0) X(1, regs[1], 8) X(2, regs[2], 16) X(3, regs[3], 24) \
	X(4, regs[4], 32) X(5, regs[5], 40) X(6, regs[6], 48) X(7, regs[7], 56) \
	X(8, regs[8], 64) X(9, regs[9], 72) X(10, regs[10], 80) X(11, regs[11], 88) \
	X(12, regs[12], 96) X(13, regs[13], 104) X(14, regs[14], 112) X(15, regs[15], 120) \
	X(16, regs[16], 128) X(17, regs[17], 136) X(18, regs[18], 144) X(19, regs[19], 152) \
	X(20, regs[20], 160) X(21, regs[21], 168) X(22, regs[22], 176) X(23, regs[23], 184) \
	X(24, regs[24], 192) X(25, regs[25], 200) X(26, regs[26], 208) X(27, regs[27], 216) \
	X(28, regs[28], 224) X(29, regs[29], 232) X(30, regs[30], 240) X(31, sp, 248) \
	X(REGISTER_IP, pc, 256)
/* clang-format on */

/* `mode` is pstate: its low four bits are the exception level and stack pointer, the fifth is of AArch32. */
static inline int arch_is_user(__u64 mode)
{
	return (mode & 15) == 0;
}

static inline int arch_is_32_bit(__u64 mode)
{
	return (mode & 16) != 0;
}

/* At the top of the stack: THREAD_SIZE bytes with pages of 4 or 16 KiB, one page with those of 64. */
static inline __u64 arch_saved_registers(__u64 base, __u32 page_bytes)
{
	__u64 bytes = page_bytes > 16384 ? page_bytes : 16384;

	return base + bytes - bpf_core_type_size(struct pt_regs);
}

#endif

#endif
