// SPDX-License-Identifier: Apache-2.0
/* The BPF program on the running kernel. Skipped, with the reason, where it may not be loaded. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/probe/probe.h"

DEFINE_CLEANUP(struct probe *, probe_free)
#define _cleanup_probe_ _cleanup_(probe_free_p)

static const struct probe_options options = {.frequency_hz = 499, .user_frames = 128, .max_segments = 2};

static struct probe *load_with(const struct probe_options *o)
{
	_cleanup_free_ char *log = NULL;
	struct probe *p = NULL;
	int r = probe_new(&p, o, &log);

	if (r == 0)
		r = probe_loaded(p, &log);
	if (r == -EPERM || r == -EACCES || r == -ENOSYS || r == -EKEYREJECTED)
		cr_skip_test("BPF is not permitted: %s", strerror(-r));
	cr_assert_eq(r, 0, "%s: %s", strerror(-r), log ?: "");
	return p;
}

static struct probe *load_or_skip(void)
{
	return load_with(&options);
}

static void attach_or_skip(struct probe *p)
{
	int r = probe_attach(p);

	if (r == -EPERM || r == -EACCES || r == -ENOENT)
		cr_skip_test("perf events on every CPU are not permitted: %s", strerror(-r));
	cr_assert_eq(r, 0, "%s", strerror(-r));
}

Test(probe, segments)
{
	_cleanup_probe_ struct probe *p = load_or_skip();
	size_t bytes = probe_map_bytes(p);
	uint8_t *first = NULL, *second = NULL;
	void *third = NULL;

	cr_assert_eq(probe_segment_new(p, 0, (void **)&first), 0);
	cr_assert_eq(probe_segment_new(p, 1, (void **)&second), 0);
	cr_expect_eq(probe_segment_new(p, 2, &third), -ENOSPC);
	cr_expect_null(third);
	for (size_t i = 0; i < SEGMENT_VALUE; i += 4096)
		cr_assert_eq(first[i], 0);
	memset(first, 1, SEGMENT_VALUE);
	cr_expect_eq(second[0], 0);
	cr_expect_geq(probe_map_bytes(p), bytes + 2ull * SEGMENT_VALUE);
	cr_expect_str_eq(probe_event_name(p), "none");
}

struct samples {
	uint32_t pid;
	unsigned n, of_pid, with_stack, bad;
	struct sample_record last;
};

static void on_sample(const void *record, size_t len, void *data)
{
	struct samples *s = data;
	struct saved_stack saved;
	struct sample_record r;
	size_t want = sizeof r;

	s->n++;
	if (len < want) {
		s->bad++;
		return;
	}
	memcpy(&r, record, sizeof r);
	want += 8ull * (r.n_kernel + r.n_user);
	if (r.flags & SAMPLE_SAVED_STACK && len >= want + sizeof saved) {
		memcpy(&saved, (const uint8_t *)record + want, sizeof saved);
		want += sizeof saved + saved.stack_bytes;
		s->with_stack++;
	}
	s->bad += r.ending >= ENDINGS || len != want || r.n_user > 128 || r.n_kernel > KERNEL_FRAMES_MAX ||
		  r.origin != ORIGIN_CPU || r.value != 1 || r.flags & SAMPLE_CONTEXT;
	if (r.pid != s->pid)
		return;
	s->of_pid++;
	s->last = r;
}

/*
 * Samples of this thread during a second of CPU time. Where others want its CPU, it is chance whether a
 * sample meets this thread: of so many, three in ten are more than four times the standard deviation.
 */
#define RATE_SAMPLES 200

static double rate_of(struct probe *p, struct samples *s, uint32_t frequency_hz)
{
	uint64_t begin = clock_thread_cpu_ns(), end = begin + RATE_SAMPLES * NS_PER_SEC / frequency_hz, now;
	unsigned before;

	while (probe_ring_drain(p, on_sample, s) > 0)
		;
	before = s->of_pid;
	do {
		cr_assert_geq(probe_ring_drain(p, on_sample, s), 0);
		now = clock_thread_cpu_ns();
	} while (now < end);
	while (probe_ring_drain(p, on_sample, s) > 0)
		;
	return (s->of_pid - before) / ((double)(now - begin) / (double)NS_PER_SEC);
}

/* The frequency may be increased, too; the clocks of the CPUs start anew each time. */
Test(probe, frequency)
{
	static const uint32_t frequencies[] = {499, 107, 997, 211};
	_cleanup_probe_ struct probe *p = load_or_skip();
	struct samples s = {.pid = (uint32_t)getpid()};
	void *segment;

	if (getenv("EMULATED"))
		cr_skip_test("an emulated CPU keeps no rate");
	cr_assert_eq(probe_segment_new(p, 0, &segment), 0);
	attach_or_skip(p);
	for (size_t i = 0; i < ARRAY_SIZE(frequencies); i++) {
		double rate;

		cr_assert_eq(probe_set_frequency(p, frequencies[i]), 0);
		rate = rate_of(p, &s, frequencies[i]);
		cr_expect(rate > 0.7 * frequencies[i] && rate < 1.4 * frequencies[i], "%u Hz: %.0f",
			  frequencies[i], rate);
	}
	cr_expect_eq(s.bad, 0);
}

/*
 * This process is busy, but not in the process table: its samples end for that reason, with the right pid,
 * thread and time.
 */
Test(probe, samples)
{
	_cleanup_probe_ struct probe *p = load_or_skip();
	struct samples s = {.pid = (uint32_t)getpid()};
	uint64_t begin = clock_mono_ns();
	struct probe_sums sums;
	void *segment;
	int r = 0;

	cr_assert_eq(probe_segment_new(p, 0, &segment), 0);
	attach_or_skip(p);
	cr_expect(strcmp(probe_event_name(p), "cycles") == 0 ||
		  strcmp(probe_event_name(p), "cpu-clock") == 0);
	while (s.of_pid < 5 && r >= 0 && clock_mono_ns() < begin + 120 * NS_PER_SEC)
		r = probe_ring_drain(p, on_sample, &s);
	cr_assert_geq(r, 0);
	cr_assert_geq(s.of_pid, 5);
	cr_expect_eq(s.bad, 0);
	cr_expect_eq(s.last.ending, ENDING_NO_PROCESS);
	cr_expect_eq(s.last.tid, (uint32_t)syscall(SYS_gettid));
	cr_expect_eq(s.last.n_user, 0);
	cr_expect(s.last.flags & SAMPLE_SAVED_STACK, "its registers and stack come along");
	cr_expect(s.last.time_ns >= begin && s.last.time_ns <= clock_mono_ns());
	cr_expect_lt(s.last.cpu, probe_cpus(p));

	/* Every sample that was taken has arrived or is counted. */
	probe_detach(p);
	while (probe_ring_drain(p, on_sample, &s) > 0)
		;
	cr_assert_eq(probe_sums(p, &sums), 0);
	cr_expect(sums.cpu_ns > 0 && sums.cpu_ns < (clock_mono_ns() - begin) * probe_cpus(p),
		  "%llu ns in the kernel", (unsigned long long)sums.cpu_ns);
	cr_expect_eq(sums.counters[COUNTER_TAKEN],
		     s.n + sums.counters[COUNTER_NOT_SELECTED] + sums.counters[COUNTER_RING_FULL] +
			     sums.counters[COUNTER_NO_PID],
		     "%llu taken, %u came", (unsigned long long)sums.counters[COUNTER_TAKEN], s.n);
}

#define WITHOUT_STACK 50

/*
 * The ring is not read, so half of it is soon full of stacks: further samples come without them, and none
 * is lost.
 */
Test(probe, ring_pressure)
{
	struct probe_options o = options;
	_cleanup_probe_ struct probe *p = NULL;
	struct samples s = {.pid = (uint32_t)getpid()};
	uint64_t begin = clock_thread_cpu_ns();
	struct probe_sums sums;
	void *segment;

	o.ring_bytes = 1 << 18;
	p = load_with(&o);
	cr_assert_eq(probe_segment_new(p, 0, &segment), 0);
	attach_or_skip(p);
	do { /* no longer than it takes: other busy programs fill the ring, too */
		cr_assert_eq(probe_sums(p, &sums), 0);
	} while (sums.ring_pressure < WITHOUT_STACK && clock_thread_cpu_ns() < begin + 60 * NS_PER_SEC);
	probe_detach(p);
	while (probe_ring_drain(p, on_sample, &s) > 0)
		;
	cr_assert_eq(probe_sums(p, &sums), 0);
	cr_expect_geq(s.n, WITHOUT_STACK);
	cr_expect_eq(s.bad, 0);
	cr_expect_gt(s.with_stack, 0);
	cr_expect_eq(sums.counters[COUNTER_RING_FULL], 0);
	cr_expect(sums.ring_pressure > 0 && sums.ring_pressure <= s.n - s.with_stack,
		  "%llu without their stacks, by its own word; of %u that came %u had one",
		  (unsigned long long)sums.ring_pressure, s.n, s.with_stack);
}
