// SPDX-License-Identifier: Apache-2.0
/* Exit codes of the program: a contract with the scripts that call it. */
#ifndef PROFLET_BASE_EXIT_CODE_H
#define PROFLET_BASE_EXIT_CODE_H

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NOT_PERMITTED = 3 };

#endif
