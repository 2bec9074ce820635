// SPDX-License-Identifier: Apache-2.0
/* What a window holds, and for how long. */
#include <errno.h>

#include "agent/report/window.h"
#include "fake_machine.h"

static int add(struct window *w, struct process *p, const uint64_t *words, uint16_t n, uint16_t cpu)
{
	const struct sampled_task task = {.process = p, .image = p->image, .thread = "worker"};
	struct sample_view v = machine_sample(p, words, 0, n);

	v.cpu = cpu;
	return window_add(w, &task, &v);
}

static uint32_t refs(const struct machine *m, uint32_t binary)
{
	return binary_registry_get(m->binaries, binary)->refs;
}

Test(window, holds_images_and_binaries_until_it_is_cleared)
{
	_cleanup_machine_ struct machine m;
	struct window w;

	machine_init(&m, 0);
	cr_assert_eq(window_init(&w, m.binaries, 1u << 20, false), 0);
	struct process *p = machine_process(&m, 7);
	uint32_t binary = machine_binary(&m, machine_write(&m, "library", "text", 4));
	const uint64_t words[] = {frame_native(binary, 0x10), frame_anonymous(0x7f0000001000),
				  frame_native(binary, 0x20)};
	unsigned image = p->image->refs;

	cr_assert_eq(add(&w, p, words, 3, 0), 0);
	cr_assert_eq(add(&w, p, words, 3, 0), 0);
	cr_expect_eq(refs(&m, binary), 1, "held once, however many frames and samples are in it");
	cr_expect_eq(p->image->refs, image + 1);
	cr_expect_eq(window_samples(&w), 2);
	cr_expect_gt(window_bytes(&w), sizeof words);
	window_clear(&w);
	cr_expect_eq(refs(&m, binary), 0);
	cr_expect_eq(p->image->refs, image);
	cr_expect_eq(window_samples(&w), 0);
	cr_expect_eq(window_bytes(&w), 0);
	window_fini(&w);
}

Test(window, ends_what_it_holds_when_it_is_freed)
{
	_cleanup_machine_ struct machine m;
	struct window w;

	machine_init(&m, 0);
	cr_assert_eq(window_init(&w, m.binaries, 1u << 20, false), 0);
	struct process *p = machine_process(&m, 7);
	const uint64_t words[] = {machine_alpha_frame(&m)};
	unsigned image = p->image->refs;
	uint32_t binary = refs(&m, m.program);

	cr_assert_eq(add(&w, p, words, 1, 0), 0);
	window_fini(&w);
	window_fini(&w); /* twice is fine */
	cr_expect_eq(refs(&m, m.program), binary);
	cr_expect_eq(p->image->refs, image);
}

Test(window, refuses_what_does_not_fit)
{
	_cleanup_machine_ struct machine m;
	uint64_t words[64] = {0};
	struct window w;
	size_t taken = 0;

	machine_init(&m, 0);
	cr_assert_eq(window_init(&w, m.binaries, 4096, false), 0);
	struct process *p = machine_process(&m, 7);

	while (words[0] = frame_native(m.program, taken), add(&w, p, words, 64, 0) == 0)
		taken++;
	cr_expect_eq(add(&w, p, words, 64, 0), -ENOSPC);
	cr_expect(taken > 1 && taken < 4096 / sizeof words, "%zu", taken);
	cr_expect_eq(window_samples(&w), taken);
	cr_expect_leq(window_bytes(&w), 4096);
	window_clear(&w);
	cr_expect_eq(add(&w, p, words, 64, 0), 0, "there is room again");
	window_fini(&w);
}

Test(window, keeps_cpus_apart_on_request)
{
	_cleanup_machine_ struct machine m;

	machine_init(&m, 0);
	struct process *p = machine_process(&m, 7);
	const uint64_t words[] = {machine_alpha_frame(&m)};

	for (int by_cpu = 0; by_cpu < 2; by_cpu++) {
		const struct sample_entry *e;
		struct window w;

		cr_assert_eq(window_init(&w, m.binaries, 1u << 20, by_cpu), 0);
		cr_assert(add(&w, p, words, 1, 3) == 0 && add(&w, p, words, 1, 5) == 0);
		e = sample_aggregate_entries(w.samples);
		cr_expect_eq(e->n, by_cpu ? 1 : 2);
		cr_expect_eq(e->cpu, by_cpu ? 3 : 0);
		cr_expect_eq(e->next != NULL, by_cpu);
		window_fini(&w);
	}
}
