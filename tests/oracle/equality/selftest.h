// SPDX-License-Identifier: Apache-2.0
#ifndef PROFLET_EQUALITY_SELFTEST_H
#define PROFLET_EQUALITY_SELFTEST_H

/* Checks the parts, and that planted differences are found; prints failures and a closing line. How many
 * failed. */
unsigned selftest_run(void);

#endif
