// SPDX-License-Identifier: Apache-2.0
/* Code that a program has copied to memory of its own, at the addresses of the file's code. */
#include <string.h>

#include "agent/elf/file/elf_image.h"
#include "agent/proc/table.h"
#include "tests/unit/agent/track/fake_host.h"

#define PID 100u
#define BASE 0x555500000000ull

/* The segments of the file, as the kernel maps them: before the code, the code, behind it. */
struct parts {
	uint64_t pages[3], offset[3], start[3];
};

static struct parts parts_of(const struct fake_file *file)
{
	const struct elf_segment *segments;
	struct parts parts = {.pages = {0}};
	struct elf_image *image;
	size_t n, code = 0;

	cr_assert_eq(elf_image_open(&image, file->fd), 0);
	segments = elf_image_segments(image, &n);
	while (code < n && !segments[code].executable)
		code++;
	cr_assert(code > 0 && code + 1 < n, "a segment on either side of the code");
	for (size_t i = 0; i < 3; i++) {
		const struct elf_segment *s = &segments[code - 1 + i];
		uint64_t first = s->va & ~(FAKE_PAGE - 1),
			 last = (s->va + s->file_bytes + FAKE_PAGE - 1) & ~(FAKE_PAGE - 1);

		parts.start[i] = BASE + first;
		parts.pages[i] = (last - first) / FAKE_PAGE;
		parts.offset[i] = s->offset & ~(FAKE_PAGE - 1);
	}
	elf_image_free(image);
	return parts;
}

struct stage {
	struct flow *flow;
	struct parts parts;
};

static struct stage stage_new(enum proc_text text)
{
	struct stage s = {.flow = flow_prepare()};

	fake_process_add(&s.flow->host, PID, 1, "copier")->text = text;
	s.parts = parts_of(fake_file_add(&s.flow->host, "/bin/copier", true));
	return s;
}

/* The program as it is with its code in place, or in memory without a file. */
static void map_program(struct stage *s, bool copied)
{
	const struct parts *p = &s->parts;
	struct fake_host *h = &s->flow->host;

	fake_process_map_kind(h, PID, p->start[0], p->pages[0], p->offset[0], "/bin/copier", "r--p");
	fake_process_map(h, PID, p->start[1], p->pages[1], copied ? 0 : p->offset[1],
			 copied ? NULL : "/bin/copier");
	fake_process_map_kind(h, PID, p->start[2], p->pages[2], p->offset[2], "/bin/copier", "r--p");
}

static void expect_code(struct stage *s, const char *path)
{
	const struct proc_mapping *m = proc_maps_find(flow_process(s->flow, PID)->maps, s->parts.start[1]);

	cr_expect_str_eq(flow_path(s->flow, PID, s->parts.start[1]), path);
	if (path[0] == '/')
		cr_expect_eq(m->offset + s->parts.start[1] - m->start, s->parts.offset[1]);
}

Test(remaps, found_by_the_scan)
{
	struct stage s = stage_new(PROC_TEXT_SAME);

	map_program(&s, true);
	flow_start(s.flow);
	expect_code(&s, "/bin/copier");
	cr_expect_eq(flow_stats(s.flow).remaps.found, 1);
	cr_expect_eq(s.flow->host.n_compares, 1);
	cr_expect_eq(flow_slot(s.flow, PID), SLOT_LIST);
	flow_settle(s.flow);
	flow_free(s.flow);
}

Test(remaps, other_code)
{
	struct stage s = stage_new(PROC_TEXT_OTHER);

	map_program(&s, true);
	flow_start(s.flow);
	expect_code(&s, "-");
	cr_expect_eq(flow_stats(s.flow).remaps.found, 0);
	flow_settle(s.flow);
	flow_free(s.flow);
}

/* The memory cannot be read: between two mappings of the same file it is taken to be its code. */
Test(remaps, unreadable_between_the_files_mappings)
{
	struct stage s = stage_new(PROC_TEXT_UNKNOWN);

	map_program(&s, true);
	flow_start(s.flow);
	expect_code(&s, "/bin/copier");
	flow_settle(s.flow);
	flow_free(s.flow);
}

Test(remaps, unreadable_behind_a_file)
{
	struct stage s = stage_new(PROC_TEXT_UNKNOWN);
	struct fake_process *p = &s.flow->host.processes[0];

	map_program(&s, true);
	p->n_lines = 2;
	flow_start(s.flow);
	expect_code(&s, "-");
	flow_settle(s.flow);
	flow_free(s.flow);
}

/* The answer about the memory comes late, when all else is known. */
static struct stage with_late_answer(enum proc_text text)
{
	struct stage s = stage_new(text);

	map_program(&s, true);
	s.flow->host.processes[0].n_lines = 2;
	s.flow->host.readers.answer = FAKE_LATE;
	s.flow->host.readers.late_kind = "reading its memory";
	flow_start(s.flow);
	s.flow->host.readers.answer = FAKE_NOW;
	expect_code(&s, "-");
	return s;
}

Test(remaps, found_late)
{
	struct stage s = with_late_answer(PROC_TEXT_SAME);

	(void)fake_pool_work(&s.flow->host.readers);
	track_progress(s.flow->track);
	expect_code(&s, "/bin/copier");
	cr_expect_eq(flow_stats(s.flow).remaps.found, 1);
	flow_settle(s.flow);
	flow_free(s.flow);
}

Test(remaps, other_code_late)
{
	struct stage s = with_late_answer(PROC_TEXT_OTHER);

	(void)fake_pool_work(&s.flow->host.readers);
	expect_code(&s, "-");
	flow_settle(s.flow);
	flow_free(s.flow);
}

/* By then the process has another program. */
Test(remaps, found_too_late)
{
	struct stage s = with_late_answer(PROC_TEXT_SAME);

	fake_exec(&s.flow->host, PID, PID, "other");
	fake_mmap(&s.flow->host, PID, s.parts.start[1], s.parts.pages[1], 0, NULL);
	(void)track_drain(s.flow->track);
	(void)fake_pool_work(&s.flow->host.readers);
	expect_code(&s, "-");
	cr_expect_eq(flow_stats(s.flow).remaps.found, 0);
	flow_settle(s.flow);
	flow_free(s.flow);
}

Test(remaps, apart_from_the_file)
{
	struct stage s = stage_new(PROC_TEXT_SAME);
	struct fake_process *p = &s.flow->host.processes[0];

	map_program(&s, true);
	p->n_lines = 2;
	p->lines[1].line.start += 2 * FAKE_PAGE;
	p->lines[1].line.end += 2 * FAKE_PAGE;
	flow_start(s.flow);
	cr_expect_eq(s.flow->host.n_compares, 0);
	cr_expect_str_eq(flow_path(s.flow, PID, p->lines[1].line.start), "-");
	flow_free(s.flow);
}

/*
 * Comparing takes longer than the main loop waits, so until the answer comes, the memory counts as memory
 * that cannot be read.
 */
static void compare_late(struct stage *s, const char *path, const char *path_later)
{
	struct flow *f = s->flow;

	f->host.readers.answer = FAKE_LATE;
	f->host.readers.late_kind = "reading its memory";
	flow_start(f);
	expect_code(s, path);
	cr_expect_eq(f->host.n_compares, 0);
	cr_expect_gt(fake_pool_work(&f->host.readers), 0);
	cr_expect_eq(f->host.n_compares, 1);
	expect_code(s, path_later);
	flow_settle(f);
	flow_free(f);
}

Test(remaps, compared_late)
{
	struct stage s = stage_new(PROC_TEXT_OTHER);

	map_program(&s, true);
	compare_late(&s, "/bin/copier", "-");
}

Test(remaps, compared_late_behind_a_file)
{
	struct stage s = stage_new(PROC_TEXT_SAME);

	map_program(&s, true);
	s.flow->host.processes[0].n_lines = 2;
	compare_late(&s, "-", "/bin/copier");
}

/* --- mapped over the code, and filled then */

static void replace_code(struct stage *s)
{
	struct fake_process *p = &s->flow->host.processes[0];

	fake_mmap(&s->flow->host, PID, s->parts.start[1], s->parts.pages[1], 0, NULL);
	p->n_lines = 0;
	map_program(s, true);
}

Test(remaps, filled_after_the_event)
{
	struct stage s = stage_new(PROC_TEXT_OTHER);
	struct flow *f = s.flow;

	map_program(&s, false);
	flow_start(f);
	expect_code(&s, "/bin/copier");
	replace_code(&s);
	(void)track_drain(f->track);
	expect_code(&s, "-");
	cr_expect_eq(f->host.n_compares, 2, "with the event, from both sides");
	flow_wait(f, 40 * NS_PER_MS);
	(void)track_drain(f->track);
	cr_expect_eq(f->host.n_compares, 2);
	f->host.processes[0].text = PROC_TEXT_SAME;
	flow_wait(f, 20 * NS_PER_MS);
	(void)track_drain(f->track);
	cr_expect_eq(f->host.n_compares, 3);
	expect_code(&s, "/bin/copier");
	flow_wait(f, 10 * NS_PER_SEC);
	(void)track_drain(f->track);
	cr_expect_eq(f->host.n_compares, 3, "found: not compared again");
	flow_settle(f);
	flow_free(f);
}

/* After 50 ms, half a second and five seconds, and no more. */
Test(remaps, window_of_retries)
{
	struct stage s = stage_new(PROC_TEXT_OTHER);
	struct flow *f = s.flow;

	map_program(&s, false);
	flow_start(f);
	replace_code(&s);
	for (unsigned i = 0; i < 2000; i++) {
		(void)track_drain(f->track);
		flow_wait(f, 10 * NS_PER_MS);
	}
	cr_expect_eq(f->host.n_compares, 2 * 4);
	expect_code(&s, "-");
	f->host.processes[0].text = PROC_TEXT_SAME;
	fake_mmap(&f->host, PID, s.parts.start[1], s.parts.pages[1], 0, NULL);
	(void)track_drain(f->track);
	expect_code(&s, "-");
	cr_expect_eq(f->host.n_compares, 2 * 4, "nothing of a file is replaced now");
	flow_settle(f);
	flow_free(f);
}

/* Its protection changes while it waits: the bytes may be there now. */
Test(remaps, event_while_it_waits)
{
	struct stage s = stage_new(PROC_TEXT_OTHER);
	struct flow *f = s.flow;

	map_program(&s, false);
	flow_start(f);
	replace_code(&s);
	(void)track_drain(f->track);
	f->host.processes[0].text = PROC_TEXT_SAME;
	fake_mmap(&f->host, PID, s.parts.start[1], s.parts.pages[1], 0, NULL);
	(void)track_drain(f->track);
	expect_code(&s, "/bin/copier");
	flow_settle(f);
	flow_free(f);
}

Test(remaps, ended_while_it_waits)
{
	struct stage s = stage_new(PROC_TEXT_OTHER);
	struct flow *f = s.flow;
	unsigned n;

	map_program(&s, false);
	flow_start(f);
	replace_code(&s);
	fake_exit(&f->host, PID, PID);
	(void)track_drain(f->track);
	n = f->host.n_compares;
	flow_wait(f, NS_PER_SEC);
	(void)track_drain(f->track);
	cr_expect_eq(f->host.n_compares, n);
	flow_settle(f);
	flow_free(f);
}

Test(remaps, too_many)
{
	struct stage s = stage_new(PROC_TEXT_OTHER);
	struct flow *f = s.flow;

	f->options.max_processes = 2 * REMAPS_MAX;
	map_program(&s, false);
	flow_start(f);
	for (uint32_t pid = 1000; pid < 1000 + REMAPS_MAX; pid++) {
		fake_fork(&f->host, PID, pid);
		fake_mmap(&f->host, pid, s.parts.start[1], s.parts.pages[1], 0, NULL);
	}
	fake_mmap(&f->host, PID, s.parts.start[1], s.parts.pages[1], 0, NULL);
	(void)track_drain(f->track);
	cr_expect_eq(flow_stats(f).remaps.full, 1);
	flow_settle(f);
	flow_free(f);
}

/* A process that maps memory over its code all the time, and has many mappings, is not read all the time. */
Test(remaps, no_more_often_than_it_costs)
{
	struct stage s = stage_new(PROC_TEXT_OTHER);
	struct flow *f = s.flow;
	unsigned n;

	map_program(&s, false);
	flow_start(f);
	fake_cpu_step_ns = 10 * NS_PER_MS;
	replace_code(&s);
	(void)track_drain(f->track);
	n = f->host.n_maps;
	for (int i = 0; i < 10; i++) {
		replace_code(&s);
		flow_wait(f, 10 * NS_PER_MS);
		(void)track_drain(f->track);
	}
	cr_expect_eq(f->host.n_maps, n);
	flow_wait(f, 10 * NS_PER_SEC);
	(void)track_drain(f->track);
	cr_expect_eq(f->host.n_maps, n + 1, "but it is when its share of the time allows");
	fake_cpu_step_ns = 0;
	flow_settle(f);
	flow_free(f);
}

/* No program has its code in so many pieces. */
Test(remaps, too_many_places)
{
	struct stage s = stage_new(PROC_TEXT_OTHER);
	struct flow *f = s.flow;
	uint64_t at = BASE + (1ull << 32);

	if (s.parts.pages[1] < 2)
		cr_skip_test("the code of /bin/true has one page");
	for (int i = 0; i < 100; i++) {
		fake_process_map(&f->host, PID, at, 1, s.parts.offset[1], "/bin/copier");
		fake_process_map(&f->host, PID, at + FAKE_PAGE, 1, 0, NULL);
		at += 2 * FAKE_PAGE;
	}
	flow_start(f);
	cr_expect_eq(flow_stats(f).remaps.cut, 1);
	cr_expect_geq(f->host.n_compares, 64);
	cr_expect_leq(f->host.n_compares, 128, "%u", f->host.n_compares);
	flow_settle(f);
	flow_free(f);
}
