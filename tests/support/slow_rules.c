// SPDX-License-Identifier: Apache-2.0
/*
 * A program whose call-frame information is as slow as it can be: slow_rules [DEPTH]. Each frame of a
 * recursion of that depth (300) has a CFA and registers by expressions that loop for nearly a thousand
 * operations, then say what is true. The leaf spins.
 */
#include <stdio.h>

#include "spin.h"

/* DW_OP_const2u 240; lit1, minus, dup, bra -6: 960 operations; drop. */
#define LOOP "0x0a, 0xf0, 0x00, 0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff, 0x13"
/* DW_CFA_def_cfa_expression: the loop, then DW_OP_breg7 32 */
#define SLOW_CFA ".cfi_escape 0x0f, 12, " LOOP ", 0x77, 0x20\n"
/* DW_CFA_val_expression of a register: the loop, then DW_OP_breg<register> 0 */
#define SLOW_REGISTER(number, operation) ".cfi_escape 0x16, " #number ", 12, " LOOP ", " #operation ", 0\n"

void slow(unsigned long depth, volatile sig_atomic_t *end);

__asm__(".text\n"
	".type slow, @function\n"
	"slow:\n"
	".cfi_startproc\n"
	"	sub $24, %rsp\n" SLOW_CFA SLOW_REGISTER(3, 0x73) SLOW_REGISTER(12, 0x7c)
		SLOW_REGISTER(13, 0x7d) SLOW_REGISTER(14, 0x7e)
			SLOW_REGISTER(15, 0x7f) "	dec %rdi\n"
						"	jz 1f\n"
						"	call slow\n"
						"	jmp 2f\n"
						"1:	pause\n"
						"	cmpl $0, (%rsi)\n"
						"	je 1b\n"
						"2:	add $24, %rsp\n"
						"	.cfi_def_cfa rsp, 8\n"
						"	.cfi_same_value rbx\n"
						"	.cfi_same_value r12\n"
						"	.cfi_same_value r13\n"
						"	.cfi_same_value r14\n"
						"	.cfi_same_value r15\n"
						"	ret\n"
						".cfi_endproc\n"
						".size slow, . - slow\n");

int main(int argc, char **argv)
{
	stop_after("3600");
	puts("ready");
	fflush(stdout);
	slow(argc > 1 ? strtoul(argv[1], NULL, 10) : 300, &stop);
	return 0;
}
