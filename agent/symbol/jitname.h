// SPDX-License-Identifier: Apache-2.0
/*
 * What the names in perf maps and jitdump files, and those of the libraries that runtimes are, tell. Pure.
 * Rank 2.
 */
#ifndef PROFLET_SYMBOL_JITNAME_H
#define PROFLET_SYMBOL_JITNAME_H

#include <stdbool.h>

/* "jit-<digits>.dump" */
bool jit_name_is_dump(const char *file);
/* The runtime that this executable or library is, as profile.frame.type has it; NULL: none that is known to
 * list its code. Static. */
const char *jit_name_runtime(const char *file);
/* The runtime that gives code such names; NULL: many do. Static. */
const char *jit_name_language(const char *name);
/*
 * The part of a name that a reader knows: without V8's kind and tier of the code ("JS:*work a.js:1:2" →
 * "work a.js:1:2"; the same function has one name in all its tiers) and CPython's "py::". Points into `name`.
 */
const char *jit_name_readable(const char *name);

#endif
