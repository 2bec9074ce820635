// SPDX-License-Identifier: Apache-2.0
/* Maps from machine code to bytecode, as .NET 8 to 10 keep them. */
#include "agent/elf/runtime/dotnet_il_map.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/vm_memory.h"

#define BASE 0x1000u

static uint8_t bytes[VM_PIECE_BYTES * 2];
static struct dotnet_il_map map;

static int read_page(void *to, uint64_t address, void *data)
{
	(void)data;
	if (address < BASE || address >= BASE + sizeof bytes)
		return -EFAULT;
	memcpy(to, bytes + (address - BASE), VM_PIECE_BYTES);
	return 0;
}

static int read_map(unsigned form)
{
	static struct vm_memory m;

	memset(&m, 0, sizeof m);
	m.read = read_page;
	return dotnet_il_map_read(&map, &m, BASE, form);
}

static void set(const void *content, size_t n)
{
	memset(bytes, 0, sizeof bytes);
	memcpy(bytes, content, n);
}

/* Prologue; bytecode 0 from 0x11 on, 0x12 from 0x42 on; epilogue from 0x48 on. */
static void expect_map(int r)
{
	static const struct dotnet_il_place wanted[] = {
		{0, DOTNET_IL_PROLOGUE}, {0x11, 0}, {0x42, 0x12}, {0x48, DOTNET_IL_EPILOGUE}};

	cr_assert_eq(r, 0, "%d", r);
	cr_assert_eq(map.n, ARRAY_SIZE(wanted), "%u", map.n);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		cr_expect_eq(map.v[i].native, wanted[i].native, "%zu: %#x", i, map.v[i].native);
		cr_expect_eq(map.v[i].il, wanted[i].il, "%zu: %#x", i, map.v[i].il);
	}
}

/* Half bytes, the lower one first. */
struct half_bytes {
	uint8_t bytes[64];
	unsigned n;
};

static void put_number(struct half_bytes *h, uint32_t value)
{
	unsigned digits = 1;

	while (digits < 11 && value >> 3 * digits)
		digits++;
	while (digits--) {
		const unsigned digit = (value >> 3 * digits & 7) | (digits ? 8 : 0);

		h->bytes[h->n / 2] |= (uint8_t)(digit << (h->n % 2 ? 4 : 0));
		h->n++;
	}
}

/* The map that expect_map wants, with its size, behind `head`. Returns its bytes. */
static unsigned put_map(uint8_t *to)
{
	static const uint32_t places[][3] = {{0, 1, 3}, {0x11, 3, 1}, {0x31, 0x15, 1}, {6, 0, 1}};
	struct half_bytes map_bytes = {.n = 0}, sizes = {.n = 0};

	put_number(&map_bytes, ARRAY_SIZE(places));
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		for (size_t k = 0; k < 3; k++)
			put_number(&map_bytes, places[i][k]); /* steps; bytecode plus 3; why */
	put_number(&sizes, (map_bytes.n + 1) / 2);
	put_number(&sizes, 0); /* of variables */
	memcpy(to, sizes.bytes, (sizes.n + 1) / 2);
	memcpy(to + (sizes.n + 1) / 2, map_bytes.bytes, (map_bytes.n + 1) / 2);
	return (sizes.n + 1) / 2 + (map_bytes.n + 1) / 2;
}

Test(dotnet_il_map, numbers_of_three_bits)
{
	uint8_t b[64] = {0};
	unsigned n = put_map(b + 1);

	set(b, n + 1);
	expect_map(read_map(DOTNET_IL_COMPILED));
	set(b + 1, n);
	expect_map(read_map(0));
}

/* Taken from .NET 9 and 10: what replaces a frame while it runs has 2 and 1 local variables. */
Test(dotnet_il_map, other_information_is_skipped)
{
	uint8_t b[64] = {1};

	b[1 + 8] = 2;
	(void)put_map(b + 1 + 32 + 8);
	set(b, sizeof b);
	expect_map(read_map(DOTNET_IL_COMPILED));
	memset(b, 0, sizeof b);
	b[0] = 2;
	b[1] = 5;
	(void)put_map(b + 1 + 4 + 5);
	set(b, sizeof b);
	expect_map(read_map(DOTNET_IL_COMPILED));
	b[0] = 4;
	set(b, sizeof b);
	cr_expect_eq(read_map(DOTNET_IL_COMPILED), -ENOTSUP);
	b[0] = 1;
	memset(b + 1, 0xff, 40);
	set(b, sizeof b);
	cr_expect_eq(read_map(DOTNET_IL_COMPILED), -ENOTSUP);
}

/* What the runtime of .NET 10.0.9 had of L.F, whose bytecode is "for (…) s += i * i % 7". */
Test(dotnet_il_map, packed)
{
	static const struct dotnet_il_place wanted[] = {
		{0, DOTNET_IL_PROLOGUE}, {17, 18}, {21, 6}, {66, 14}, {68, 18}, {72, 22},
		{74, DOTNET_IL_EPILOGUE}};
	static const uint8_t plain[] = {0x00, 0x69, 0x69, 0x57, 0x04, 0x02, 0xc1, 0xa8,
					0x4a, 0x24, 0xdb, 0xa8, 0x50, 0x25, 0xb2, 0x02};
	uint8_t patched[64] = {1};

	set(plain, sizeof plain);
	cr_assert_eq(read_map(DOTNET_IL_COMPILED | DOTNET_IL_PACKED), 0);
	cr_assert_eq(map.n, ARRAY_SIZE(wanted), "%u", map.n);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		cr_expect_eq(map.v[i].native, wanted[i].native, "%zu: %u", i, map.v[i].native);
		cr_expect_eq(map.v[i].il, wanted[i].il, "%zu: %u", i, map.v[i].il);
	}
	patched[1 + 16] = 1;
	memcpy(patched + 1 + 40 + 4, plain + 1, sizeof plain - 1);
	set(patched, sizeof patched);
	cr_assert_eq(read_map(DOTNET_IL_COMPILED | DOTNET_IL_PACKED), 0);
	cr_expect_eq(map.n, ARRAY_SIZE(wanted));
}

/* One place: of 0x12 from 0 on, in 1 and 5 bits, behind 2 that say why it is listed. */
Test(dotnet_il_map, of_rewritten_bytecode_the_files_map)
{
	struct half_bytes h = {.n = 0}, place = {.n = 0};

	put_number(&h, 0xffffffff); /* two maps */
	put_number(&h, 3);	    /* bytes of the one that is not wanted */
	put_number(&h, 3);
	put_number(&h, 0);
	h.n += h.n % 2;
	memset(h.bytes + h.n / 2, 0xee, 3);
	put_number(&place, 1);
	put_number(&place, 0);
	put_number(&place, 4);
	memcpy(h.bytes + h.n / 2 + 3, place.bytes, 2);
	h.bytes[h.n / 2 + 5] = 0x15 << 3;
	set(h.bytes, sizeof h.bytes);
	cr_assert_eq(read_map(DOTNET_IL_PACKED), 0);
	cr_assert_eq(map.n, 1);
	cr_expect_eq(map.v[0].il, 0x12, "%#x", map.v[0].il);
}

Test(dotnet_il_map, none_and_damaged)
{
	struct half_bytes h = {.n = 0};

	set("\0\0\0", 3);
	cr_expect_eq(read_map(DOTNET_IL_COMPILED), 0);
	cr_expect_eq(map.n, 0);
	memset(bytes, 0xff, sizeof bytes); /* a number without end */
	cr_expect_eq(read_map(0), -ENOTSUP);
	cr_expect_eq(map.n, 0);
	put_number(&h, 3); /* more places than there may be */
	put_number(&h, 0);
	put_number(&h, DOTNET_IL_PLACES_MAX + 1);
	set(h.bytes, sizeof h.bytes);
	cr_expect_eq(read_map(0), -ENOTSUP);
}
