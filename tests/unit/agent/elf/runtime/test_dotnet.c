// SPDX-License-Identifier: Apache-2.0
/* .NET in an ELF file, and its methods in a process's memory (dotnet_machine.h). */
#include "agent/elf/runtime/dotnet.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/elf_image.h"
#include "tests/support/dotnet_machine.h"
#include "tests/unit/agent/elf/runtime/runtime_file.h"

struct place_case {
	uint32_t at;
	int result;
	uint32_t start, end;
	const char *name;
};

#define READY(i) (DM_IMAGE + DM_READY_CODE + (i) * DM_FUNCTION_BYTES)

static const struct place_case places[] = {
	{DM_FIRST, 0, DM_FIRST, DM_FIRST + 0x40, "Demo.Outer.Run"},
	{DM_FIRST + 0x3f, 0, DM_FIRST, DM_FIRST + 0x40, "Demo.Outer.Run"},
	{DM_FIRST + 0x41, 0, DM_FIRST + 0x40, DM_FIRST + 0x60, "Demo.Outer.Run"}, /* its handler */
	{DM_FIRST + 0x60, -ENOENT, 0, 0, NULL},
	{DM_SECOND + 8, 0, DM_SECOND, DM_SECOND + 0x40, "Demo.Outer.Inner`1.Deep"},
	{DM_DYNAMIC + 4, 0, DM_DYNAMIC, DM_DYNAMIC + 0x40, "IL_STUB_PInvoke"},
	{DM_DYNAMIC + 0x120, -ENOENT, 0, 0,
	 NULL}, /* the map says that it is of the same, which ends before */
	{DM_THUNK, -ENOENT, 0, 0, NULL},
	{DM_CODE, -ENOENT, 0, 0, NULL}, /* before the first one */
	{DM_CODE_END, -ENOENT, 0, 0, NULL},
	{DM_STUBS + 20, 0, DM_STUBS, DM_STUBS_END, NULL},
	{READY(0) + 1, 0, READY(0), READY(1), "Demo.Outer..ctor"},
	{READY(1), 0, READY(1), READY(2), "Demo.Outer.Run"},
	{READY(2) + 31, 0, READY(2), READY(3), "Demo.Outer.Run"}, /* its handler */
	{READY(3), 0, READY(3), READY(4), "Demo.Outer.Inner`1.Deep"},
	{READY(4), 0, READY(4), READY(5), "Demo.Outer.Inner`1.Leaf"},
	{READY(5), 0, READY(5), READY(6), "Demo.Outer.Run"}, /* an instance */
	{READY(6), -ENOENT, 0, 0, NULL},
	{DM_IMAGE + 8, -ENOENT, 0, 0, NULL},
	{0, -ENOENT, 0, 0, NULL},
};

static void expect_place(struct dotnet_machine *m, const struct place_case *c)
{
	struct dotnet_place p;
	char name[VM_TEXT_MAX];
	int r = dotnet_place_find(&p, m->reader, DM_BASE + c->at);

	cr_expect_eq(r, c->result, "%#x: %d", c->at, r);
	if (r < 0 || c->result < 0)
		return;
	cr_expect_eq(p.start, DM_BASE + c->start, "%#x", c->at);
	cr_expect_eq(p.end, DM_BASE + c->end, "%#x", c->at);
	cr_expect_eq(p.kind, c->name ? DOTNET_METHOD : DOTNET_STUB, "%#x", c->at);
	if (!c->name)
		return;
	cr_expect_eq(dotnet_place_name(&p, m->reader, name, sizeof name), 0, "%#x", c->at);
	cr_expect_str_eq(name, c->name);
}

Test(dotnet_code, functions_and_their_names)
{
	struct dotnet_machine m;

	dm_init(&m);
	cr_assert_eq(dotnet_reader_init(m.reader), 0);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		expect_place(&m, &places[i]);
	cr_expect_eq(m.reader->n, 2, "each assembly is read once");
	dm_free(&m);
}

Test(dotnet_code, code_that_may_be_freed)
{
	struct dotnet_machine m;
	struct dotnet_place p;

	dm_init(&m);
	cr_assert_eq(dotnet_reader_init(m.reader), 0);
	cr_assert_eq(dotnet_place_find(&p, m.reader, DM_BASE + DM_SECOND), 0);
	cr_expect_not(p.freed);
	dm_put(&m, DM_SECTIONS + 16, 3, 4);
	memset(m.reader->memory.pages, 0, sizeof m.reader->memory.pages);
	cr_assert_eq(dotnet_place_find(&p, m.reader, DM_BASE + DM_SECOND), 0);
	cr_expect(p.freed);
	dm_free(&m);
}

Test(dotnet_code, a_name_that_does_not_fit_is_cut)
{
	struct dotnet_machine m;
	struct dotnet_place p;
	char name[12];

	dm_init(&m);
	cr_assert_eq(dotnet_reader_init(m.reader), 0);
	cr_assert_eq(dotnet_place_find(&p, m.reader, DM_BASE + DM_SECOND), 0);
	cr_expect_eq(dotnet_place_name(&p, m.reader, name, sizeof name), 0);
	cr_expect_str_eq(name, "Demo.Outer.");
	dm_free(&m);
}

/* One change, and what becomes of the method DM_FIRST, or of the function READY(1). */
struct damage {
	uint32_t at;
	uint64_t value;
	unsigned bytes;
	uint32_t looked_at;
	bool found, named;
};

static const struct damage damages[] = {
	{DM_FRAGMENTS, DM_BASE + DM_FRAGMENTS, 8, DM_STUBS + 8, true, false}, /* stands last: not reached */
	{DM_FRAGMENTS, DM_BASE + DM_FRAGMENTS, 8, DM_CODE_END + 8, false, false}, /* a circle */
	{DM_SECTIONS, DM_BASE + DM_CODE_END, 8, DM_FIRST, false, false},
	{DM_SECTIONS + 40, 12, 8, DM_FIRST, false, false},
	{DM_HEAP + 40, 8, 8, DM_FIRST, false, false},
	{DM_FIRST - 8, 1ull << 60, 8, DM_FIRST, false, false},
	{DM_HEADERS + 32, 1u << 20, 4, DM_FIRST, false, false},
	{DM_HEADERS + 36, 0x41, 4, DM_FIRST, false, false},
	{DM_METHODS, 4, 8, DM_FIRST, false, false},
	{DM_METHODS + 24, 900, 2, DM_FIRST, true, false}, /* a method that is not in the metadata */
	{DM_MODULE + 0x128, DM_BASE + DM_IMAGE, 8, DM_FIRST, true, false}, /* which one is its image? */
	{DM_MODULE + 0x120, 0, 8, DM_FIRST, true, false},
	{DM_FILE + 0x80, 0, 4, DM_FIRST, true, false},
	{DM_FILE + DM_RAW + 0x100, 0, 4, DM_FIRST, true, false},
	{DM_IMAGE + DM_READY, 0, 4, READY(1), false, false},
	{DM_IMAGE + DM_READY + 16, 101, 4, READY(1), false, false},
	{DM_IMAGE + DM_READY + 28, 101, 4, READY(1), true, false}, /* no methods are listed */
	{DM_IMAGE + DM_ENTRIES, 0xff, 1, READY(1), true, false},
	{DM_IMAGE + DM_ENTRIES, 0xff, 1, READY(5), true, true}, /* the instance is listed elsewhere */
	{DM_IMAGE + DM_INSTANCES + 8, 0x1b, 1, READY(5), true,
	 true}, /* of a type that is not read: the function before */
	{DM_IMAGE + DM_METADATA + 32, 1u << 30, 4, READY(1), false, false},
};

static void expect_damage(const struct damage *d, size_t i)
{
	struct dotnet_machine m;
	struct dotnet_place p;
	char name[VM_TEXT_MAX];
	int r;

	dm_init(&m);
	dm_put(&m, d->at, d->value, d->bytes);
	cr_assert_eq(dotnet_reader_init(m.reader), 0);
	r = dotnet_place_find(&p, m.reader, DM_BASE + d->looked_at);
	cr_expect_eq(r == 0, d->found, "case %zu: %d", i, r);
	if (r == 0 && d->found && p.kind == DOTNET_METHOD) {
		r = dotnet_place_name(&p, m.reader, name, sizeof name);
		cr_expect_eq(r == 0, d->named, "case %zu: %d", i, r);
	}
	dm_free(&m);
}

Test(dotnet_code, what_is_not_as_expected_is_refused)
{
	for (size_t i = 0; i < ARRAY_SIZE(damages); i++)
		expect_damage(&damages[i], i);
}

Test(dotnet_code, a_runtime_that_has_not_begun)
{
	struct dotnet_machine m;

	dm_init(&m);
	dm_put(&m, DM_DAC, 0, 8);
	cr_expect_eq(dotnet_reader_init(m.reader), -EAGAIN);
	dm_put(&m, DM_DAC, 9, 8);
	memset(m.reader->memory.pages, 0, sizeof m.reader->memory.pages);
	cr_expect_eq(dotnet_reader_init(m.reader), -ENOTSUP);
	dm_free(&m);
}

/* --- the file */

static int read_file(struct dotnet_facts *ret, const char *version, const char *symbol)
{
	const struct runtime_symbol symbols[] = {{symbol, RUNTIME_VA + 0x100, 64, OBJECT}};
	char text[0x140] = {0};
	const struct runtime_file file = {
		.symbols = symbols, .n_symbols = 1, .runtime = text, .runtime_bytes = sizeof text};
	struct elf_image *img;
	int r;

	(void)snprintf(text, sizeof text, "%s", version);
	img = runtime_file_image(&file);
	r = dotnet_facts_read(ret, img);
	elf_image_free(img);
	return r;
}

Test(dotnet, versions)
{
	static const struct {
		const char *text;
		uint32_t version, known;
	} cases[] = {
		{"@(#)Version 9.0.725.31616 @Commit: 3c29", 0x09000700, 1},
		{"@(#)Version 10.0.926.27113 ", 0x0a000900, 1},
		{"@(#)Version 8.0.1024.46610", 0x08000a00, 1},
		{"@(#)Version 7.0.1.2", 0x07000000, 0},
		{"@(#)Version 11.0.100.2", 0x0b000100, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dotnet_facts f;

		cr_expect_eq(read_file(&f, cases[i].text, "g_dacTable"), 0, "%s", cases[i].text);
		cr_expect_eq(f.version, cases[i].version, "%s: %x", cases[i].text, f.version);
		cr_expect_eq(f.known, cases[i].known, "%s", cases[i].text);
		cr_expect_eq(f.dac_table, RUNTIME_VA + 0x100);
		cr_expect(dotnet_facts_valid(&f));
	}
}

Test(dotnet, other_files_are_none)
{
	struct dotnet_facts f;

	cr_expect_eq(read_file(&f, "@(#)Version 9.0.725.31616", "g_other"), -ENOENT);
	cr_expect_eq(read_file(&f, "@(#)Version 9", "g_dacTable"), -ENOENT);
	cr_expect_eq(read_file(&f, "@(#)Version x.y.z.w", "g_dacTable"), -ENOENT);
	cr_expect_eq(read_file(&f, "@(#)Version 900.0.100.1", "g_dacTable"), -ENOENT);
}

Test(dotnet, facts_that_a_reader_may_not_send)
{
	struct dotnet_facts f = {.version = 0x09000000, .known = 1, .dac_table = 8};

	cr_expect(dotnet_facts_valid(&f));
	f.dac_table = 9;
	cr_expect_not(dotnet_facts_valid(&f));
	f = (struct dotnet_facts){.version = 0x07000000, .known = 1, .dac_table = 8};
	cr_expect_not(dotnet_facts_valid(&f));
	f.known = 0;
	cr_expect(dotnet_facts_valid(&f));
	f.version = 0;
	cr_expect_not(dotnet_facts_valid(&f));
}
