// SPDX-License-Identifier: Apache-2.0
/*
 * Separate debug files in the root of a process: where they are found, which are refused, which rows they
 * give.
 */
#include "tests/unit/agent/proc/tree.h"

#include <zlib.h>

#include "agent/elf/cfi/rows.h"
#include "agent/proc/root.h"
#include "agent/unwind/debugfile.h"

#include "agent/unwind/debug_search.h"
#include "tests/unit/agent/elf/cfi_bytes.h"
#include "tests/unit/agent/elf/elf_file.h"
#include "tests/unit/agent/unwind/world.h"

#define CODE_BYTES 0x1000
#define HALF (CODE_BYTES / 2)
#define ID "\x04\0\0\0\x05\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04\xab\0\0\0"
#define OTHER_ID "\x04\0\0\0\x05\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04\xac\0\0\0"
#define ID_FILE "root/usr/lib/debug/.build-id/01/020304ab.debug"

/* not an instruction, so that the code itself tells nothing */
static const char code[CODE_BYTES] = {[0 ... CODE_BYTES - 1] = 0x06};

/* A section of one FDE, rsp+8 all along. */
static void put_frames(struct buf *b, uint64_t va, uint64_t len, bool debug)
{
	size_t cie = put_cie(b, EM_X86_64, "", X86_START);

	put_fde(b, cie, false, va, len, BYTES(""));
	if (!debug)
		return;
	memset(b->data + 4, 0xff, 4);		 /* the CIE's id */
	memset(b->data + b->len - 24 + 4, 0, 4); /* the FDE's CIE */
}

/* What a binary of these tests says of itself. */
struct made_binary {
	struct bytes note; /* build id */
	const char *link;  /* name in .gnu_debuglink; NULL: none */
	uint32_t crc;
	uint64_t eh_bytes; /* of text that its .eh_frame covers */
};

static struct elf_image *binary_image(const struct made_binary *b)
{
	_cleanup_buf_ struct buf link = {0}, eh = {0};

	put_frames(&eh, TEXT_VA, b->eh_bytes ? b->eh_bytes : 1, false);
	if (b->link) {
		put(&link, b->link, strlen(b->link) + 1);
		while (link.len % 4)
			put_u8(&link, 0);
		put_u32(&link, b->crc);
	}
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof(code), 0, 0},
		{".note.gnu.build-id", b->note.len ? SHT_NOTE : SHT_PROGBITS, 0, 0x8000, b->note.data,
		 b->note.len, 0, 0},
		{b->link ? ".gnu_debuglink" : ".nothing", SHT_PROGBITS, 0, 0, link.data, link.len, 0, 0},
		{b->eh_bytes ? ".eh_frame" : ".none", SHT_PROGBITS, SHF_ALLOC, 0x9000, eh.data, eh.len, 0, 0},
	};
	return file_image(EM_X86_64, s, ARRAY_SIZE(s), 0);
}

/* A debug file as `objcopy --only-keep-debug` makes them: .text without content. */
static void put_debug(struct buf *ret, struct bytes note, uint64_t text_va, bool frames)
{
	_cleanup_buf_ struct buf b = {0};

	put_frames(&b, text_va, CODE_BYTES, true);
	const struct file_section s[] = {
		{".text", SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, text_va, NULL, CODE_BYTES, 0, 0},
		{".note.gnu.build-id", note.len ? SHT_NOTE : SHT_PROGBITS, 0, 0x8000, note.data, note.len, 0,
		 0},
		{frames ? ".debug_frame" : ".debug_info", SHT_PROGBITS, 0, 0, b.data, b.len, 0, 0},
	};
	file_write(ret, EM_X86_64, s, ARRAY_SIZE(s), 0);
}

static struct proc_root *root_make(struct tree *t)
{
	struct proc_root *root;
	int fd;

	tree_make(t);
	tree_dir(t, "root");
	fd = openat(t->fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(proc_root_of_folder(&root, fd), 0);
	return root;
}

/* Where the agent looks for the debug file of a binary with that path. */
static struct debug_place place_in(struct debug_search *search, const struct proc_root *root,
				   const char *path)
{
	debug_search_init(search, root, root ? root->fd : -1,
			  path); /* its owner and device are those of all */
	return (struct debug_place){
		.open = root ? debug_search_open : NULL, .data = search, .path = search->binary};
}

static int find(const struct made_binary *b, const struct proc_root *root, const char *path)
{
	_cleanup_(debug_file_fini) struct debug_file debug = DEBUG_FILE_NONE;
	struct elf_image *img = binary_image(b);
	struct debug_search search;
	struct debug_place place = place_in(&search, root, path);
	int r = debug_file_find(&debug, img, &place, ".debug_frame");

	cr_expect_eq(debug.img != NULL, r == 0);
	if (r == 0) {
		_cleanup_close_ int fd = debug_search_take(&search, debug.number);

		cr_expect_geq(fd, 0);
	}
	debug_search_fini(&search);
	elf_image_free(img);
	return r;
}

Test(debugfile, places)
{
	static const struct {
		const char *file;
		struct bytes note, debug_note;
		bool link;
		int expected;
	} cases[] = {
		{ID_FILE, BYTES(ID), BYTES(ID), false, 0},
		{ID_FILE, BYTES(ID), BYTES(ID), true, 0},
		{ID_FILE, BYTES(""), BYTES(""), true, -ENOENT},
		{ID_FILE, BYTES(ID), BYTES(OTHER_ID), true, -ESTALE},
		{"root/usr/bin/app.debug", BYTES(ID), BYTES(ID), true, 0},
		{"root/usr/bin/app.debug", BYTES(""), BYTES(""), true, 0},
		{"root/usr/bin/app.debug", BYTES(ID), BYTES(OTHER_ID), true, -ESTALE},
		{"root/usr/bin/app.debug", BYTES(ID), BYTES(ID), false, -ENOENT},
		{"root/usr/bin/.debug/app.debug", BYTES(""), BYTES(""), true, 0},
		{"root/usr/lib/debug/usr/bin/app.debug", BYTES(""), BYTES(""), true, 0},
		{"root/usr/lib/debug/bin/app.debug", BYTES(""), BYTES(""), true, 0},
		{"root/usr/lib/debug/app.debug", BYTES(""), BYTES(""), true, -ENOENT},
		{"root/usr/bin/debug/app.debug", BYTES(ID), BYTES(ID), true, -ENOENT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf debug = {0};
		struct made_binary b = {.note = cases[i].note};
		struct tree t;
		struct proc_root *root = root_make(&t);

		put_debug(&debug, cases[i].debug_note, TEXT_VA, true);
		tree_file(&t, cases[i].file, debug.data, debug.len);
		b.link = cases[i].link ? "app.debug" : NULL;
		b.crc = (uint32_t)crc32(0, debug.data, (uInt)debug.len);
		cr_expect_eq(find(&b, root, "/usr/bin/app"), cases[i].expected, "case %zu", i);
		cr_expect_eq(find(&b, root, "/usr/bin/app (deleted)"), cases[i].expected, "case %zu", i);
		cr_expect_eq(find(&b, NULL, "/usr/bin/app"), -ENOENT, "case %zu", i);
		b.crc++;
		if (!cases[i].note.len && cases[i].expected == 0)
			cr_expect_eq(find(&b, root, "/usr/bin/app"), -ESTALE, "case %zu: checksum", i);
		proc_root_unref(root);
		tree_remove(&t);
	}
}

/* Names of debug files that are something else; the alarm ends a test that hangs. */
Test(debugfile, hostile_trees)
{
	_cleanup_buf_ struct buf debug = {0}, empty = {0};
	const struct made_binary b = {.note = BYTES(ID), .link = "app.debug"};
	static const struct {
		const char *target; /* of a link in the debug file's place */
		int expected;
	} links[] = {
		{"/real.debug", 0},
		{"../../../../../real.debug", 0},
		{"../../../../../../real.debug", 0}, /* stays at the root */
		{"/../outside.debug", -ENOENT},
		{"../../../../../../outside.debug", -ENOENT},
		{"020304ab.debug", -ELOOP},
		{"/proc/self/exe", -ENOENT},
		{"/fifo", -ENODEV},
		{"/folder", -ENODEV},
		{"/text", -ESTALE},
		{"/elf", -ESTALE},
		{"/without", -ENOENT},
	};
	struct tree t;
	struct proc_root *root = root_make(&t);

	alarm(300);
	put_debug(&debug, BYTES(ID), TEXT_VA, true);
	put_debug(&empty, BYTES(ID), TEXT_VA, false);
	tree_file(&t, "root/real.debug", debug.data, debug.len);
	tree_file(&t, "outside.debug", debug.data, debug.len);
	tree_file(&t, "root/elf", debug.data, 64);
	tree_file(&t, "root/without", empty.data, empty.len);
	tree_text(&t, "root/text",
		  "no ELF file, but longer than the header of one: sixty-four bytes or more");
	tree_dir(&t, "root/folder");
	cr_assert_eq(mkfifoat(t.fd, "root/fifo", 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		tree_link(&t, ID_FILE, links[i].target);
		int r = find(&b, root, "/usr/bin/app");
		cr_expect_eq(r, links[i].expected, "%s: %d", links[i].target, r);
		cr_assert_eq(unlinkat(t.fd, ID_FILE, 0), 0);
	}
	cr_assert_eq(mkfifoat(t.fd, ID_FILE, 0755), 0);
	cr_expect_eq(find(&b, root, "/usr/bin/app"), -ENODEV);
	/* what is wrong in one place does not hide the next */
	tree_file(&t, "root/usr/bin/.debug/app.debug", debug.data, debug.len);
	cr_expect_eq(find(&b, root, "/usr/bin/app"), 0);
	cr_expect_eq(find(&b, root, "/usr/bin/../bin/app"), 0);
	cr_expect_eq(find(&b, root, "relative"), -ENODEV);
	proc_root_unref(root);
	tree_remove(&t);
}

/* A sparse file of a size that is not read for its checksum. */
Test(debugfile, a_huge_file_is_not_summed_up)
{
	_cleanup_buf_ struct buf debug = {0};
	const struct made_binary b = {.note = BYTES(""), .link = "app.debug"};
	struct tree t;
	struct proc_root *root = root_make(&t);
	char path[128];

	put_debug(&debug, BYTES(""), TEXT_VA, true);
	tree_file(&t, "root/usr/bin/app.debug", debug.data, debug.len);
	snprintf(path, sizeof path, "%s/root/usr/bin/app.debug", t.path);
	cr_assert_eq(truncate(path, 4ll << 30), 0);
	cr_expect_eq(find(&b, root, "/usr/bin/app"), -EFBIG);
	proc_root_unref(root);
	tree_remove(&t);
}

struct outcome {
	int r;
	size_t n_rows;
	uint64_t covered;
	bool used;
};

static struct outcome rows_of(const struct made_binary *b, const struct proc_root *root)
{
	_cleanup_(debug_file_fini) struct debug_file debug = DEBUG_FILE_NONE;
	struct elf_image *img = binary_image(b);
	struct elf_rows *rows = NULL;
	struct debug_search search;
	struct debug_place place = place_in(&search, root, "/usr/bin/app");
	struct outcome o = {.r = debug_file_rows(&rows, img, &place, &debug)};

	debug_search_fini(&search);
	if (o.r == 0) {
		o.n_rows = rows->n_rows;
		o.covered = rows->covered_bytes;
		cr_expect_eq(rows->text_bytes, CODE_BYTES);
		cr_expect_eq(rows->rows[0].va, TEXT_VA);
		cr_expect_eq(rows->rows[rows->n_rows - 1].va, TEXT_VA + rows->covered_bytes);
	}
	o.used = debug.img != NULL;
	elf_rows_free(rows);
	elf_image_free(img);
	return o;
}

Test(debugfile, tables)
{
	static const struct {
		const char *name;
		uint64_t eh_bytes, debug_va;
		bool file;
		struct outcome expected;
	} cases[] = {
		{"no rows of its own", 0, TEXT_VA, true, {0, 2, CODE_BYTES, true}},
		{"no rows at all", 0, TEXT_VA, false, {-ENODATA, 0, 0, false}},
		{"rows of one half", HALF, TEXT_VA, true, {0, 2, CODE_BYTES, true}},
		{"rows of one half, no file", HALF, TEXT_VA, false, {0, 2, HALF, false}},
		{"whole: not looked for", CODE_BYTES, TEXT_VA, true, {0, 2, CODE_BYTES, false}},
		{"start code only is whole enough",
		 CODE_BYTES - 500,
		 TEXT_VA,
		 true,
		 {0, 2, CODE_BYTES - 500, false}},
		{"prelinked since", 0, 0x70000, true, {0, 2, CODE_BYTES, true}},
		{"prelinked downwards", 0, 0x10, true, {0, 2, CODE_BYTES, true}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct outcome *want = &cases[i].expected;
		const struct made_binary b = {.note = BYTES(ID), .eh_bytes = cases[i].eh_bytes};
		_cleanup_buf_ struct buf debug = {0};
		struct tree t;
		struct proc_root *root = root_make(&t);

		put_debug(&debug, BYTES(ID), cases[i].debug_va, true);
		if (cases[i].file)
			tree_file(&t, ID_FILE, debug.data, debug.len);
		struct outcome got = rows_of(&b, root);
		cr_expect(got.r == want->r && got.n_rows == want->n_rows && got.covered == want->covered &&
				  got.used == want->used,
			  "%s: %d, %zu rows, %" PRIu64 " bytes, %d", cases[i].name, got.r, got.n_rows,
			  got.covered, got.used);
		proc_root_unref(root);
		tree_remove(&t);
	}
}

/* The binary's own rows are worth more than a debug file that is broken. */
Test(debugfile, broken_frames_cost_nothing)
{
	const struct made_binary b = {.note = BYTES(ID), .eh_bytes = HALF};
	_cleanup_buf_ struct buf debug = {0};
	struct tree t;
	struct proc_root *root = root_make(&t);

	put_debug(&debug, BYTES(ID), TEXT_VA, true);
	for (size_t cut = 0; cut < 8; cut++) {
		_cleanup_buf_ struct buf broken = {0};

		put(&broken, debug.data, debug.len);
		uint8_t *entry = memmem(broken.data, broken.len, "\xff\xff\xff\xff", 4);
		cr_assert_not_null(entry);
		memset(entry - 4, 0xee, 4 + cut);
		tree_file(&t, ID_FILE, broken.data, broken.len);
		struct outcome got = rows_of(&b, root);
		cr_expect_eq(got.r, 0);
		cr_expect_geq(got.covered, HALF);
	}
	proc_root_unref(root);
	tree_remove(&t);
}

Test(debugfile, found_again_by_its_descriptor)
{
	const struct made_binary b = {.note = BYTES(ID)}, other = {.note = BYTES(OTHER_ID)};
	_cleanup_(debug_file_fini) struct debug_file first = DEBUG_FILE_NONE, again = DEBUG_FILE_NONE;
	_cleanup_buf_ struct buf debug = {0};
	struct elf_image *img = binary_image(&b), *stranger = binary_image(&other);
	struct tree t;
	struct proc_root *root = root_make(&t);
	struct debug_search search;
	struct debug_place place = place_in(&search, root, "/x");
	int fd;

	put_debug(&debug, BYTES(ID), 0x70000, true);
	tree_file(&t, ID_FILE, debug.data, debug.len);
	cr_assert_eq(debug_file_find(&first, img, &place, ".debug_frame"), 0);
	cr_expect_eq(debug_file_find(&again, img, &place, ".symtab"), -ENOENT);
	fd = debug_search_take(&search, first.number);
	cr_assert_geq(fd, 0);
	cr_assert_eq(unlinkat(t.fd, ID_FILE, 0), 0);
	cr_assert_eq(debug_file_reopen(&again, img, fd), 0);
	cr_expect_eq(again.delta, TEXT_VA - 0x70000);
	cr_expect_eq(again.number, DEBUG_FILE_GIVEN);
	debug_file_fini(&again);
	cr_expect_eq(debug_file_reopen(&again, stranger, fd), -ESTALE);
	cr_expect_eq(debug_file_reopen(&again, img, -1), -EBADF);
	close(fd);
	debug_search_fini(&search);
	debug_file_fini(&again); /* twice is fine */
	elf_image_free(img);
	elf_image_free(stranger);
	proc_root_unref(root);
	tree_remove(&t);
}

/* --- in the cache */

static uint32_t add_binary(struct world *w, const char *name, struct bytes note)
{
	_cleanup_buf_ struct buf bytes = {0};
	const struct file_section s[] = {
		{".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_VA, code, sizeof(code), 0, 0},
		{".note.gnu.build-id", SHT_NOTE, 0, 0x8000, note.data, note.len, 0, 0},
	};
	uint32_t index;

	file_write(&bytes, EM_X86_64, s, ARRAY_SIZE(s), 0);
	world_write(w, name, bytes.data, bytes.len);
	cr_assert_eq(world_add(w, name, &index), 0);
	return index;
}

/* A debug file with names, with rows or without. */
static void put_named(struct buf *ret, struct bytes note, uint64_t text_va, bool frames)
{
	static const Elf64_Sym none[1];
	_cleanup_buf_ struct buf b = {0};

	put_frames(&b, text_va, CODE_BYTES, true);
	const struct file_section s[] = {
		{".text", SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, text_va, NULL, CODE_BYTES, 0, 0},
		{".note.gnu.build-id", SHT_NOTE, 0, 0x8000, note.data, note.len, 0, 0},
		{frames ? ".debug_frame" : ".debug_info", SHT_PROGBITS, 0, 0, b.data, b.len, 0, 0},
		{".symtab", SHT_SYMTAB, 0, 0, none, sizeof none, 0, sizeof none[0]},
	};
	file_write(ret, EM_X86_64, s, ARRAY_SIZE(s), 0);
}

Test(debugfile, names_of_the_cache)
{
	for (int frames = 0; frames < 2; frames++) {
		_cleanup_world_ struct world w;
		_cleanup_buf_ struct buf debug = {0};
		struct tree t;
		struct proc_root *root = root_make(&t);
		uint32_t index, without;

		world_init(&w, 1, 64);
		put_named(&debug, BYTES(ID), 0x70000, frames);
		tree_file(&t, ID_FILE, debug.data, debug.len);
		index = add_binary(&w, "a", BYTES(ID));
		without = add_binary(&w, "b", BYTES(OTHER_ID));
		binary_registry_set_root(w.binaries, index, root);
		binary_registry_set_root(w.binaries, without, root);
		world_settle(&w);
		cr_expect_geq(world_binary(&w, index)->names_fd, 0);
		cr_expect_eq(world_binary(&w, index)->names_delta, TEXT_VA - 0x70000ull);
		cr_expect_eq(world_binary(&w, index)->debug_fd >= 0, frames, "rows are another matter");
		cr_expect_eq(world_binary(&w, without)->names_fd, -1);
		cr_expect_eq(world_binaries(&w).names_files, 1);
		proc_root_unref(root);
		tree_remove(&t);
	}
}

Test(debugfile, table_of_the_cache)
{
	_cleanup_world_ struct world w;
	_cleanup_buf_ struct buf debug = {0};
	struct tree t;
	struct proc_root *root = root_make(&t);
	const struct binary_table *f;
	struct arena_hold hold;
	uint32_t index, without;

	world_init(&w, 1, 64);
	put_debug(&debug, BYTES(ID), TEXT_VA, true);
	tree_file(&t, ID_FILE, debug.data, debug.len);
	index = add_binary(&w, "a", BYTES(ID));
	without = add_binary(&w, "b", BYTES(OTHER_ID));
	cr_expect(binary_registry_wants_root(w.binaries, index));
	binary_registry_set_root(w.binaries, index, root);
	binary_registry_set_root(w.binaries, without, root);
	binary_registry_set_root(w.binaries, without, root); /* once is enough */
	cr_expect_not(binary_registry_wants_root(w.binaries, index));
	cr_expect_eq(root->refs, 3);
	world_settle(&w);
	f = world_table(&w, index);
	cr_expect_eq(f->state, TABLE_READY);
	cr_expect_eq(f->n_rows, 2);
	cr_expect_geq(f->binary->debug_fd, 0);
	cr_expect_eq(world_table(&w, without)->state, TABLE_NONE);
	cr_expect_eq(world_binary(&w, without)->debug_fd, -1);
	cr_expect_eq(world_binaries(&w).debug_files, 1);
	cr_expect_eq(root->refs, 1, "given back when it was looked for");
	cr_expect_not(binary_registry_wants_root(w.binaries, without));

	/* evicted and wanted again, when neither process nor debug file are there any more */
	cr_assert_eq(unlinkat(t.fd, ID_FILE, 0), 0);
	cr_assert_eq(unwind_tables_make_room(w.tables, SEGMENT_BYTES - PROCESS_TABLE_BYTES, &hold), 0);
	arena_unhold(w.arena, &hold);
	cr_assert_eq(f->state, TABLE_EVICTED);
	unwind_tables_touch(w.tables, index, UINT64_MAX);
	world_settle(&w);
	cr_expect_eq(f->state, TABLE_READY);
	cr_expect_eq(f->n_rows, 2);
	cr_expect_eq(world_binaries(&w).debug_files, 1);
	proc_root_unref(root);
	tree_remove(&t);
}

Test(debugfile, roots_of_files_that_are_never_built)
{
	struct tree t;
	struct proc_root *root = root_make(&t);
	struct world w;

	world_init(&w, 1, 16);
	binary_registry_set_root(w.binaries, add_binary(&w, "a", BYTES(ID)), root);
	binary_registry_set_root(w.binaries, 0, root);
	binary_registry_set_root(w.binaries, 9, root);
	cr_expect_eq(root->refs, 2);
	world_fini(&w);
	cr_expect_eq(root->refs, 1);
	proc_root_unref(root);
	tree_remove(&t);
}

/*
 * The process that reads a binary may be in the hands of the binary: it is not given any file that it
 * names.
 */
Test(debugfile, only_places_of_debug_files_are_opened)
{
	static const struct {
		const char *path;
		int expected; /* 0: a descriptor */
	} cases[] = {
		{"/usr/bin/app.debug", 0},
		{"/usr/bin/.debug/app.debug", 0},
		{"/usr/lib/debug/any/where.debug", 0},
		{"/usr/bin/other", 0}, /* .gnu_debuglink may have any name */
		{"/etc/shadow", -EACCES},
		{"/usr/lib/debug/../../../etc/shadow", -EACCES},
		{"/usr/bin/.debug/../../../etc/shadow", -EACCES},
		{"/usr/bin/sub/app.debug", -EACCES},
		{"/usr/bin/", -EACCES},
		{"usr/bin/app.debug", -EACCES},
		{"", -EACCES},
		{"/usr/bin/absent", -ENOENT},
	};
	struct debug_search search;
	struct tree t;
	struct proc_root *root = root_make(&t);

	for (size_t i = 0; i < 4; i++) {
		char path[64];

		snprintf(path, sizeof path, "root%s", cases[i].path);
		tree_text(&t, path, "x");
	}
	tree_text(&t, "root/etc/shadow", "secret");
	debug_search_init(&search, root, root->fd, "/usr/bin/app");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_close_ int fd = debug_search_answer(cases[i].path, strlen(cases[i].path), &search);
		_cleanup_close_ int named = debug_search_take(&search, (unsigned)i);

		cr_expect(cases[i].expected ? fd == cases[i].expected : fd >= 0, "%s: %d", cases[i].path, fd);
		cr_expect_eq(named >= 0, fd >= 0);
	}
	cr_expect_eq(debug_search_answer("/usr\0/bin", 9, &search), -EINVAL);
	for (size_t i = ARRAY_SIZE(cases); i < PARSER_QUERIES_MAX; i++)
		cr_expect_eq(debug_search_open("/usr/bin/absent", &search), -ENOENT);
	cr_expect_eq(debug_search_open("/usr/bin/absent", &search), -E2BIG);
	cr_expect_eq(debug_search_take(&search, PARSER_QUERIES_MAX), -1);
	debug_search_fini(&search);
	proc_root_unref(root);
	tree_remove(&t);
}

/* --- whose file it is */

static int open_as(struct tree *t, struct proc_root *root, uint32_t uid, mode_t mode, uint32_t binary_uid,
		   bool other_device)
{
	struct debug_search search;
	int fd;

	tree_text(t, "root/usr/lib/debug/it", "x");
	cr_assert_eq(fchmodat(t->fd, "root/usr/lib/debug/it", mode, 0), 0);
	cr_assert_eq(fchownat(t->fd, "root/usr/lib/debug/it", uid, uid, 0), 0);
	debug_search_init(&search, root, root->fd, "/usr/bin/app");
	search.uid = binary_uid;
	search.dev += other_device;
	fd = debug_search_open("/usr/lib/debug/it", &search);
	debug_search_fini(&search);
	if (fd >= 0)
		close(fd);
	return fd >= 0 ? 0 : fd;
}

/* A tenant's process must not choose names and rows for all others that run the same binary. */
Test(debugfile, only_of_who_could_have_written_the_binary)
{
	struct debug_search none;
	struct tree t;
	struct proc_root *root = root_make(&t);

	if (geteuid() != 0)
		cr_skip_test("needs root");
	cr_expect_eq(open_as(&t, root, 0, 0644, 0, false), 0);
	cr_expect_eq(open_as(&t, root, 65534, 0644, 0, false), -EPERM, "of another user");
	cr_expect_eq(open_as(&t, root, 65534, 0644, 65534, false), 0, "of the binary's owner");
	cr_expect_eq(open_as(&t, root, 0, 0644, 65534, false), 0);
	cr_expect_eq(open_as(&t, root, 0, 0646, 0, false), -EPERM, "all may write");
	cr_expect_eq(open_as(&t, root, 0, 0644, 0, true), -EPERM, "mounted there by the process");
	root->is_hosts = true;
	cr_expect_eq(open_as(&t, root, 0, 0644, 0, true), 0, "mounted there by the host");
	cr_expect_eq(open_as(&t, root, 65534, 0644, 0, true), -EPERM);
	debug_search_init(&none, root, -1, "/usr/bin/app");
	cr_expect_eq(debug_search_open("/usr/lib/debug/it", &none), -EPERM, "not known of which binary");
	proc_root_unref(root);
	tree_remove(&t);
}
