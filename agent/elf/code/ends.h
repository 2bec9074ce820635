// SPDX-License-Identifier: Apache-2.0
/*
 * Ends of functions where the frame is lost. From the instruction with which a function ends, its code is
 * followed back (flow_back.h), as far as the frame is lost, along every way that leads there. Rank 1, private
 * to elf/.
 */
#ifndef PROFLET_ELF_ENDS_H
#define PROFLET_ELF_ENDS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/code/flow_back.h"

enum code_end_kind {
	CODE_END_NONE,	  /* nothing is known */
	CODE_END_KNOWN,	  /* `back` says where the return address is */
	CODE_END_DOUBTFUL /* one way from it says this, another says that */
};

/* An instruction at which the frame is lost. */
struct code_end {
	uint32_t off;
	uint8_t len;
	uint8_t kind; /* enum code_end_kind */
	struct flow_back back;
};

/*
 * v are the instructions of the code at which the frame is lost, by their offsets; CODE_END_KNOWN are those
 * with which a function ends. Finds out what is known of the others. 0, -ENOMEM.
 */
int code_ends_follow(const uint8_t *code, struct code_end *v, size_t n);

#endif
