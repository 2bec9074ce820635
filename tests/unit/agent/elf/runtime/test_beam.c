// SPDX-License-Identifier: Apache-2.0
/* BEAM in an ELF file, and its functions in a process's memory (beam_machine.h). */
#include "agent/elf/runtime/beam.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/beam_code.h"
#include "tests/support/beam_machine.h"
#include "tests/unit/agent/elf/runtime/runtime_file.h"

static struct beam_layout layout_of(struct beam_machine *m)
{
	struct beam_layout l;

	cr_assert_eq(beam_layout_read(&l, m->memory, &m->vm), 0);
	cr_assert(beam_layout_valid(&l));
	return l;
}

/* What beam_layout_read says of the machine after one word of it was changed. */
static int changed(bool stripped, uint32_t at, uint64_t value)
{
	struct beam_machine m;
	struct beam_layout l;
	int r;

	bm_init(&m);
	if (stripped)
		bm_strip(&m);
	bm_put(&m, at, value);
	r = beam_layout_read(&l, m.memory, &m.vm);
	bm_free(&m);
	return r;
}

static int with(uint32_t at, uint64_t value)
{
	return changed(false, at, value);
}

static int stripped_with(uint32_t at, uint64_t value)
{
	return changed(true, at, value);
}

Test(beam_code, tables_are_found_by_their_shape)
{
	struct beam_machine m;
	struct beam_layout l;

	bm_init(&m);
	l = layout_of(&m);
	cr_expect_eq(l.ranges, BM_BASE + BM_RANGES);
	cr_expect_eq(l.atoms, BM_BASE + BM_PIECES);
	cr_expect_eq(l.exit, BM_BASE + BM_EXIT);
	cr_expect_eq(l.records, 0);
	bm_free(&m);
}

Test(beam_code, what_has_not_the_shape_is_refused)
{
	cr_expect_eq(with(BM_EXIT_POINTER, 0), -EAGAIN, "not started yet");
	cr_expect_eq(with(BM_EXIT_POINTER, 1ull << 63), -ENOTSUP);
	cr_expect_eq(with(BM_LAYOUT, 2), -ENOTSUP);
	cr_expect_eq(with(BM_TEXTS, 'x'), -ENOTSUP, "the first atom is another one");
	cr_expect_eq(with(BM_ATOM_TABLE + 120, BM_BASE + BM_BYTES), -ENOTSUP);
	cr_expect_eq(with(BM_RANGES + 8, 0), -EAGAIN, "no module yet");
	cr_expect_eq(with(BM_RANGES + 8, 3), -EAGAIN, "more modules than there is room for");
	cr_expect_eq(with(BM_RANGES + 24, 0), -EAGAIN);
	cr_expect_eq(with(BM_MODULES, BM_BASE + BM_MODULE_END), -EAGAIN, "a module of no bytes");
	cr_expect_eq(with(BM_MODULE, 1u << 20), -EAGAIN, "too many functions");
	cr_expect_eq(with(BM_FUNCTIONS + 8, 0), -EAGAIN, "functions not in order");
}

/* The machine's variable says so, or its code where that is not exported. */
Test(beam_code, functions_make_frame_records)
{
	struct beam_machine m;

	bm_init(&m);
	bm_put(&m, BM_LAYOUT, 1);
	cr_expect_eq(layout_of(&m).records, 1);
	bm_free(&m);
	bm_init(&m);
	bm_strip(&m);
	bm_put(&m, BM_CODE + BEAM_INFO_BYTES + 8, 0xe5894855);
	cr_expect_eq(layout_of(&m).records, 1);
	bm_free(&m);
}

Test(beam_code, two_of_the_same_shape_are_none)
{
	struct beam_machine m;
	struct beam_layout l;

	bm_init(&m);
	memcpy(m.bytes + BM_DATA + 0x800, m.bytes + BM_RANGES, 96);
	cr_expect_eq(beam_layout_read(&l, m.memory, &m.vm), -ENOTSUP);
	bm_free(&m);
}

Test(beam_code, without_symbols_by_shapes_and_names)
{
	struct beam_machine m;
	struct beam_layout l;
	struct beam_function f;

	bm_init(&m);
	bm_strip(&m);
	l = layout_of(&m);
	cr_expect_eq(l.ranges, BM_BASE + BM_RANGES);
	cr_expect_eq(l.atoms, BM_BASE + BM_PIECES);
	cr_expect_eq(l.exit, BM_BASE + BM_EXIT_INFO + BEAM_INFO_BYTES);
	cr_expect_eq(l.records, 0);
	cr_expect_eq(l.terms, 1);
	cr_expect_eq(beam_function_find(&f, m.memory, &m.vm, &l, BM_BASE + BM_CODE + 60), 0);
	cr_expect_str_eq(f.name, "work:leaf/2");
	cr_expect_eq(beam_function_find(&f, m.memory, &m.vm, &l, BM_BASE + BM_SHARED), -ENOENT);
	bm_free(&m);
}

Test(beam_code, without_symbols_what_has_not_the_shape_is_refused)
{
	cr_expect_eq(stripped_with(BM_NAME_TEXT, 0), -EAGAIN, "no table of atoms");
	cr_expect_eq(stripped_with(BM_NAMED_TABLE + 120, 0), -EAGAIN);
	cr_expect_eq(stripped_with(BM_ATOMS + 32, BM_BASE + BM_TEXTS), -EAGAIN, "the text is no term");
	cr_expect_eq(stripped_with(BM_TEXTS + 8, 8), -EAGAIN, "the text has another length");
	cr_expect_eq(stripped_with(BM_EXIT_INFO + 24, BM_ATOM(BM_ROOT)), -ENOTSUP, "no end of processes");
	cr_expect_eq(stripped_with(BM_TEXTS + BM_EXIT_FUNCTION * 32 + 16, 'x'), -ENOTSUP);
}

/* A module that is gone stands in a table that is no longer used: what is there now is what counts. */
Test(beam_code, without_symbols_a_former_module_has_no_name)
{
	const uint64_t former = BM_MODULE + 0x180;
	struct beam_machine m;
	struct beam_layout l;
	struct beam_function f;

	bm_init(&m);
	bm_strip(&m);
	l = layout_of(&m);
	bm_put(&m, BM_MODULES, BM_BASE + former);
	memset(m.memory->pages, 0, sizeof m.memory->pages);
	cr_expect_eq(beam_function_find(&f, m.memory, &m.vm, &l, BM_BASE + former + 8), 0);
	cr_expect_str_eq(f.name, "work:middle/1");
	bm_free(&m);
}

struct function_case {
	uint32_t at;
	int result;
	uint32_t start;
	const char *name;
};

Test(beam_code, functions_by_address)
{
	static const struct function_case cases[] = {
		{BM_CODE, 0, BM_CODE, "work:leaf/2"},
		{BM_CODE + BM_FUNCTION_BYTES - 1, 0, BM_CODE, "work:leaf/2"},
		{BM_CODE + BM_FUNCTION_BYTES, 0, BM_CODE + BM_FUNCTION_BYTES, "work:middle/1"},
		{BM_CODE + 2 * BM_FUNCTION_BYTES + 50, 0, BM_CODE + 2 * BM_FUNCTION_BYTES,
		 "Work.Deep.root/0"},
		{BM_CODE - 1, -ENOENT, 0, NULL},
		{BM_CODE + 3 * BM_FUNCTION_BYTES, -ENOENT, 0, NULL},
		{BM_SHARED, -ENOENT, 0, NULL},
		{BM_MODULE_END, -ENOENT, 0, NULL},
	};
	struct beam_machine m;
	struct beam_layout l;

	bm_init(&m);
	l = layout_of(&m);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct beam_function f;
		int r = beam_function_find(&f, m.memory, &m.vm, &l, BM_BASE + cases[i].at);

		cr_expect_eq(r, cases[i].result, "%#x: %d", cases[i].at, r);
		if (r < 0)
			continue;
		cr_expect_eq(f.start, BM_BASE + cases[i].start);
		cr_expect_eq(f.end, f.start + BM_FUNCTION_BYTES);
		cr_expect_str_eq(f.name, cases[i].name);
	}
	bm_free(&m);
}

Test(beam_code, names_that_are_none_are_refused)
{
	static const struct {
		uint32_t at;
		uint64_t value;
	} cases[] = {
		{BM_CODE + 16, 0x1f},		      /* a small number for a module */
		{BM_CODE + 24, BM_ATOM(1u << 30)},    /* an atom that is nowhere */
		{BM_CODE + 32, 256},		      /* an arity that no function has */
		{BM_ATOMS + BM_LEAF * 64 + 24, 2000}, /* a text that is too long for an atom */
		{BM_ATOMS + BM_LEAF * 64 + 32, 8},
		{BM_INDEX, 3},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct beam_function f;
		struct beam_machine m;
		struct beam_layout l;

		bm_init(&m);
		l = layout_of(&m);
		bm_put(&m, cases[i].at, cases[i].value);
		memset(m.memory->pages, 0, sizeof m.memory->pages);
		cr_expect_lt(beam_function_find(&f, m.memory, &m.vm, &l, BM_BASE + BM_CODE + 60), 0,
			     "case %zu", i);
		bm_free(&m);
	}
}

/* --- the file */

Test(beam, facts_that_a_reader_may_not_send)
{
	const struct beam_facts good = {.release = 25,
					.known = 1,
					.code_index = 4,
					.atom_table = 8,
					.normal_exit = 16,
					.frame_layout = 24,
					.data_start = 64,
					.data_end = 128};
	struct beam_facts f = good;

	cr_expect(beam_facts_valid(&f));
	f.release = 24;
	cr_expect_not(beam_facts_valid(&f), "a release that is not known");
	f = good;
	f.data_end = f.data_start + BEAM_DATA_MAX + 8;
	cr_expect_not(beam_facts_valid(&f));
	f = good;
	f.atom_table = 9;
	cr_expect_not(beam_facts_valid(&f));
	f = good;
	f.known = BEAM_SHAPE;
	cr_expect_not(beam_facts_valid(&f), "only the range is known then");
	f = (struct beam_facts){.release = 29, .known = BEAM_SHAPE, .data_start = 64, .data_end = 128};
	cr_expect(beam_facts_valid(&f));
	f = (struct beam_facts){.release = 29};
	cr_expect(beam_facts_valid(&f), "another release: that is all");
	f.code_index = 4;
	cr_expect_not(beam_facts_valid(&f));
	f = (struct beam_facts){0};
	cr_expect_not(beam_facts_valid(&f));
}

/* Debian's, where it is installed. */
Test(beam, the_installed_one)
{
	glob_t found = {0};
	struct elf_image *img;
	struct beam_facts f;
	int fd;

	if (glob("/usr/lib/erlang/erts-*/bin/beam.smp", 0, NULL, &found) != 0)
		cr_skip_test("no Erlang is installed");
	fd = open(found.gl_pathv[0], O_RDONLY | O_CLOEXEC);
	globfree(&found);
	cr_assert(fd >= 0);
	cr_assert_eq(elf_image_open(&img, fd), 0);
	close(fd);
	cr_expect_eq(beam_facts_read(&f, img), 0);
	cr_expect(beam_facts_valid(&f));
	cr_expect_geq(f.release, BEAM_RELEASE_MIN);
	elf_image_free(img);
}

Test(beam, another_file_is_none)
{
	struct elf_image *img;
	struct beam_facts f;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	cr_assert(fd >= 0);
	cr_assert_eq(elf_image_open(&img, fd), 0);
	close(fd);
	cr_expect_eq(beam_facts_read(&f, img), -ENOENT);
	cr_expect_eq(f.release, 0);
	elf_image_free(img);
}
