// SPDX-License-Identifier: Apache-2.0
/*
 * Recognises PHP 7.4 to 8.5 in an ELF file (php, php-fpm, libphp), and says where what a profiler needs lies
 * in it and in its objects, which do not describe themselves: the offsets are those of the version. In builds
 * for threads (ZTS), each thread has its own `executor_globals` in a block of memory, at an offset that the
 * process chooses; a thread-local variable has the block. Pure.
 * Runs where the file can do no harm (agent/parser).
 */
#ifndef PROFLET_ELF_RUNTIME_PHP_H
#define PROFLET_ELF_RUNTIME_PHP_H

#include <stdbool.h>
#include <stdint.h>

struct elf_image;

#define PHP_LOOPS_MAX 2u
#define PHP_VERSION(major, minor) ((uint32_t)(major) << 24 | (uint32_t)(minor) << 16)

/* Offsets of zend_execute_data, which is the same in all versions. */
#define PHP_FRAME_BYTES 56u
#define PHP_FRAME_INSTRUCTION 0u
#define PHP_FRAME_CODE 24u
#define PHP_FRAME_CALL_INFO 40u
#define PHP_FRAME_NEXT 48u
#define PHP_CALL_TOP (1u << 17) /* call info: the last frame of one execution of the loop */
/* In the block of memory of a thread (ZTS), in which its executor_globals are: the thread pointer. */
#define PHP_BLOCK_THREAD 16u
/* zend_function: its type is the first byte */
#define PHP_FUNCTION_USER 2u
#define PHP_FUNCTION_EVAL 4u
#define PHP_FUNCTION_NAME 8u
#define PHP_FUNCTION_SCOPE 16u
#define PHP_CLASS_NAME 8u
/* zend_string */
#define PHP_TEXT_LENGTH 16u
#define PHP_TEXT 24u
/* zend_op */
#define PHP_INSTRUCTION_BYTES 32u
#define PHP_INSTRUCTION_LINE 24u

/* Offsets that depend on the version. */
struct php_layout {
	uint16_t current_frame; /* in executor_globals: current_execute_data */
	/* in an op_array */
	uint16_t n_instructions, instructions; /* last, opcodes */
	uint16_t file;
	uint16_t first_line; /* directly behind */
	uint16_t zero;
};

/* Addresses are ELF virtual addresses. */
struct php_facts {
	uint32_t version; /* PHP_VERSION | release << 8; 0: no PHP in the file */
	uint32_t known;	  /* 1: `layout` is filled in; 0: an unknown version */
	uint64_t globals; /* executor_globals, or, with `threads`, executor_globals_offset */
	/* The interpreter's loop, [start, end): execute_ex, and what the compiler split off it. */
	uint64_t loop_start[PHP_LOOPS_MAX], loop_end[PHP_LOOPS_MAX];
	uint32_t n_loops;
	uint32_t threads; /* 1: built for threads (ZTS); else 0 */
	struct php_layout layout;
	uint32_t zero_end;
};

/*
 * 0: *ret describes the PHP in the file; -ENOENT: there is none; -ENOMEM. On failure, *ret is zeroed. Costs a
 * look-up of one name where there is none.
 */
int php_facts_read(struct php_facts *ret, struct elf_image *img);
/* Whether facts, which a parser process has sent, are such as php_facts_read gives, also on failure. */
bool php_facts_valid(const struct php_facts *f);
/* The layout of a version (PHP_VERSION, without release). False: not known. */
bool php_layout_of(struct php_layout *ret, uint32_t version);

/* --- for php.c */

/*
 * The part that the compiler split off the function [start, end): an FDE of its own, into which the function
 * jumps, and whose frame is the function's at once. 0; -ENOENT: there is none; -ENOMEM.
 */
int php_loop_split(struct elf_image *img, uint64_t start, uint64_t end, uint64_t *ret_start,
		   uint64_t *ret_end);

#endif
