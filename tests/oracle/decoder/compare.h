// SPDX-License-Identifier: Apache-2.0
/*
 * Compares proflet's decoder of x86-64 instructions (agent/elf/code/x86.h) with Zydis, one instruction at a
 * time.
 */
#ifndef PROFLET_TESTS_DECODER_COMPARE_H
#define PROFLET_TESTS_DECODER_COMPARE_H

#include <stddef.h>
#include <stdint.h>

#include <Zydis/Zydis.h>

#include "agent/elf/code/x86.h"

/* X(name, text, is it a defect of the decoder) */
#define COMPARE_OUTCOMES(X)                                                  \
	X(SAME, "the same", 0)                                               \
	X(MORE, "the same, but for registers that are assumed to change", 0) \
	X(REFUSED, "refused, but Zydis knows it", 0)                         \
	X(NEITHER, "refused by both", 0)                                     \
	X(ACCEPTED, "accepted, but Zydis refuses it", 0)                     \
	X(LENGTH, "another length", 1)                                       \
	X(OPERATION, "another operation, register or number", 1)             \
	X(WRITES, "a register changes that is said not to", 1)

enum compare_outcome {
#define X(name, text, defect) COMPARE_##name,
	COMPARE_OUTCOMES(X)
#undef X
		COMPARE_OUTCOMES_N
};

struct compared {
	enum compare_outcome outcome;
	struct x86_insn ours;
	uint8_t len;	      /* by Zydis; 0: it refuses */
	const char *mnemonic; /* by Zydis, or "-" */
	uint16_t written;     /* registers that change, by Zydis */
};

void compare_init(ZydisDecoder *decoder);
struct compared compare(const ZydisDecoder *decoder, const uint8_t *code, size_t n);

#endif
