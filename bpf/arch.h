/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The layer for the architecture: everything in bpf/ and in the user-space completion that differs between
 * x86-64 and arm64. One file each, arch_x86.h and arch_arm64.h, defines all of the following; no other file
 * knows a register's number or name, an offset in a signal frame, or an instruction
 * (tests/check/architecture). Pure facts: constants, and functions of scalars, so that the agent and the
 * tests use the same file.
 *
 * Registers by role, as DWARF numbers of the architecture's psABI:
 *
 *	REGISTER_SP, REGISTER_FP   stack pointer, frame pointer
 *	REGISTER_RA                column of the return address
 *	REGISTER_IP                index in regs[] of the next instruction; REGISTERS where the DWARF numbers
 *	                           leave no room below that
 *	REGISTER_INDEX             the one of UNWIND_CFA_DEREF_INDEX
 *	REGISTERS_ALL              by bit: those below REGISTERS that a sample or a signal frame gives
 *
 * Return addresses:
 *
 *	arch_ra_offset(rule)       where a rule (its eight bytes) says that the return address is saved, in
 *	                           bytes from the CFA. With UNWIND_RA_REG: a word near the frame, which fills
 *	                           the window where it can be read, and whose value is ignored
 *	arch_strip_ip(ip, mask)    without its signature; the mask is unwind_area.ip_signature
 *	arch_ip_signature()        that mask, as this CPU and kernel have it; for the agent alone
 *
 *	INTERRUPTED_RA             a frame that Go's runtime has interrupted, as if the frame had called it
 *	                           (UNWIND_RA_EXACT), while its return address was in REGISTER_RA: bytes from
 *	                           there to the frame's stack pointer; 0: that register is none
 *
 * Frame records, which code without a row is stepped by: the frame pointer points to the caller's one,
 *
 *	FRAME_RECORD_RA            bytes from there to the return address
 *	FRAME_RECORD_BYTES         bytes from there to the caller's stack pointer, at least
 *
 * Rules of linkers and run-time libraries:
 *
 *	arch_has_rule(cfa)         whether the architecture has this enum unwind_cfa
 *	arch_plt_cfa(ip, sp, n)    CFA in a PLT slot whose push ends `n` bytes from the slot's start
 *
 *	arch_follows_call(code)    whether the eight bytes before a return address end with a call
 *
 *	arch_record_at(code)       by the eight bytes from the innermost instruction on, of code that keeps
 *	                           frame records: how many bytes the return address is above sp, as the
 *	                           record is not there yet or any more; -1: it is, at the frame pointer
 *	arch_pushed_by_luajit(code)
 *	                           by the eight bytes from an instruction of LuaJIT's interpreter on, if it
 *	                           is at a beginning or an end: bytes of registers between sp and the return
 *	                           address; else -1
 *
 * The kernel's signal frame, at sp in the trampoline that a handler returns to:
 *
 *	SIGNAL_FLAGS, SIGNAL_LINK  offsets of uc_flags and uc_link
 *	SIGNAL_FLAGS_MAX           the largest value of uc_flags
 *	SIGNAL_REGISTERS           offset of the interrupted code's registers, SIGNAL_WORDS words
 *	SIGNAL_FRAME(X)            X(index in regs[], number of the word): all of REGISTERS_ALL and
 *	                           REGISTER_IP
 *	arch_is_sigreturn(code)    whether a trampoline's first eight bytes make the system call
 *
 * Threads; bytes from the thread pointer:
 *
 *	arch_is_self(tp, self)     whether pthread_self() is `self` in the thread with that thread pointer
 *	TSD_GLIBC                  value of pthread key 0, with glibc; that of key n is 16 * n bytes behind
 *	TSD_MUSL                   a pointer to the array of values of keys, with musl
 *	                           (RUNTIME_NO_OFFSET: they must be searched for)
 *	SLOTS_FROM, SLOTS_TO       where thread-local variables lie, and such values: multiples of
 *	                           RUNTIME_SLOTS_BYTES
 *
 * Memory:
 *
 *	PAGE_BYTES_MIN             of any kernel: what lies in one such page can be read as one
 *	RED_ZONE_BYTES             below the stack pointer, in use
 *
 * For the BPF program alone, the registers with which a task entered the kernel:
 *
 *	struct pt_regs             with CO-RE, and REGS_FIELD_{IP,SP,FP,MODE}, its fields by role
 *	REGS_{IP,SP,FP,MODE}       byte offsets in the UAPI's struct, REGS_BYTES its size
 *	DWARF_REGISTERS(X)         X(index in regs[], field, byte offset)
 *	arch_is_user(mode)         whether the registers are of user mode
 *	arch_is_32_bit(mode)       whether they are of a 32-bit task
 *	arch_thread_pointer(task)  of the current task
 *	arch_saved_registers(base, page_bytes)
 *	                           where they lie, from the base of the task's kernel stack: for kernels
 *	                           without bpf_task_pt_regs (before 5.15)
 */
#ifndef PROFLET_BPF_ARCH_H
#define PROFLET_BPF_ARCH_H

#include "bpf/abi.h"

#define REGISTERS RULE_REGISTERS
#define REGISTER_SLOTS (REGISTERS + 1) /* of regs[]: by DWARF number, and REGISTER_IP */

/* A test may choose another architecture than the compiler's. */
#if defined(__TARGET_ARCH_x86)
#include "bpf/arch_x86.h"
#elif defined(__TARGET_ARCH_arm64)
#include "bpf/arch_arm64.h"
#elif defined(__x86_64__)
#include "bpf/arch_x86.h"
#elif defined(__aarch64__)
#include "bpf/arch_arm64.h"
#else
#error "no bpf/arch_*.h for this architecture"
#endif

_Static_assert(REGISTER_SP < REGISTERS && REGISTER_FP < REGISTERS && REGISTER_RA < REGISTERS, "registers");
_Static_assert(REGISTER_IP < REGISTER_SLOTS && REGISTER_SLOTS == SAVED_STACK_REGISTERS, "regs[]");
_Static_assert(RED_ZONE_BYTES <= SAVED_STACK_BELOW, "a saved stack has the red zone");

#endif
