// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/sample/aggregate.h"

struct owner {
	int refs;
};

static void hold(void *owner)
{
	((struct owner *)owner)->refs++;
}

static void release(void *owner)
{
	((struct owner *)owner)->refs--;
}

DEFINE_CLEANUP(struct sample_aggregate *, sample_aggregate_free)
#define _cleanup_aggregate_ _cleanup_(sample_aggregate_free_p)

static struct sample_aggregate *aggregate_new(size_t max_bytes, bool by_cpu)
{
	struct sample_aggregate *a;

	cr_assert_eq(sample_aggregate_new(&a, max_bytes, by_cpu, hold, release), 0);
	return a;
}

static const uint64_t stack_a[] = {1, 2, 3}, stack_b[] = {1, 2, 4};

static int add(struct sample_aggregate *a, struct owner *o, uint32_t tid, uint16_t cpu,
	       const uint64_t *frames, uint64_t time_ns)
{
	const struct sample_view v = {.tid = tid,
				      .cpu = cpu,
				      .time_ns = time_ns,
				      .value = 1,
				      .n_kernel = 1,
				      .n_user = 2,
				      .frames = frames};

	return sample_aggregate_add(a, o, "main", &v);
}

static size_t entries(const struct sample_aggregate *a)
{
	size_t n = 0;

	for (const struct sample_entry *e = sample_aggregate_entries(a); e; e = e->next)
		n++;
	return n;
}

Test(aggregate, equal_samples_share_an_entry)
{
	_cleanup_aggregate_ struct sample_aggregate *a = aggregate_new(1 << 20, false);
	struct owner one = {0}, two = {0};
	const struct sample_entry *e;

	for (uint64_t t = 0; t < 100; t++)
		cr_assert_eq(add(a, &one, 5, (uint16_t)t, stack_a, 1000 + t), 0);
	cr_expect_eq(entries(a), 1);
	e = sample_aggregate_entries(a);
	cr_expect_eq(e->n, 100);
	for (uint32_t t = 0; t < 100; t++)
		cr_expect_eq(e->times_ns[t], 1000 + t);
	cr_expect_eq(e->stack->frames[2], 3);
	cr_assert_eq(add(a, &one, 6, 0, stack_a, 1), 0); /* another thread */
	cr_assert_eq(add(a, &two, 5, 0, stack_a, 1), 0); /* another process */
	cr_assert_eq(add(a, &one, 5, 0, stack_b, 1), 0); /* another stack */
	cr_expect_eq(entries(a), 4);
	cr_expect_eq(sample_aggregate_stacks(a), 2);
	cr_expect_eq(sample_aggregate_samples(a), 103);
	cr_expect_eq(one.refs, 3, "one reference an entry");
	cr_expect_eq(two.refs, 1);
	sample_aggregate_clear(a);
	cr_expect_eq(one.refs + two.refs, 0);
	cr_expect_null(sample_aggregate_entries(a));
	cr_expect_eq(sample_aggregate_samples(a), 0);
}

Test(aggregate, the_same_frames_split_or_ended_otherwise_are_another_stack)
{
	_cleanup_aggregate_ struct sample_aggregate *a = aggregate_new(1 << 20, false);
	struct owner one = {0};
	struct sample_view v = {.tid = 1, .n_kernel = 1, .n_user = 2, .frames = stack_a};

	cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
	v.n_kernel = 2;
	v.n_user = 1;
	cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
	v.ending = ENDING_READ_FAULT;
	cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
	cr_expect_eq(sample_aggregate_stacks(a), 3);
	v.ending = ENDING_RUNTIME;
	for (uint32_t reason = 0; reason < 2; reason++) {
		v.ending_detail = ending_detail(RUNTIME_PHP, reason);
		cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
	}
	cr_expect_eq(sample_aggregate_stacks(a), 5, "by the reason, too");
}

Test(aggregate, a_thread_that_is_renamed_has_another_entry)
{
	static const struct {
		const char *name;
		size_t entries;
	} cases[] = {{"worker", 1}, {"worker-1", 2},	    {"worker", 2},
		     {"", 3},	    {"a name of 15 by", 4}, {"a name of 15 bytes and more", 4}};
	_cleanup_aggregate_ struct sample_aggregate *a = aggregate_new(1 << 20, false);
	const struct sample_view v = {.tid = 1, .n_kernel = 1, .n_user = 2, .frames = stack_a};
	struct owner one = {0};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cr_assert_eq(sample_aggregate_add(a, &one, cases[i].name, &v), 0);
		cr_expect_eq(entries(a), cases[i].entries, "%s", cases[i].name);
	}
	cr_expect_str_eq(sample_aggregate_entries(a)->thread, "worker");
}

Test(aggregate, by_cpu)
{
	_cleanup_aggregate_ struct sample_aggregate *a = aggregate_new(1 << 20, true);
	struct owner one = {0};

	cr_assert_eq(add(a, &one, 5, 1, stack_a, 1), 0);
	cr_assert_eq(add(a, &one, 5, 2, stack_a, 1), 0);
	cr_assert_eq(add(a, &one, 5, 1, stack_a, 2), 0);
	cr_expect_eq(entries(a), 2);
	cr_expect_eq(sample_aggregate_entries(a)->cpu, 1);
}

Test(aggregate, origins_are_apart)
{
	_cleanup_aggregate_ struct sample_aggregate *a = aggregate_new(1 << 20, false);
	struct sample_view v = {.tid = 1, .value = 1, .n_kernel = 1, .n_user = 2, .frames = stack_a};
	const struct sample_entry *e;
	struct owner one = {0};

	cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
	v.origin = ORIGIN_OFF_CPU;
	v.value = 500;
	cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
	v.origin = ORIGIN_EVENT_FIRST;
	cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
	cr_assert_eq(entries(a), 3);
	cr_expect_eq(sample_aggregate_stacks(a), 1, "the stack is shared");
	e = sample_aggregate_entries(a);
	cr_expect_eq(e->origin, ORIGIN_CPU);
	cr_expect_eq(e->value, 1);
	cr_expect_null(e->values);
	e = e->next;
	cr_expect_eq(e->origin, ORIGIN_OFF_CPU);
	cr_expect_eq(e->value, 500);
	cr_expect_eq(e->values[0], 500);
}

/* Once a value differs from 1, each sample's value is stored, and every growth preserves them. */
Test(aggregate, values_add_up)
{
	for (uint64_t ones = 0; ones < 10; ones++) {
		_cleanup_aggregate_ struct sample_aggregate *a = aggregate_new(1 << 20, false);
		struct sample_view v = {.tid = 1, .n_kernel = 1, .n_user = 2, .frames = stack_a};
		const struct sample_entry *e;
		struct owner one = {0};
		uint64_t sum = 0;

		for (uint64_t i = 0; i < 40; i++) {
			v.time_ns = 100 + i;
			v.value = i < ones ? 1 : i * i;
			sum += v.value;
			cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
		}
		cr_assert_eq(entries(a), 1);
		e = sample_aggregate_entries(a);
		cr_expect_eq(e->value, sum);
		cr_assert_eq(e->n, 40);
		for (uint64_t i = 0; i < 40; i++) {
			cr_expect_eq(e->times_ns[i], 100 + i);
			cr_expect_eq(e->values[i], i < ones ? 1 : i * i);
		}
	}
}

Test(aggregate, contexts_are_apart)
{
	_cleanup_aggregate_ struct sample_aggregate *a = aggregate_new(1 << 20, false);
	struct sample_view v = {.tid = 1, .value = 1, .n_kernel = 1, .n_user = 2, .frames = stack_a};
	struct sample_context context = {.trace_id = {1}, .span_id = {1}};
	const struct sample_entry *e;
	struct owner one = {0};

	cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
	v.context = &context;
	for (uint8_t span = 1; span <= 3; span++) {
		context.span_id[0] = span;
		for (int i = 0; i < 5; i++)
			cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
	}
	cr_assert_eq(entries(a), 4);
	e = sample_aggregate_entries(a);
	cr_expect_null(e->context);
	for (uint8_t span = 1; span <= 3; span++) {
		e = e->next;
		cr_assert_not_null(e->context);
		cr_expect_eq(e->context->span_id[0], span, "a copy");
		cr_expect_eq(e->n, 5);
	}
}

Test(aggregate, tasks_are_apart)
{
	_cleanup_aggregate_ struct sample_aggregate *a = aggregate_new(1 << 20, false);
	static const char *const names[] = {NULL, "one", "two", "one", NULL};
	struct sample_context context = {.trace_id = {1}, .span_id = {1}};
	struct sample_view v = {.tid = 1, .value = 1, .n_kernel = 1, .n_user = 2, .frames = stack_a};
	const struct sample_entry *e;
	struct owner o = {0};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char name[8] = "";

		v.task_name = names[i] ? strcpy(name, names[i]) : NULL;
		cr_assert_eq(sample_aggregate_add(a, &o, "main", &v), 0);
	}
	cr_expect_eq(entries(a), 3);
	e = sample_aggregate_entries(a);
	cr_expect(!e->task && e->n == 2);
	cr_expect_str_eq(e->next->task, "one", "a copy");
	cr_expect_eq(e->next->n, 2);
	v.context = &context;
	v.task_name = "one";
	cr_assert_eq(sample_aggregate_add(a, &o, "main", &v), 0);
	e = e->next->next->next;
	cr_assert_not_null(e);
	cr_expect_str_eq(e->task, "one");
	cr_expect_eq(e->context->span_id[0], 1);
}

Test(aggregate, full_refuses_and_keeps_what_it_has)
{
	_cleanup_aggregate_ struct sample_aggregate *a = aggregate_new(4096, false);
	struct owner one = {0};
	uint64_t taken = 0, frames[3] = {0};
	int r = 0;

	for (; taken < 1000; taken++) {
		frames[0] = taken;
		r = add(a, &one, 1, 0, frames, taken);
		if (r < 0)
			break;
	}
	cr_expect_eq(r, -ENOSPC);
	cr_expect_gt(taken, 10);
	cr_expect_eq(sample_aggregate_samples(a), taken);
	sample_aggregate_clear(a);
	cr_expect_eq(add(a, &one, 1, 0, frames, 1), 0, "there is room again");
}

/* One recursion, of another depth in each sample: one stack. */
Test(aggregate, the_number_of_omitted_frames_does_not_matter)
{
	_cleanup_aggregate_ struct sample_aggregate *a = aggregate_new(1 << 20, false);
	struct owner one = {0};
	const struct sample_stack *stack;

	for (uint64_t n = 1; n < 1000; n++) {
		const uint64_t frames[] = {1, 2, frame_omitted(n), 4};
		const struct sample_view v = {
			.tid = 1, .value = 1, .n_kernel = 1, .n_user = 3, .omitted = 2, .frames = frames};

		cr_assert_eq(sample_aggregate_add(a, &one, "", &v), 0);
		cr_expect_eq(frames[2], frame_omitted(n), "the sample stays as it is");
	}
	cr_expect_eq(sample_aggregate_stacks(a), 1);
	cr_expect_eq(entries(a), 1);
	cr_expect_eq(sample_aggregate_samples(a), 999);
	stack = sample_aggregate_entries(a)->stack;
	cr_expect_eq(stack->frames[1], 2);
	cr_expect_eq(stack->frames[2], frame_omitted(0));
	cr_expect_eq(stack->frames[3], 4);
}
