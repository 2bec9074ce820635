// SPDX-License-Identifier: Apache-2.0
/*
 * Tests how the side-band loses records: damaged ones, those for which there is no memory, those that the
 * kernel could not write. The rings are plain memory that the test fills, so no permission is needed.
 * Includes the source to let its allocations fail.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/base/array.h"
#include "agent/base/buf.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"

static struct {
	bool append, reserve;
} fails;

static int failing_append(struct buf *b, const void *data, size_t len)
{
	return fails.append ? -ENOMEM : buf_append(b, data, len);
}

static int failing_reserve(void *items, size_t *cap, size_t n, size_t size)
{
	return fails.reserve ? -ENOMEM : array_reserve(items, cap, n, size);
}

#define buf_append failing_append
#define array_reserve failing_reserve
#include "agent/probe/sideband.c"
#undef buf_append
#undef array_reserve

DEFINE_CLEANUP(struct sideband *, sideband_free)
#define _cleanup_sideband_ _cleanup_(sideband_free_p)

#define RING_BYTES 65536u
#define PAGE_BYTES 4096u
#define PID 77u

static struct sideband *with_rings(unsigned n)
{
	struct sideband_ring rings[4] = {{0}};
	struct sideband *s = NULL;

	for (unsigned i = 0; i < n; i++) {
		rings[i] = (struct sideband_ring){.fd = -1, .cpu = (int)i, .bytes = RING_BYTES};
		rings[i].page = mmap(NULL, RING_BYTES + PAGE_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		cr_assert_neq(rings[i].page, MAP_FAILED);
		rings[i].data = (const uint8_t *)rings[i].page + PAGE_BYTES;
	}
	cr_assert_eq(sideband_new_of_rings(&s, rings, n), 0);
	return s;
}

static void put(struct sideband *s, unsigned ring, const void *record, size_t len)
{
	const struct sideband_ring *r = &s->rings[ring];
	size_t at = r->page->data_head & (RING_BYTES - 1), first = RING_BYTES - at;

	memcpy((uint8_t *)r->data + at, record, len < first ? len : first);
	if (len > first)
		memcpy((uint8_t *)r->data, (const uint8_t *)record + first, len - first);
	r->page->data_head += len;
}

struct exit_record {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
	uint32_t by_pid, by_tid;
	uint64_t time_ns;
};

static void put_exit(struct sideband *s, unsigned ring, uint32_t tid, uint64_t time_ns, uint16_t size)
{
	struct exit_record e = {.header = {.type = PERF_RECORD_EXIT, .size = size},
				.pid = PID,
				.tid = tid,
				.time_ns = time_ns};

	put(s, ring, &e, sizeof e);
}

#define WHOLE (uint16_t)sizeof(struct exit_record)

struct seen {
	unsigned n, n_lost;
	uint32_t tids[16];
	struct sideband_event lost[4];
};

static void on_event(const struct sideband_event *e, void *data)
{
	struct seen *seen = data;

	if (e->kind == SIDEBAND_LOST)
		seen->lost[seen->n_lost++] = *e;
	else
		seen->tids[seen->n++] = e->tid;
}

static struct seen drain(struct sideband *s)
{
	struct seen seen = {0};

	cr_expect_eq(sideband_drain(s, on_event, &seen), (int)(seen.n + seen.n_lost));
	return seen;
}

static void expect_lost(const struct seen *seen, enum sideband_loss reason, uint64_t n)
{
	cr_assert_eq(seen->n_lost, 1);
	cr_expect_eq(seen->lost[0].loss, reason);
	cr_expect_eq(seen->lost[0].n_lost, n);
	cr_expect_str_eq(seen->lost[0].name, "");
}

static void expect_total(const struct sideband *s, enum sideband_loss reason, uint64_t n)
{
	uint64_t lost[SIDEBAND_LOSSES_N];

	sideband_lost(s, lost);
	for (int i = 0; i < SIDEBAND_LOSSES_N; i++)
		cr_expect_eq(lost[i], i == (int)reason ? n : 0, "%s",
			     sideband_loss_text((enum sideband_loss)i));
}

Test(sideband_loss, nothing_is_lost)
{
	_cleanup_sideband_ struct sideband *s = with_rings(2);
	struct seen seen;

	put_exit(s, 1, 2, 200, WHOLE);
	put_exit(s, 0, 1, 100, WHOLE);
	put_exit(s, 0, 3, 300, WHOLE);
	seen = drain(s);
	cr_assert_eq(seen.n, 3);
	cr_expect(seen.tids[0] == 1 && seen.tids[1] == 2 && seen.tids[2] == 3, "by time, over both rings");
	cr_expect_eq(seen.n_lost, 0);
}

/* The beginning of the ring's next record is unknown, so that ring is skipped. The other rings are read. */
Test(sideband_loss, record_of_no_length)
{
	_cleanup_sideband_ struct sideband *s = with_rings(2);
	struct seen seen;

	put_exit(s, 0, 1, 100, WHOLE);
	put_exit(s, 0, 2, 200, 3);
	put_exit(s, 0, 3, 300, WHOLE);
	put_exit(s, 1, 4, 400, WHOLE);
	seen = drain(s);
	cr_assert_eq(seen.n, 2);
	cr_expect(seen.tids[0] == 1 && seen.tids[1] == 4);
	expect_lost(&seen, SIDEBAND_LOSS_BAD_RECORD, 1);
	put_exit(s, 0, 5, 500, WHOLE);
	seen = drain(s);
	cr_expect(seen.n == 1 && seen.tids[0] == 5, "the ring goes on behind the damage");
	cr_expect_eq(seen.n_lost, 0, "a loss is reported once");
	expect_total(s, SIDEBAND_LOSS_BAD_RECORD, 1);
}

Test(sideband_loss, record_longer_than_what_waits)
{
	_cleanup_sideband_ struct sideband *s = with_rings(1);
	struct seen seen;

	put_exit(s, 0, 1, 100, WHOLE + 8);
	seen = drain(s);
	cr_expect_eq(seen.n, 0);
	expect_lost(&seen, SIDEBAND_LOSS_BAD_RECORD, 1);
}

/* A record with the right length and invalid content: a mapping without a name. */
Test(sideband_loss, record_that_does_not_decode)
{
	_cleanup_sideband_ struct sideband *s = with_rings(1);
	struct exit_record e = {
		.header = {.type = PERF_RECORD_MMAP2, .size = WHOLE}, .pid = PID, .time_ns = 50};
	struct seen seen;

	put(s, 0, &e, sizeof e);
	put_exit(s, 0, 1, 100, WHOLE);
	seen = drain(s);
	cr_expect(seen.n == 1 && seen.tids[0] == 1);
	expect_lost(&seen, SIDEBAND_LOSS_BAD_RECORD, 1);
}

Test(sideband_loss, no_memory_for_a_record)
{
	_cleanup_sideband_ struct sideband *s = with_rings(1);
	struct seen seen;

	put_exit(s, 0, 1, 100, WHOLE);
	fails.append = true;
	seen = drain(s);
	fails.append = false;
	cr_expect_eq(seen.n, 0);
	expect_lost(&seen, SIDEBAND_LOSS_NO_MEMORY, 1);
	put_exit(s, 0, 2, 200, WHOLE);
	seen = drain(s);
	cr_expect(seen.n == 1 && seen.tids[0] == 2 && !seen.n_lost);
	expect_total(s, SIDEBAND_LOSS_NO_MEMORY, 1);
}

/* No memory before a record is taken out of a ring: nothing is lost, and the next drain has all records. */
Test(sideband_loss, no_memory_to_begin)
{
	_cleanup_sideband_ struct sideband *s = with_rings(1);
	struct seen seen = {0};

	put_exit(s, 0, 1, 100, WHOLE);
	fails.reserve = true;
	cr_expect_eq(sideband_drain(s, on_event, &seen), -ENOMEM);
	fails.reserve = false;
	cr_expect(sideband_pending(s));
	seen = drain(s);
	cr_expect(seen.n == 1 && seen.tids[0] == 1 && !seen.n_lost);
}

/*
 * A record younger than the drain is held for the next one. Without memory to hold it, it is reported
 * too early.
 */
Test(sideband_loss, no_memory_to_hold_a_record_back)
{
	_cleanup_sideband_ struct sideband *s = with_rings(1);
	struct seen seen;

	put_exit(s, 0, 1, clock_mono_ns() + 3600 * NS_PER_SEC, WHOLE);
	seen = drain(s);
	cr_expect(!seen.n && !seen.n_lost);
	cr_expect(sideband_pending(s));
	fails.append = true;
	seen = drain(s);
	fails.append = false;
	cr_expect(seen.n == 1 && seen.tids[0] == 1);
	expect_lost(&seen, SIDEBAND_LOSS_NO_MEMORY, 1);
}

Test(sideband_loss, overflow_in_the_kernel)
{
	_cleanup_sideband_ struct sideband *s = with_rings(1);
	struct {
		struct perf_event_header header;
		uint64_t id, n;
		uint32_t by_pid, by_tid;
		uint64_t time_ns;
	} lost = {.header = {.type = PERF_RECORD_LOST, .size = sizeof lost}, .n = 42, .time_ns = 150};
	struct seen seen;

	put_exit(s, 0, 1, 100, WHOLE);
	put(s, 0, &lost, sizeof lost);
	put_exit(s, 0, 2, 200, WHOLE);
	seen = drain(s);
	cr_expect_eq(seen.n, 2);
	expect_lost(&seen, SIDEBAND_LOSS_OVERFLOW, 42);
	expect_total(s, SIDEBAND_LOSS_OVERFLOW, 42);
	seen = drain(s);
	cr_expect_eq(seen.n_lost, 0);
}

/* A skipped ring is read again from its start: its damage is counted once. */
Test(sideband_loss, damage_beside_ignored_mappings)
{
	_cleanup_sideband_ struct sideband *s = with_rings(2);
	struct seen seen;

	sideband_ignore(s, PID, 4096, 8192);
	put_exit(s, 0, 1, 100, 3);
	put_exit(s, 1, 2, 200, WHOLE); /* ends the ignoring */
	seen = drain(s);
	cr_expect(seen.n == 1 && seen.tids[0] == 2);
	expect_lost(&seen, SIDEBAND_LOSS_BAD_RECORD, 1);
}

/* Records wrap around the end of the ring; an interrupt's record is in the middle of an older one. */
Test(sideband_loss, order_over_the_end_of_a_ring)
{
	_cleanup_sideband_ struct sideband *s = with_rings(2);
	struct seen seen;

	for (uint32_t round = 0; round < 1000; round++) {
		put_exit(s, 0, 3, 3 + 10 * round, WHOLE);
		put_exit(s, 0, 1, 1 + 10 * round, WHOLE);
		put_exit(s, 1, 2, 2 + 10 * round, WHOLE);
		seen = drain(s);
		cr_assert(seen.n == 3 && seen.tids[0] == 1 && seen.tids[1] == 2 && seen.tids[2] == 3,
			  "round %u", round);
		cr_assert_eq(seen.n_lost, 0);
	}
}
