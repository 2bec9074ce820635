// SPDX-License-Identifier: Apache-2.0
/*
 * A profile holds functions apart that differ in build id or first line, as those of two versions of a
 * program do. What is added to this one has only what comparison.c compares by: name, and module or file.
 */
#include "agent/command/diff_page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/array.h"
#include "agent/base/cleanup.h"
#include "agent/base/clock.h"
#include "agent/output/display_text.h"
#include "agent/output/html.h"
#include "agent/output/profile.h"

#define BLOCK_SHIFT 20 /* as struct output_html_side says */

/* A frame without what versions of a program differ in, and what it points to. */
struct plain_frame {
	struct frame_module module;
	struct frame_line line;
};

struct diff_page {
	const struct comparison *comparison;
	bool names_only;
	struct output_profile *profile;
	/* of the stack that is being added; owned */
	struct frame *frames;
	struct plain_frame *plain;
	uint64_t *times;
	size_t frames_cap, plain_cap, times_cap;
};

int diff_page_new(struct diff_page **ret, const struct comparison *comparison, bool names_only)
{
	struct diff_page *page = calloc(1, sizeof *page);
	int r;

	if (!page)
		return -ENOMEM;
	page->comparison = comparison;
	page->names_only = names_only;
	r = output_profile_new(&page->profile, &(struct output_info){0});
	if (r < 0)
		free(page);
	else
		*ret = page;
	return r;
}

void diff_page_free(struct diff_page *page)
{
	if (!page)
		return;
	output_profile_free(page->profile);
	free(page->frames);
	free(page->plain);
	free(page->times);
	free(page);
}

static void make_plain(const struct diff_page *page, const struct frame *f, struct frame *ret,
		       struct plain_frame *plain)
{
	const struct frame_module *m = page->names_only ? NULL : f->module;
	const bool in_file = f->runtime && f->n_lines && *f->lines->file;

	*ret = (struct frame){.function = f->function,
			      .address = f->function && *f->function ? 0 : frame_unnamed_offset(f),
			      .kind = f->kind,
			      .runtime = f->runtime};
	if (m && !in_file) {
		plain->module = (struct frame_module){.path = m->name, .name = m->name, .go = m->go};
		ret->module = &plain->module;
	}
	if (in_file && !page->names_only) {
		plain->line = (struct frame_line){.file = output_text_file(f->lines->file)};
		ret->lines = &plain->line;
		ret->n_lines = 1;
	}
}

static int make_room(struct diff_page *page, const struct recording_stack *s)
{
	if (array_reserve(&page->frames, &page->frames_cap, s->stack.n_frames + 1, sizeof *page->frames) <
		    0 ||
	    array_reserve(&page->plain, &page->plain_cap, s->stack.n_frames + 1, sizeof *page->plain) < 0)
		return -ENOMEM;
	return array_reserve(&page->times, &page->times_cap, s->n_times + 1, sizeof *page->times);
}

int diff_page_add(struct diff_page *page, enum comparison_side side, const struct recording_stack *s)
{
	const bool timed = comparison_has_times(page->comparison, side) && s->n_times == s->stack.count;
	struct output_stack stack = s->stack;
	int r = make_room(page, s);

	if (r < 0)
		return r;
	for (size_t i = 0; i < s->stack.n_frames; i++)
		make_plain(page, &s->stack.frames[i], &page->frames[i], &page->plain[i]);
	for (size_t i = 0; timed && i < s->n_times; i++)
		page->times[i] = (uint64_t)comparison_block(page->comparison, side, s->times[i])
				 << BLOCK_SHIFT;
	stack.frames = page->frames;
	stack.times = timed ? page->times : NULL;
	stack.after = side == COMPARISON_B;
	(void)output_profile_add(page->profile, &stack);
	return 0;
}

/* What the facts at the head of the page are made of: those of B. */
static int describe(const struct diff_page *page, const struct recording_info *info)
{
	const bool counts = info->period_ns != 0;

	return output_profile_set_info(
		page->profile, &(struct output_info){
				       .start_unix_ns = info->start_unix_ns,
				       .duration_ns = info->duration_ns,
				       .frequency_hz = counts ? (uint32_t)(NS_PER_SEC / info->period_ns) : 0,
				       .hostname = *info->hostname ? info->hostname : NULL,
				       .command = *info->command ? info->command : NULL,
				       .version = *info->version ? info->version : NULL,
			       });
}

static int write_to(const struct diff_page *page, const char *const files[COMPARISON_SIDES],
		    const struct recording_info infos[COMPARISON_SIDES], FILE *f)
{
	_cleanup_free_ uint8_t(*weights)[COMPARISON_DRAWS - 1][COMPARISON_BLOCKS] =
		calloc(COMPARISON_SIDES, sizeof *weights);
	struct output_html_difference d = {.n_draws = COMPARISON_DRAWS - 1,
					   .n_blocks = COMPARISON_BLOCKS,
					   .least = COMPARISON_LEAST,
					   .limit_self = comparison_limit(page->comparison, false),
					   .limit_total = comparison_limit(page->comparison, true)};

	if (!weights)
		return -ENOMEM;
	for (int side = 0; side < COMPARISON_SIDES; side++)
		d.sides[side] = (struct output_html_side){
			.file = files[side],
			.start_unix_ns = infos[side].start_unix_ns,
			.duration_ns = infos[side].duration_ns,
			.samples = comparison_samples(page->comparison, side),
			.weights = comparison_weights(page->comparison, side, weights[side])
					   ? &weights[side][0][0]
					   : NULL,
		};
	return output_html_write(page->profile, &d, f);
}

int diff_page_write(const struct diff_page *page, const char *path, bool overwrite,
		    const char *const files[COMPARISON_SIDES],
		    const struct recording_info infos[COMPARISON_SIDES])
{
	int r = describe(page, &infos[COMPARISON_B]);
	FILE *f;

	if (r < 0)
		return r;
	f = fopen(path, overwrite ? "we" : "wxe");
	if (!f)
		return -errno;
	r = write_to(page, files, infos, f);
	if (fclose(f) != 0 && r == 0)
		r = -errno;
	if (r < 0)
		remove(path);
	return r;
}
