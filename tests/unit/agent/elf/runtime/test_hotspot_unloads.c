// SPDX-License-Identifier: Apache-2.0
/* How many classes a HotSpot has unloaded, by its performance counters. */
#include "agent/elf/runtime/hotspot_unloads.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/runtime/vm_memory.h"

#define BASE 0x7f0000000000ull
#define BYTES 0x3000u
#define START 0x10u /* the pointer to the counters */
#define COUNTERS 0x1000u

struct counters {
	uint8_t bytes[BYTES];
	uint32_t end;
	struct vm_memory *memory;
};

static int read_page(void *to, uint64_t address, void *data)
{
	const struct counters *c = data;

	if (address < BASE || address >= BASE + BYTES)
		return -EFAULT;
	memcpy(to, c->bytes + (address - BASE), VM_PIECE_BYTES);
	return 0;
}

static void put(struct counters *c, uint32_t at, uint64_t value, unsigned bytes)
{
	memcpy(c->bytes + at, &value, bytes);
}

static void free_counters(struct counters *c)
{
	free(c->memory);
}

#define _cleanup_counters_ _cleanup_(free_counters)

static void init(struct counters *c)
{
	memset(c, 0, sizeof *c);
	c->memory = calloc(1, sizeof *c->memory);
	cr_assert_not_null(c->memory);
	c->memory->read = read_page;
	c->memory->data = c;
	put(c, START, BASE + COUNTERS, 8);
	put(c, COUNTERS, 0xc0c0feca, 4); /* ca fe c0 c0 */
	put(c, COUNTERS + 4, 0x01000201, 4);
	put(c, COUNTERS + 24, 32, 4); /* where the entries begin */
	c->end = COUNTERS + 32;
}

/* Returns the offset of the value. */
static uint32_t add(struct counters *c, const char *name, char type, uint64_t value)
{
	const uint32_t at = c->end, data = (20 + (uint32_t)strlen(name) + 1 + 7) & ~7u;
	uint32_t n;

	put(c, at, data + 8, 4);
	put(c, at + 4, 20, 4);
	put(c, at + 12, (uint8_t)type, 1);
	put(c, at + 16, data, 4);
	strcpy((char *)c->bytes + at + 20, name);
	put(c, at + data, value, 8);
	memcpy(&n, c->bytes + COUNTERS + 28, 4);
	put(c, COUNTERS + 28, n + 1, 4);
	c->end = at + data + 8;
	return at + data;
}

static struct hotspot_unloads find(struct counters *c)
{
	struct hotspot_unloads u;

	memset(c->memory->pages, 0, sizeof c->memory->pages);
	hotspot_unloads_find(&u, c->memory, BASE + START);
	return u;
}

Test(hotspot_unloads, counts_both)
{
	_cleanup_counters_ struct counters c;
	struct hotspot_unloads u;
	uint32_t own;

	init(&c);
	(void)add(&c, "sun.rt.createVmEndTime", 'J', 99);
	(void)add(&c, "java.property.java.version", 'B', 1);
	own = add(&c, "java.cls.unloadedClasses", 'J', 40);
	(void)add(&c, "java.cls.sharedUnloadedClasses", 'J', 2);
	u = find(&c);
	cr_expect_eq(u.own, BASE + own);
	cr_expect_eq(hotspot_unloads_read(&u, c.memory), 43);
	put(&c, own, 41, 8);
	cr_expect_eq(hotspot_unloads_read(&u, c.memory), 44, "it is read anew");
}

Test(hotspot_unloads, there_are_none)
{
	_cleanup_counters_ struct counters c;
	struct hotspot_unloads u;

	init(&c);
	(void)add(&c, "java.cls.unloadedClasses", 'J', 40);
	u = find(&c);
	cr_expect_eq(hotspot_unloads_read(&u, c.memory), 0, "one of them is missing");
	(void)add(&c, "java.cls.sharedUnloadedClasses", 'B', 2);
	u = find(&c);
	cr_expect_eq(u.shared, 0, "no number");
	put(&c, START, 0, 8);
	u = find(&c);
	cr_expect_eq(u.own, 0, "-XX:-UsePerfData");
	put(&c, START, BASE + BYTES, 8);
	u = find(&c);
	cr_expect_eq(u.own, 0);
}

Test(hotspot_unloads, what_is_not_as_it_should_be)
{
	_cleanup_counters_ struct counters c;
	struct hotspot_unloads u;
	uint32_t own;

	init(&c);
	own = add(&c, "java.cls.unloadedClasses", 'J', 40);
	(void)add(&c, "java.cls.sharedUnloadedClasses", 'J', 2);
	u = find(&c);
	cr_expect_neq(u.shared, 0);
	put(&c, COUNTERS, 0, 4);
	u = find(&c);
	cr_expect_eq(u.own, 0, "another format");
	put(&c, COUNTERS, 0xc0c0feca, 4);
	put(&c, COUNTERS + 32, 0, 4);
	u = find(&c);
	cr_expect_eq(u.shared, 0, "an entry without length");
	put(&c, COUNTERS + 32, BYTES, 4);
	u = find(&c);
	cr_expect_eq(u.shared, 0, "behind the memory");
	u = (struct hotspot_unloads){BASE + own, BASE + VM_PIECE_BYTES - 4};
	cr_expect_eq(hotspot_unloads_read(&u, c.memory), 0, "across a page");
}
