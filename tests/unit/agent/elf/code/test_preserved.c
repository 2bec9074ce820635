// SPDX-License-Identifier: Apache-2.0
/* Finds the registers that a function does not write, by its instructions. */
#include "agent/elf/code/preserved.h"

#include "tests/unit/agent/elf/elf_file.h"

#include "tests/unit/agent/elf/cfi_bytes.h"

#define ALL 0xff7fu /* DWARF registers 0 to 15 without rsp */
#define BIT(n) (1u << (n))

Test(preserved, registers_that_no_instruction_writes)
{
	static const struct {
		const char *name;
		struct bytes code;
		uint32_t keeps;
	} cases[] = {
		{"ret", BYTES("\xc3"), ALL},
		{"mov $1, %ecx; ret", BYTES("\xb9\x01\x00\x00\x00\xc3"), ALL & ~BIT(2)},
		{"lea 8(%rdi), %rsi; ret", BYTES("\x48\x8d\x77\x08\xc3"), ALL & ~BIT(4)},
		{"push %rbx; pop %rbx; ret", BYTES("\x53\x5b\xc3"), ALL & ~BIT(3)},
		{"leave; ret", BYTES("\xc9\xc3"), ALL & ~BIT(6)},
		{"vaesenc %xmm1, %xmm2, %xmm3; ret", BYTES("\xc4\xe2\x69\xdc\xd9\xc3"), ALL},
		{"vmovq %xmm0, %rdx; ret", BYTES("\xc4\xe1\xf9\x7e\xc2\xc3"), ALL & ~BIT(1)},
		{"loop: dec %r8; jne loop; ret", BYTES("\x49\xff\xc8\x75\xfb\xc3"), ALL & ~BIT(8)},
		{"call", BYTES("\xe8\x00\x00\x00\x00\xc3"), 0},
		{"call *%rax", BYTES("\xff\xd0\xc3"), 0},
		{"jump out of it", BYTES("\xeb\x10\xc3"), 0},
		{"jump before it", BYTES("\xeb\x80\xc3"), 0},
		{"branch behind it", BYTES("\x74\x01\xc3"), 0},
		{"jmp *%rax", BYTES("\xff\xe0"), 0},
		{"no instruction", BYTES("\x06\xc3"), 0},
		{"cut", BYTES("\x48\x8d"), 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char code[0x80] = {0};
		const struct file_section text = {
			".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof(code), 0, 0};
		struct elf_image *img;

		memcpy(code, cases[i].code.data, cases[i].code.len);
		img = file_image(EM_X86_64, &text, 1, 0);
		cr_expect_eq(preserved_registers(img, TEXT_VA, TEXT_VA + cases[i].code.len), cases[i].keeps,
			     "%s: %x", cases[i].name,
			     preserved_registers(img, TEXT_VA, TEXT_VA + cases[i].code.len));
		cr_expect_eq(preserved_registers(img, TEXT_VA, TEXT_VA), 0);
		cr_expect_eq(preserved_registers(img, TEXT_VA, TEXT_VA + PRESERVED_BYTES_MAX + 1), 0);
		elf_image_free(img);
	}
}
