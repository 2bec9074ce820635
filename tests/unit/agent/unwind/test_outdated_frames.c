// SPDX-License-Identifier: Apache-2.0
/* Mappings without files: a frame's address is what it is, and either something is mapped there or not. */
#include <criterion/criterion.h>

#include "agent/base/cleanup.h"
#include "agent/proc/table.h"
#include "agent/unwind/outdated_frames.h"
#include "bpf/abi.h"

DEFINE_CLEANUP(struct proc_maps *, proc_maps_unref)

#define FRAME(address) frame_anonymous(address)

static struct proc_maps *maps_of(const struct proc_mapping *mappings, size_t n)
{
	struct proc_maps *m;

	cr_assert_eq(proc_maps_new(&m, NULL), 0);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(proc_maps_insert(m, mappings[i]), 0);
	return m;
}

Test(outdated_frames, up_to_the_first_change)
{
	static const struct proc_mapping before[] = {{0x1000, 0x2000, 0, 0}, {0x5000, 0x6000, 0, 0}},
					 after[] = {{0x1000, 0x2000, 0, 0}};
	_cleanup_(proc_maps_unref_p) struct proc_maps *used = maps_of(before, 2), *right = maps_of(after, 1);
	const uint64_t frames[] = {FRAME(0x1100), FRAME(0x1200), FRAME(0x5100), FRAME(0x1300)};
	struct outdated_frame next = {1, 1};

	cr_expect_eq(unwind_frames_valid(NULL, used, right, frames, 2, &next), 2);
	cr_expect_eq(unwind_frames_valid(NULL, used, right, frames, 4, &next), 2);
	cr_expect_eq(next.frame, 0u, "nothing is there any more");
	cr_expect_eq(next.address, 0x5100u);
	cr_expect_eq(unwind_frames_valid(NULL, used, used, frames, 4, &next), 4);
	cr_expect_eq(unwind_frames_valid(NULL, right, used, frames, 4, &next), 2,
		     "where the frame comes from is not known");
}

/* Frames that were omitted may have been where a mapping has changed. */
Test(outdated_frames, up_to_omitted_ones)
{
	static const struct proc_mapping mapping = {0x1000, 0x2000, 0, 0};
	_cleanup_(proc_maps_unref_p) struct proc_maps *maps = maps_of(&mapping, 1);
	const uint64_t frames[] = {FRAME(0x1100), frame_omitted(9), FRAME(0x1300)};
	struct outdated_frame next = {1, 1};

	cr_expect_eq(unwind_frames_valid(NULL, maps, maps, frames, 3, &next), 1);
	cr_expect_eq(next.frame | next.address, 0u);
}
