// SPDX-License-Identifier: Apache-2.0
/* Builds jitdump files record by record, and looks names up in a table. */
#ifndef PROFLET_TESTS_JIT_SUPPORT_H
#define PROFLET_TESTS_JIT_SUPPORT_H

#include <byteswap.h>
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "agent/base/buf.h"
#include "agent/symbol/jittable.h"

struct dump {
	struct buf b;
	bool swapped;
};

static inline void dump_u32(struct dump *d, uint32_t v)
{
	v = d->swapped ? bswap_32(v) : v;
	cr_assert_eq(buf_append(&d->b, &v, sizeof v), 0);
}

static inline void dump_u64(struct dump *d, uint64_t v)
{
	v = d->swapped ? bswap_64(v) : v;
	cr_assert_eq(buf_append(&d->b, &v, sizeof v), 0);
}

static inline void dump_header(struct dump *d, uint64_t flags)
{
	dump_u32(d, 0x4a695444);
	dump_u32(d, 1);
	dump_u32(d, 40);
	dump_u32(d, 62); /* EM_X86_64 */
	dump_u32(d, 0);
	dump_u32(d, 4711);
	dump_u64(d, 1000);
	dump_u64(d, flags);
}

static inline void dump_record(struct dump *d, uint32_t id, uint32_t size)
{
	dump_u32(d, id);
	dump_u32(d, size);
	dump_u64(d, 2000);
}

/* JIT_CODE_LOAD with `size` bytes of code. */
static inline void dump_load(struct dump *d, uint64_t address, uint64_t size, const char *name)
{
	size_t n = strlen(name) + 1;

	dump_record(d, 0, (uint32_t)(56 + n + size));
	dump_u32(d, 4711);
	dump_u32(d, 4712);
	dump_u64(d, address + 0x1000000); /* vma: lookups do not use this address */
	dump_u64(d, address);
	dump_u64(d, size);
	dump_u64(d, 1);
	cr_assert_eq(buf_append(&d->b, name, n), 0);
	for (uint64_t i = 0; i < size; i++)
		cr_assert_eq(buf_putc(&d->b, (char)0xcc), 0);
}

static inline void dump_move(struct dump *d, uint64_t from, uint64_t to, uint64_t size)
{
	dump_record(d, 1, 64);
	dump_u32(d, 4711);
	dump_u32(d, 4712);
	dump_u64(d, to);
	dump_u64(d, from);
	dump_u64(d, to);
	dump_u64(d, size);
	dump_u64(d, 1);
}

/* The name at an address, "" if there is none. */
static inline const char *name_at(const struct jit_table *t, uint64_t address)
{
	struct jit_symbol s;

	return jit_table_find(t, address, &s) ? s.name : "";
}

#endif
