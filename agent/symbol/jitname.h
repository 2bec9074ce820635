// SPDX-License-Identifier: Apache-2.0
/*
 * Recognises language runtimes by the names of their libraries and of the code that they list. Pure. Rank 2.
 */
#ifndef PROFLET_SYMBOL_JITNAME_H
#define PROFLET_SYMBOL_JITNAME_H

#include <stdbool.h>

/* True for "jit-<digits>.dump". */
bool jit_name_is_dump(const char *file);
/*
 * The runtime whose executable or library this is, as a value of profile.frame.type. NULL: not known as a
 * runtime that lists its code. Static.
 */
const char *jit_name_runtime(const char *file);
/* The runtime that names code in this way. NULL: unknown, or several do. Static. */
const char *jit_name_language(const char *name);
/*
 * The compiler of V8 that made the code, by the mark in its name: "interpreter", "sparkplug", "maglev",
 * "turbofan". NULL: it has no mark. Static.
 */
const char *jit_name_tier(const char *name);
/*
 * The part of a name that a developer recognises: without V8's kind and tier of the code ("JS:*work a.js:1:2"
 * → "work a.js:1:2", so that a function has one name in all its tiers) and without CPython's "py::". Points
 * into `name`.
 */
const char *jit_name_readable(const char *name);

#endif
