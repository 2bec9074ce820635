// SPDX-License-Identifier: Apache-2.0
/* The kernel and its modules, with a folder in place of /sys. */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/cleanup.h"
#include "agent/base/fs.h"
#include "agent/report/kernel_modules.h"
#include "agent/symbol/kallsyms.h"
#include "fake_machine.h"

struct scene {
	struct machine m; /* for its folder */
	struct kernel_modules *modules;
	struct kallsyms *table;
};

static const char symbols[] = "ffffffff81000000 T kernel_function\nffffffff81000100 T _etext\n"
			      "ffffffffc0001000 t module_function\t[mod]\n"
			      "ffffffffc0002000 t other_function\t[other]\n";

static void scene_init(struct scene *s)
{
	machine_init(&s->m, 0);
	s->table = NULL;
	cr_assert_eq(kallsyms_parse(&s->table, symbols, strlen(symbols)), 0);
	cr_assert_eq(kernel_modules_new(&s->modules, s->m.dir), 0);
}

static void scene_fini(struct scene *s)
{
	kernel_modules_free(s->modules);
	kallsyms_free(s->table);
	machine_fini(&s->m);
}

#define _cleanup_scene_ _cleanup_(scene_fini)

/* A note with four bytes of content. */
struct note {
	Elf64_Nhdr head;
	char name[4];
	uint8_t desc[4];
};

static struct note note_of(uint32_t type, const char *name, uint8_t first)
{
	struct note n = {.head = {.n_namesz = 4, .n_descsz = 4, .n_type = type},
			 .desc = {first, 0xcd, 0, 0xff}};

	memcpy(n.name, name, 4);
	return n;
}

static void write_notes(const struct scene *s, const char *folders[], const char *file, const void *notes,
			size_t len)
{
	char path[128];
	int n = snprintf(path, sizeof path, "%s", s->m.dir);

	for (size_t i = 0; folders[i]; i++) {
		n += snprintf(path + n, sizeof path - (size_t)n, "/%s", folders[i]);
		cr_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
	}
	snprintf(path + n, sizeof path - (size_t)n, "/%s", file);
	cr_assert_eq(fs_write_file(path, notes, len), 0);
}

static const char *of_kernel[] = {"kernel", NULL}, *of_mod[] = {"module", "mod", "notes", NULL};

/* The index of the module that has the address. */
static size_t index_at(const struct scene *s, uint64_t address)
{
	struct kallsyms_symbol found;

	cr_assert_eq(kallsyms_lookup(s->table, address, &found), 0);
	return found.module_index;
}

Test(kernel_modules, kernel_and_module)
{
	_cleanup_scene_ struct scene s;
	const struct note notes[] = {note_of(NT_GNU_ABI_TAG, "GNU", 1), note_of(NT_GNU_BUILD_ID, "XEN", 2),
				     note_of(NT_GNU_BUILD_ID, "GNU", 0xab)};
	const struct frame_module *kernel, *mod;

	scene_init(&s);
	write_notes(&s, of_kernel, "notes", notes, sizeof notes);
	write_notes(&s, of_mod, ".note.gnu.build-id", &notes[2], sizeof notes[2]);
	kernel = kernel_modules_get(s.modules, s.table, 0);
	mod = kernel_modules_get(s.modules, s.table, index_at(&s, MACHINE_MODULE_FUNCTION));
	cr_assert(kernel && mod);
	cr_expect_str_eq(kernel->name, "[kernel]");
	cr_expect_str_eq(kernel->path, "[kernel]");
	cr_expect_str_eq(kernel->build_id_gnu, "abcd00ff",
			 "the note of another owner or type does not count");
	cr_expect_eq(kernel->start, MACHINE_KERNEL_FUNCTION);
	cr_expect_str_eq(mod->name, "[mod]");
	cr_expect_str_eq(mod->build_id_gnu, "abcd00ff");
	cr_expect_eq(mod->start, MACHINE_MODULE_FUNCTION);
	cr_expect_gt(mod->limit, mod->start);
	cr_expect_neq(kernel->id, mod->id);
	cr_expect_gt(kernel->id, FRAME_FILE_MAX, "no file's id");
	cr_expect_eq(kernel_modules_get(s.modules, s.table, 0), kernel, "the same as before");
}

Test(kernel_modules, without_symbols_there_is_the_kernel)
{
	_cleanup_scene_ struct scene s;
	const struct frame_module *kernel;

	scene_init(&s);
	kernel = kernel_modules_get(s.modules, NULL, 0);
	cr_assert_not_null(kernel);
	cr_expect_str_eq(kernel->name, "[kernel]");
	cr_expect_null(kernel->build_id_gnu, "there are no notes");
	cr_expect_eq(kernel->limit, 0);
	cr_expect_eq(kernel_modules_get(s.modules, s.table, 0), kernel);
	cr_expect_eq(kernel->start, MACHINE_KERNEL_FUNCTION, "known since the symbols are");
}

Test(kernel_modules, an_index_that_does_not_exist)
{
	_cleanup_scene_ struct scene s;

	scene_init(&s);
	cr_expect_null(kernel_modules_get(s.modules, s.table, 1000));
}

Test(kernel_modules, a_module_that_is_loaded_again_elsewhere)
{
	_cleanup_scene_ struct scene s;
	const char *moved = "ffffffff81000000 T kernel_function\nffffffff81000100 T _etext\n"
			    "ffffffffc0800000 t module_function\t[mod]\n";
	const struct frame_module *before;
	uint32_t id;

	scene_init(&s);
	before = kernel_modules_get(s.modules, s.table, index_at(&s, MACHINE_MODULE_FUNCTION));
	id = before->id;
	kallsyms_free(TAKE_PTR(s.table));
	cr_assert_eq(kallsyms_parse(&s.table, moved, strlen(moved)), 0);
	cr_expect_eq(kernel_modules_get(s.modules, s.table, index_at(&s, 0xffffffffc0800000)), before);
	cr_expect_eq(before->id, id);
	cr_expect_eq(before->start, 0xffffffffc0800000);
}

/* Each prefix of valid notes, and notes that claim more than there is. */
Test(kernel_modules, notes_that_make_no_sense)
{
	struct note notes[] = {note_of(NT_GNU_ABI_TAG, "GNU", 1), note_of(NT_GNU_BUILD_ID, "GNU", 0xab)};
	const struct frame_module *kernel;

	for (size_t len = 0; len <= sizeof notes; len++) {
		_cleanup_scene_ struct scene s;

		scene_init(&s);
		write_notes(&s, of_kernel, "notes", notes, len);
		kernel = kernel_modules_get(s.modules, NULL, 0);
		cr_assert_not_null(kernel);
		cr_expect_eq(kernel->build_id_gnu != NULL, len == sizeof notes, "%zu bytes", len);
	}
	for (int i = 0; i < 2; i++) {
		_cleanup_scene_ struct scene s;
		uint32_t *claim = i ? &notes[0].head.n_namesz : &notes[1].head.n_descsz;
		uint32_t before = *claim;

		*claim = 0xfffffff0;
		scene_init(&s);
		write_notes(&s, of_kernel, "notes", notes, sizeof notes);
		kernel = kernel_modules_get(s.modules, NULL, 0);
		cr_assert_not_null(kernel);
		cr_expect_null(kernel->build_id_gnu);
		*claim = before;
	}
}
