// SPDX-License-Identifier: Apache-2.0
/*
 * What differs between the architectures whose files can be read: one table each. Register numbers are those
 * of DWARF ("DWARF Register Number Mapping" of the System V ABI for x86-64, "DWARF for the Arm 64-bit
 * Architecture").
 */
#ifndef PROFLET_ELF_ARCH_H
#define PROFLET_ELF_ARCH_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dwarf_register {
	X86_RAX = 0,
	X86_RDX = 1,
	X86_RBX = 3,
	X86_RBP = 6,
	X86_RSP = 7,
	X86_R9 = 9,
	X86_R10 = 10,
	X86_R12 = 12,
	X86_R15 = 15,
	X86_RIP = 16, /* the column of the return address */
	ARM64_X19 = 19,
	ARM64_X29 = 29,
	ARM64_X30 = 30,
	ARM64_SP = 31,
};

/* Offsets in ucontext_t (uc_mcontext.gregs), which lies at rsp in a signal trampoline on x86-64. */
enum {
	X86_UCONTEXT_RBP = 120,
	X86_UCONTEXT_RSP = 160,
	X86_UCONTEXT_RIP = 168,
};

#define ELF_REGISTER_NAME_MAX 8 /* bytes, with the NUL */

struct elf_arch {
	uint16_t machine; /* EM_* */
	const char *name; /* as uname -m has it */
	uint8_t sp, fp;	  /* stack pointer, frame pointer */
	uint8_t ra;	  /* the usual column of the return address */
	bool ra_on_stack; /* a call pushes the return address; else it is in register `ra` */
	bool has_vm_code; /* how BEAM and .NET lay out the frames of its code is known */
	uint8_t jvm_bytecode; /* HotSpot, JDK 9 and later: bytes from the bytecode's address up to the frame record */
	uint8_t instruction_align; /* bytes */
	uint8_t stat_bytes;	   /* sizeof(struct stat) in C programs */
	uint32_t page_bytes_max;   /* of kernels of this architecture */
	uint32_t preserved; /* registers that a call preserves, by bit; the stack pointer is not among them */
	uint32_t relative, irelative, jump_slot, glob_dat; /* types of relocations: R_*_RELATIVE and so on */
};

extern const struct elf_arch elf_arch_x86_64, elf_arch_aarch64;

/* The table of a machine (EM_*), NULL for those whose files cannot be read. */
static inline const struct elf_arch *elf_arch(uint16_t machine)
{
	if (machine == EM_X86_64)
		return &elf_arch_x86_64;
	return machine == EM_AARCH64 ? &elf_arch_aarch64 : NULL;
}

/* "rsp", "x29"; "reg40" for a number that has no name here. */
void elf_register_name(char ret[ELF_REGISTER_NAME_MAX], uint16_t machine, uint8_t reg);

#endif
