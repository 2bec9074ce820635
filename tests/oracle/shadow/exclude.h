// SPDX-License-Identifier: Apache-2.0
/*
 * Functions whose rows say that they are outermost although something called them: each by name, with the
 * reason.
 */
#ifndef PROFLET_TESTS_SHADOW_EXCLUDE_H
#define PROFLET_TESTS_SHADOW_EXCLUDE_H

#include <stdbool.h>

#include "tests/oracle/shadow/tables.h"

bool exclude_root(const struct tables *t, uint64_t frame);

#endif
