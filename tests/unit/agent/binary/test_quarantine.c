// SPDX-License-Identifier: Apache-2.0
/* Files that are not read again: what is remembered, of whom, and for how long. */
#include <criterion/criterion.h>

#include "agent/base/clock.h"
#include "agent/binary/quarantine.h"

#define TENANT 7u
#define NEIGHBOUR 8u

static struct quarantine_file file(uint64_t inode)
{
	return (struct quarantine_file){.dev = 1, .inode = inode, .ctime = {.tv_sec = 100, .tv_nsec = 5}};
}

static void add(struct quarantine *q, uint64_t inode, uint64_t tenant, uint64_t now_ns)
{
	const struct quarantine_file f = file(inode);

	quarantine_add(q, &f, BINARY_FOR_TABLE, tenant, now_ns);
}

static unsigned find(const struct quarantine *q, uint64_t inode)
{
	const struct quarantine_file f = file(inode);

	return quarantine_find(q, &f);
}

Test(quarantine, a_file_is_known_by_device_inode_and_ctime)
{
	struct quarantine q;
	struct quarantine_file other;

	quarantine_init(&q);
	add(&q, 1, TENANT, NS_PER_SEC);
	cr_expect_eq(find(&q, 1), BINARY_FOR_TABLE);
	cr_expect_eq(find(&q, 2), 0);
	other = file(1);
	other.dev = 2;
	cr_expect_eq(quarantine_find(&q, &other), 0);
	other = file(1);
	other.ctime.tv_nsec++;
	cr_expect_eq(quarantine_find(&q, &other), 0, "written to since");
	other = file(1);
	quarantine_add(&q, &other, BINARY_FOR_NAMES, NEIGHBOUR, NS_PER_SEC);
	cr_expect_eq(find(&q, 1), BINARY_FOR_TABLE | BINARY_FOR_NAMES);
	cr_expect_eq(q.files.len, 1);
	quarantine_fini(&q);
}

Test(quarantine, pauses_of_a_tenant_double_and_shrink)
{
	struct quarantine q;
	uint64_t now = NS_PER_SEC, before = 0;

	quarantine_init(&q);
	add(&q, 1, TENANT, now);
	add(&q, 2, TENANT, now);
	cr_expect_eq(quarantine_held_until_ns(&q, TENANT), 0, "a broken file or two are no attack");
	for (uint64_t i = 3; i < 10; i++) {
		uint64_t pause;

		add(&q, i, TENANT, now);
		pause = quarantine_held_until_ns(&q, TENANT) - now;
		cr_expect_eq(pause, before ? 2 * before : NS_PER_SEC / 4, "%lu", (unsigned long)i);
		before = pause;
	}
	for (uint64_t i = 10; i < 30; i++)
		add(&q, i, TENANT, now);
	cr_expect_eq(quarantine_held_until_ns(&q, TENANT) - now, 32 * NS_PER_SEC, "no longer");
	cr_expect_eq(quarantine_held_until_ns(&q, NEIGHBOUR), 0);
	add(&q, 29, TENANT, now + NS_PER_SEC);
	cr_expect_eq(quarantine_held_until_ns(&q, TENANT) - now, 32 * NS_PER_SEC, "a file counts once");
	now += 3600 * NS_PER_SEC;
	add(&q, 30, TENANT, now);
	cr_expect_lt(quarantine_held_until_ns(&q, TENANT), now, "an hour later");
	quarantine_fini(&q);
}

Test(quarantine, the_oldest_of_a_tenant_go_first)
{
	struct quarantine q;

	quarantine_init(&q);
	add(&q, 1, NEIGHBOUR, NS_PER_SEC);
	for (uint64_t i = 0; i < 3 * QUARANTINE_OF_A_TENANT; i++)
		add(&q, 100 + i, TENANT, NS_PER_SEC);
	cr_expect_eq(q.files.len, 1 + QUARANTINE_OF_A_TENANT);
	cr_expect_eq(find(&q, 1), BINARY_FOR_TABLE, "a neighbour's stays");
	cr_expect_eq(find(&q, 100), 0);
	cr_expect_eq(find(&q, 99 + 3 * QUARANTINE_OF_A_TENANT), BINARY_FOR_TABLE);
	quarantine_fini(&q);
}

Test(quarantine, no_more_than_its_maximum)
{
	struct quarantine q;

	quarantine_init(&q);
	for (uint64_t i = 0; i < QUARANTINE_MAX + 100; i++)
		add(&q, i, i % 64, NS_PER_SEC);
	cr_expect_eq(q.files.len, QUARANTINE_MAX);
	cr_expect_eq(find(&q, 0), 0, "the oldest");
	cr_expect_eq(find(&q, QUARANTINE_MAX + 99), BINARY_FOR_TABLE);
	cr_expect_leq(q.tenants.len, 63, "tenant 0 is nobody");
	for (uint64_t i = 0; i < QUARANTINE_MAX; i++)
		add(&q, 10000 + i, 1000 + i, NS_PER_SEC);
	cr_expect_eq(q.tenants.len, QUARANTINE_MAX, "a tenant goes with the last of its files");
	quarantine_fini(&q);
}
