// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the runtime in a file by names that every build exports, since extension modules need them: stripped
 * files have them in .dynsym. A program that exports nothing is recognised by the section of _PyRuntime only
 * (3.10 and later): to look through .symtab of each file that is no Python would cost too much.
 */
#include "agent/elf/runtime/cpython.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/code/code_table.h"
#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/cpython_layout.h"
#include "agent/elf/runtime/loops.h"

enum name {
	NAME_RUNTIME,
	NAME_VERSION,
	NAME_CODE_TYPE,
	NAME_TEXT_TYPE,
	NAME_INT_TYPE,
	NAME_SINCE_8,
	NAME_SINCE_9,
	NAME_LOOP, /* and what compilers and BOLT split off it */
	NAME_COLD,
	NAME_COLD_0,
	N_NAMES,
};

static const char *const names[N_NAMES] = {
	[NAME_RUNTIME] = "_PyRuntime",
	[NAME_VERSION] = "Py_Version",
	[NAME_CODE_TYPE] = "PyCode_Type",
	[NAME_TEXT_TYPE] = "PyUnicode_Type",
	[NAME_INT_TYPE] = "PyLong_Type",
	[NAME_SINCE_8] = "PyCode_NewWithPosOnlyArgs",
	[NAME_SINCE_9] = "PyInterpreterState_Get",
	[NAME_LOOP] = "_PyEval_EvalFrameDefault",
	[NAME_COLD] = "_PyEval_EvalFrameDefault.cold",
	[NAME_COLD_0] = "_PyEval_EvalFrameDefault.cold.0",
};

struct search {
	struct elf_image *img;
	struct elf_definition found[N_NAMES];
	struct elf_section section; /* .PyRuntime */
	bool has_section;
};

/* 0; -ENOENT: there is no runtime; -ENOMEM. */
static int find(struct search *s)
{
	int r;

	for (size_t i = 0; i < N_NAMES; i++)
		s->found[i].name = names[i];
	s->has_section = elf_image_find_section(s->img, ".PyRuntime", &s->section) == 0;
	r = elf_definitions_find_dynamic(s->img, &s->found[NAME_RUNTIME], 1);
	if (r == 0 && !s->found[NAME_RUNTIME].found && !s->has_section)
		return -ENOENT;
	if (r == 0)
		r = elf_definitions_find_dynamic(s->img, s->found, N_NAMES);
	return r == 0 ? elf_definitions_find_static(s->img, s->found, N_NAMES) : r;
}

/* Reads data by its address. False: the file does not have it. */
static bool read_data(const struct elf_image *img, uint64_t va, void *ret, size_t len)
{
	const struct elf_segment *s = elf_image_segment_at(img, va);

	return s && len <= s->file_bytes - (va - s->va) &&
	       elf_image_pread(img, s->offset + (va - s->va), ret, len) == 0;
}

/* What the runtime says of itself from 3.13 on. False: it says nothing. */
static bool read_debug(const struct search *s, uint64_t runtime, struct cpython_debug *ret)
{
	size_t bytes;

	if (!read_data(s->img, runtime, ret->words, CPYTHON_DEBUG_HEAD_BYTES))
		return false;
	bytes = cpython_debug_bytes(ret);
	return bytes && read_data(s->img, runtime, ret->words, bytes);
}

/* Versions before 3.11 do not say which they are. */
static uint32_t version_of(const struct search *s)
{
	const struct elf_definition *version = &s->found[NAME_VERSION];
	uint32_t v;

	if (version->found && read_data(s->img, version->va, &v, sizeof v) &&
	    v >> 16 >= CPYTHON_VERSION(11) >> 16 && v >> 24 == 3)
		return v;
	if (version->found || !s->found[NAME_SINCE_8].found)
		return CPYTHON_VERSION(0);
	if (s->has_section)
		return CPYTHON_VERSION(10);
	return s->found[NAME_SINCE_9].found ? CPYTHON_VERSION(9) : CPYTHON_VERSION(8);
}

static bool loops_valid(const struct cpython_facts *f)
{
	return runtime_loops_valid(f->loop_start, f->loop_end, f->n_loops, CPYTHON_LOOPS_MAX);
}

/* In the order of their addresses. Symbols that overlap cannot be right: then there are none. */
static void find_loops(struct cpython_facts *f, const struct search *s)
{
	for (size_t i = NAME_LOOP; i < N_NAMES; i++) {
		const struct elf_definition *d = &s->found[i];
		uint32_t at = f->n_loops;
		uint64_t end;

		if (!d->found || !d->bytes || __builtin_add_overflow(d->va, d->bytes, &end))
			continue;
		for (; at && f->loop_start[at - 1] > d->va; at--) {
			f->loop_start[at] = f->loop_start[at - 1];
			f->loop_end[at] = f->loop_end[at - 1];
		}
		f->loop_start[at] = d->va;
		f->loop_end[at] = end;
		f->n_loops++;
	}
	if (!loops_valid(f)) {
		memset(f->loop_start, 0, sizeof f->loop_start);
		memset(f->loop_end, 0, sizeof f->loop_end);
		f->n_loops = 0;
	}
}

/*
 * From 3.14 on, each instruction may be a function that ends with a jump to the next one. What is the loop
 * elsewhere is then a small function that calls the first of them by its number, which is a byte; compilers
 * inline it into others, too. (A loop of the other kind calls through tables that are shorter: what follows
 * them is no code.) 0; -ENOMEM.
 */
static int find_instructions(struct cpython_facts *f, const struct search *s)
{
	const struct elf_definition *loop = &s->found[NAME_LOOP];
	int r;

	if (!f->n_loops || !loop->found || f->version < CPYTHON_VERSION(14))
		return 0;
	r = code_calls_table(s->img, loop->va, loop->va + loop->bytes);
	f->has_instructions = r > 0;
	return r < 0 ? r : 0;
}

/* What asyncio says of its tasks, where it is a part of the runtime's file. */
static bool read_tasks(const struct search *s, struct cpython_tasks *ret)
{
	struct elf_section section;

	return elf_image_find_section(s->img, ".AsyncioDebug", &section) == 0 &&
	       section.bytes >= sizeof ret->words &&
	       elf_image_pread(s->img, section.offset, ret->words, sizeof ret->words) == 0;
}

static void find_layout(struct cpython_facts *f, const struct search *s)
{
	struct cpython_tasks tasks;
	struct cpython_debug debug;

	if (read_debug(s, f->runtime, &debug)) {
		if (!s->found[NAME_VERSION].found)
			f->version = cpython_debug_version(&debug);
		f->free_threaded = cpython_debug_free_threaded(&debug);
		f->known = f->version == cpython_debug_version(&debug) &&
			   cpython_layout_of_debug(&f->layout, &debug);
		if (f->known)
			cpython_layout_set_tasks(&f->layout, &debug, read_tasks(s, &tasks) ? &tasks : NULL);
	} else if (cpython_version_final(f->version)) {
		f->known = cpython_layout_of_minor(&f->layout, f->version >> 16 & 0xff);
	}
}

int cpython_facts_read(struct cpython_facts *ret, struct elf_image *img)
{
	struct search s = {.img = img};
	int r = find(&s);

	memset(ret, 0, sizeof *ret); /* with its padding */
	if (r < 0)
		return r;
	ret->runtime = s.found[NAME_RUNTIME].found ? s.found[NAME_RUNTIME].va : s.section.va;
	if (!ret->runtime)
		return -ENOENT;
	ret->code_type = s.found[NAME_CODE_TYPE].va;
	ret->text_type = s.found[NAME_TEXT_TYPE].va;
	ret->int_type = s.found[NAME_INT_TYPE].va;
	ret->version = version_of(&s);
	find_loops(ret, &s);
	find_layout(ret, &s);
	r = find_instructions(ret, &s);
	if (r < 0)
		memset(ret, 0, sizeof *ret);
	return r;
}

bool cpython_facts_valid(const struct cpython_facts *f)
{
	static const struct cpython_facts none;

	if (!f->version || !f->known) {
		if (memcmp(&f->layout, &none.layout, sizeof none.layout) != 0 || f->known)
			return false;
	} else if (!cpython_layout_valid(&f->layout)) {
		return false;
	}
	if (!f->version)
		return !f->free_threaded && !f->runtime && !f->code_type && !f->text_type && !f->int_type &&
		       !f->n_loops && loops_valid(f) && !f->has_instructions;
	return f->version >> 24 == 3 && f->free_threaded <= 1 && f->known <= 1 && f->runtime &&
	       f->has_instructions <= 1 && loops_valid(f);
}
