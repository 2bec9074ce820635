/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* x86-64: see arch.h. Numbers of registers: System V ABI, figure 3.36. */
#ifndef PROFLET_BPF_ARCH_X86_H
#define PROFLET_BPF_ARCH_X86_H

#include "bpf/abi.h"

#define REGISTER_SP 7u
#define REGISTER_FP 6u
#define REGISTER_RA 16u
#define REGISTER_IP 16u
#define REGISTER_INDEX 9u
#define REGISTER_JVM_BYTECODE 13u
#define REGISTER_JVM_METHOD 3u
#define JVM_SENDER_BELOW 0
#define V8_ENTRY_EXIT (-64) /* from the frame record of an entry: what it has saved of the thread's state */
#define REGISTERS_ALL 0x1ffffu

/* A call pushes the return address, and the CFA is what the stack pointer was before. */
static inline __s64 arch_ra_offset(__u64 rule)
{
	(void)rule;
	return -8;
}

static inline __u64 arch_strip_ip(__u64 ip, __u64 mask)
{
	(void)mask;
	return ip;
}

#ifndef __bpf__
static inline __u64 arch_ip_signature(void)
{
	return 0;
}
#endif

#define INTERRUPTED_RA 0 /* all are on the stack */

#define FRAME_RECORD_RA 8
#define FRAME_RECORD_BYTES 16

static inline int arch_has_rule(__u32 cfa)
{
	(void)cfa;
	return 1;
}

/* A slot has 16 bytes; its second half is reached behind a push. */
static inline __u64 arch_plt_cfa(__u64 ip, __u64 sp, __u64 n)
{
	return sp + 8 + ((ip & 15) >= n ? 8 : 0);
}

/* struct rt_sigframe without pretcode, which the handler's return has popped: a struct ucontext. */
#define SIGNAL_FLAGS 0
#define SIGNAL_LINK 8
#define SIGNAL_FLAGS_MAX 15
#define SIGNAL_REGISTERS 40 /* uc_mcontext.gregs: r8 to r15, di, si, bp, bx, dx, ax, cx, sp, ip */
#define SIGNAL_WORDS 17
/* clang-format off */
#define SIGNAL_FRAME(X) \
	X(0, 13) X(1, 12) X(2, 14) X(3, 11) X(4, 9) X(5, 8) X(6, 10) X(7, 15) \
	X(8, 0) X(9, 1) X(10, 2) X(11, 3) X(12, 4) X(13, 5) X(14, 6) X(15, 7) X(REGISTER_IP, 16)
/* clang-format on */

static inline int arch_is_sigreturn(__u64 code)
{
	return code << 8 >> 8 == 0x050f0000000fb8ull || /* mov $15, %eax; syscall: seven bytes */
	       code == 0x0f0000000fc0c748ull;		/* mov $15, %rax; and the first byte of syscall */
}

/* push rbp, ret or ret n; mov rbp, rsp in both of its forms. */
static inline int arch_record_at(__u64 code)
{
	if ((code & 255) == 0x55 || (code & 0xfe) == 0xc2)
		return 0;
	return (code & 0xffffff) == 0xe58948 || (code & 0xffffff) == 0xec8b48 ? 8 : -1;
}

/*
 * LuaJIT's interpreter saves registers by 55, 53, 41 57, 41 56, 48 83 ec 28, and restores them by 48 83 c4
 * 28, 41 5e, 41 5f, 5b, 5d, c3.
 */
static inline int arch_pushed_by_luajit(__u64 code)
{
	if (code == 0x8348564157415355ull || (code & 255) == 0xc3)
		return 0;
	if (code == 0xec83485641574153ull || (code & 0xffff) == 0xc35d)
		return 8;
	if (code == 0x28ec834856415741ull || (code & 0xffffff) == 0xc35d5b)
		return 16;
	if ((code & 0xffffffffffffull) == 0x28ec83485641ull || (code & 0xffffffffffull) == 0xc35d5b5f41ull)
		return 24;
	return (code & 0xffffffff) == 0x28ec8348ull || (code & 0xffffffffffffffull) == 0xc35d5b5f415e41ull
		       ? 32
		       : -1;
}

/*
 * The byte at a distance before the return address. A call is e8 with 32 bits, or ff, a ModRM byte whose
 * middle field is 2, perhaps a SIB byte, and 0, 8 or 32 bits of displacement.
 */
#define CALL_BYTE(code, distance) ((code) >> (64 - 8 * (distance)) & 255)

static inline int arch_follows_call(__u64 code)
{
	__u64 b1 = CALL_BYTE(code, 1), b2 = CALL_BYTE(code, 2), b3 = CALL_BYTE(code, 3);
	__u64 b6 = CALL_BYTE(code, 6), b7 = CALL_BYTE(code, 7);

	if (CALL_BYTE(code, 5) == 0xe8)
		return 1;
	if (b2 == 0xff && ((b1 & 0xf8) == 0xd0 || ((b1 & 0xf8) == 0x10 && b1 != 0x14 && b1 != 0x15)))
		return 1; /* a register, [register] */
	if (b3 == 0xff && (b2 == 0x14 || ((b2 & 0xf8) == 0x50 && b2 != 0x54)))
		return 1; /* [base + index], [register + 8 bits] */
	if (CALL_BYTE(code, 4) == 0xff && b3 == 0x54)
		return 1; /* [base + index + 8 bits] */
	if (b6 == 0xff && (CALL_BYTE(code, 5) == 0x15 ||
			   ((CALL_BYTE(code, 5) & 0xf8) == 0x90 && CALL_BYTE(code, 5) != 0x94)))
		return 1; /* [rip + 32 bits], [register + 32 bits] */
	return b7 == 0xff &&
	       (b6 == 0x94 || (b6 == 0x14 && (CALL_BYTE(code, 5) & 7) == 5)); /* with SIB byte */
}

/*
 * In a method that HotSpot has compiled, behind its prologue: the bytes from the stack pointer to the CFA at
 * an instruction of its epilogue (add rsp; pop rbp; a poll; ret). 0: the frame stands; -1: that is not
 * certain, as the instruction may be part of a poll, or of what moves the stack pointer for a while.
 */
static inline int arch_frame_left(__u64 code)
{
	__u32 two = code & 0xffff, three = code & 0xffffff;

	if ((code & 255) == 0x5d)
		return 16;
	if ((code & 0xfe) == 0xc2 || three == 0x673b49 || three == 0xa73b49)
		return 8; /* ret; cmp rsp, [r15 + N] */
	if ((code & 0xf0) == 0x50 || (two & 0xf0ff) == 0x5041)
		return -1; /* push, pop */
	if (two == 0x870f || two == 0x0585 || two == 0xba49 || three == 0x578b4d || three == 0x028541)
		return -1; /* ja; test eax, [rip + N]; mov r10, N; mov r10, [r15 + N]; test [r10], eax */
	if (three == 0x158d4c || three == 0x97894d || (code & 0xfd) == 0xe9)
		return -1; /* behind a poll: lea r10, [rip + N]; mov [r15 + N], r10; jmp */
	return three == 0xec8348 || three == 0xec8148 ? -1 : 0; /* sub rsp, N */
}

static inline int arch_is_self(__u64 tp, __u64 self)
{
	return self == tp;
}

/* Thread-local variables lie below the thread control block. */
#define SLOTS_FROM (-(__s32)RUNTIME_SLOTS_BYTES)
#define SLOTS_TO 0

/* glibc: struct pthread's specific_1stblock[0].data; musl: struct pthread's tsd. */
#define TSD_GLIBC 792
#define TSD_MUSL 128
#define REGISTER_PHP_INSTRUCTION 15  /* in the loop, as Zend/zend_execute.c declares it for GCC */
#define REGISTER_RUBY_INSTRUCTION 14 /* the next one has the control frame: vm_exec.c of Ruby declares them */

#define PAGE_BYTES_MIN 4096
#define RED_ZONE_BYTES 128

#ifdef __bpf__

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip;
	unsigned short cs; /* 64 bits wide before 6.9: libbpf resizes the loads */
	unsigned long flags, sp;
};

struct thread_struct {
	unsigned long fsbase;
};

struct task_struct___thread {
	struct thread_struct thread;
};

#pragma clang attribute pop

/* Up to date in a running task, too, where only the kernel sets it: glibc and musl have it set. */
#define arch_thread_pointer(task) BPF_CORE_READ((struct task_struct___thread *)(task), thread.fsbase)

#define REGS_FIELD_IP ip
#define REGS_FIELD_SP sp
#define REGS_FIELD_FP bp
#define REGS_FIELD_MODE cs

#define REGS_FP 32
#define REGS_IP 128
#define REGS_MODE 136
#define REGS_SP 152
#define REGS_BYTES 168

/* clang-format off */
#define DWARF_REGISTERS(X) \
	X(0, ax, 80) X(1, dx, 96) X(2, cx, 88) X(3, bx, 40) \
	X(4, si, 104) X(5, di, 112) X(6, bp, 32) X(7, sp, 152) \
	X(8, r8, 72) X(9, r9, 64) X(10, r10, 56) X(11, r11, 48) \
	X(12, r12, 24) X(13, r13, 16) X(14, r14, 8) X(15, r15, 0) \
	X(REGISTER_IP, ip, 128)
/* clang-format on */

/* `mode` is cs: its low two bits are the privilege level. */
static inline int arch_is_user(__u64 mode)
{
	return (mode & 3) != 0;
}

static inline int arch_is_32_bit(__u64 mode)
{
	return (mode & 0xffff) == 0x23; /* __USER32_CS */
}

/* At the top of THREAD_SIZE bytes. */
static inline __u64 arch_saved_registers(__u64 base, __u32 page_bytes)
{
	(void)page_bytes;
	return base + 16384 - REGS_BYTES;
}

#endif

#endif
