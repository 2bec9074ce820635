// SPDX-License-Identifier: Apache-2.0
/* Checks the parts on which everything else depends: instruction kinds, and the shadow stack. */
#ifndef PROFLET_TESTS_SHADOW_SELFTEST_H
#define PROFLET_TESTS_SHADOW_SELFTEST_H

/* Prints failures. Returns their number. */
unsigned selftest_run(void);

#endif
