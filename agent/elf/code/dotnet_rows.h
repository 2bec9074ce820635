// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of a function that .NET has compiled, from its unwind information, which says what its prologue does,
 * and from its instructions, which say where epilogues are. The information has the form of Windows for
 * x86-64 (struct UNWIND_INFO), with the additions of dotnet/runtime, src/coreclr/inc/win64unwind.h. x86-64
 * only. Pure.
 */
#ifndef PROFLET_ELF_DOTNET_ROWS_H
#define PROFLET_ELF_DOTNET_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/elf/code/memory_code.h"

/*
 * Rows of the code, which is one function; RULE_CHECKED, where the code may be another one by the time that
 * the rows are used (`checked`). `unwind` are n bytes, of which the information has as many as it says. 0;
 * -ENOTSUP: the information is of another form, or this is another architecture; -EFBIG; -ENOMEM.
 */
int dotnet_rows_make(struct memory_rows *ret, const struct memory_code *code, bool checked,
		     const uint8_t *unwind, size_t n);
/* One row for code that has no frame. */
int dotnet_rows_make_stub(struct memory_rows *ret);
/*
 * The bytes from the first instruction on to the next one that leaves the code, by a jump through a register
 * or memory or by a return, if none of them moves rsp or calls: the return address is at rsp in all of them,
 * because it is where the last one needs it. 0: it is not so, or more than n bytes are needed.
 */
uint32_t dotnet_rows_leaves(const uint8_t *code, uint32_t n);

#endif
