// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/file/arch.h"

#include <stdio.h>

#include "agent/base/cleanup.h"

const struct elf_arch elf_arch_x86_64 = {
	.machine = EM_X86_64,
	.name = "x86_64",
	.sp = X86_RSP,
	.fp = X86_RBP,
	.ra = X86_RIP,
	.ra_on_stack = true,
	.has_vm_code = true,
	.jvm_bytecode = 64,
	.instruction_align = 1,
	.stat_bytes = 144,
	.page_bytes_max = 4096,
	.preserved = 1u << X86_RBX | 1u << X86_RBP | 0xfu << X86_R12, /* r12 to r15 */
	.relative = R_X86_64_RELATIVE,
	.irelative = R_X86_64_IRELATIVE,
	.jump_slot = R_X86_64_JUMP_SLOT,
	.glob_dat = R_X86_64_GLOB_DAT,
};

const struct elf_arch elf_arch_aarch64 = {
	.machine = EM_AARCH64,
	.name = "aarch64",
	.sp = ARM64_SP,
	.fp = ARM64_X29,
	.ra = ARM64_X30,
	.ra_on_stack = false,
	.jvm_bytecode = 72,
	.instruction_align = 4,
	.stat_bytes = 128,
	.page_bytes_max = 65536,
	.preserved = 0xfffu << ARM64_X19, /* x19 to x30 */
	.relative = R_AARCH64_RELATIVE,
	.irelative = R_AARCH64_IRELATIVE,
	.jump_slot = R_AARCH64_JUMP_SLOT,
	.glob_dat = R_AARCH64_GLOB_DAT,
};

void elf_register_name(char ret[ELF_REGISTER_NAME_MAX], uint16_t machine, uint8_t reg)
{
	static const char x86[][4] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
				      "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};

	if (machine == EM_X86_64 && reg < ARRAY_SIZE(x86))
		snprintf(ret, ELF_REGISTER_NAME_MAX, "%s", x86[reg]);
	else if (machine == EM_AARCH64 && reg == ARM64_SP)
		snprintf(ret, ELF_REGISTER_NAME_MAX, "sp");
	else if (machine == EM_AARCH64 && reg < ARM64_SP)
		snprintf(ret, ELF_REGISTER_NAME_MAX, "x%u", reg);
	else
		snprintf(ret, ELF_REGISTER_NAME_MAX, "reg%u", reg);
}
