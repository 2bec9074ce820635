// SPDX-License-Identifier: Apache-2.0
/* For tests that hold on one machine only: their bytes are its code, or their registers have its numbers. */
#ifndef PROFLET_TESTS_MACHINE_H
#define PROFLET_TESTS_MACHINE_H

#include <criterion/criterion.h>

/* The first statement of such a test. */
#ifdef __x86_64__
#define ONLY_ON_X86_64(what) ((void)(what))
#else
#define ONLY_ON_X86_64(what) cr_skip_test("%s of x86-64", what)
#endif

#endif
