// SPDX-License-Identifier: Apache-2.0
/* In place of agent/runtime/code_names.c: the places are those of a table that the test has. */
#ifndef FAKE_CODE_NAMES_H
#define FAKE_CODE_NAMES_H

#include "agent/runtime/code_names.h"

struct fake_code {
	uint64_t number;
	int64_t offset;
	struct code_place place;
};

struct code_names {
	const struct fake_code *codes;
	size_t n;
	unsigned asked; /* calls of code_names_find */
	struct code_names_stats stats;
};

#endif
