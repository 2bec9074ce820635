# SPDX-License-Identifier: Apache-2.0
# A 32-bit program without a library: spins in its own code, and every 2^20 rounds in the kernel, until it is ended.
	.section .note.GNU-stack, "", @progbits
	.text
	.globl _start
_start:
	movl $1, %ebp
	movl $0x100000, %ecx
1:	loop 1b
	movl $20, %eax		# getpid
	int $0x80
	jmp _start
