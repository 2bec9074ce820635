// SPDX-License-Identifier: Apache-2.0
/*
 * Turns linkage names into readable ones: C++ (Itanium ABI), Rust (legacy and v0), D, and the suffixes of
 * functions that compilers clone. Rank 2.
 */
#ifndef PROFLET_SYMBOL_DEMANGLE_H
#define PROFLET_SYMBOL_DEMANGLE_H

#define SYMBOL_MANGLED_MAX (16u << 10) /* bytes of a linkage name; longer ones stay mangled */
#define SYMBOL_NAME_MAX 4096u	       /* bytes of a readable name with its "..."; longer ones are cut */

/*
 * Returns the readable form, owned by the caller. NULL: `linkage_name` is readable already (a C name), cannot
 * be demangled, or there is no memory; the caller then shows it unchanged.
 *
 *	_ZN3net4Conn4readEPvm             net::Conn::read           parameter and return types are left out
 *	_ZN4core3fmt5write17h0123…E       core::fmt::write          the hash is left out
 *	_D4demo3fooFiZv                   demo.foo(int)             D keeps the types of its parameters
 *	copy_user.isra.0.cold             copy_user [clone .isra.0] [clone .cold]
 *	helper.llvm.8123, f.lto_priv.0    helper, f                 suffixes for uniqueness are left out
 *
 * Safe on any bytes, in any thread: recursion, input and output are bounded, and so is the time. Names that
 * expand without end (a few hundred bytes can stand for gigabytes) are cut at SYMBOL_NAME_MAX.
 */
char *symbol_demangle(const char *linkage_name);

#endif
