// SPDX-License-Identifier: Apache-2.0
/* Checks of the parts that everything else rests on: instruction kinds, and the stack of calls. */
#ifndef PROFLET_TESTS_SHADOW_SELFTEST_H
#define PROFLET_TESTS_SHADOW_SELFTEST_H

/* Prints what fails. How many did. */
unsigned selftest_run(void);

#endif
