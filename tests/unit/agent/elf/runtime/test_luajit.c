// SPDX-License-Identifier: Apache-2.0
/* LuaJIT in files: those that are installed or that tests/oracle/run_lua has fetched, and small ones. */
#include "tests/unit/agent/elf/runtime/runtime_file.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/elf/runtime/facts.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
#define _cleanup_image_ _cleanup_(elf_image_free_p)

Test(luajit, without_a_version)
{
	_cleanup_buf_ struct buf b = {0};
	_cleanup_image_ struct elf_image *img = NULL;
	const struct runtime_symbol symbol = {"luaJIT_setmode", LOOP_VA, 64, FUNCTION};
	const struct runtime_file file = {.symbols = &symbol, .n_symbols = 1};
	struct luajit_facts f;

	runtime_file_write(&b, &file);
	img = file_open(&b);
	cr_expect_eq(luajit_facts_read(&f, img), -ENOENT);
	cr_expect_eq(f.version, 0);
	cr_expect(luajit_facts_valid(&f));
}

static void read_seed(const char *name, struct luajit_facts *ret)
{
	char path[256];
	_cleanup_close_ int fd = -1;
	_cleanup_image_ struct elf_image *img = NULL;

	snprintf(path, sizeof path, TESTS_DIR "/fuzz/corpus/fuzz_elf_runtime/luajit-%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert(fd >= 0 && elf_image_open(&img, fd) == 0, "%s", path);
	cr_assert_eq(luajit_facts_read(ret, img), 0, "%s", path);
	cr_expect(luajit_facts_valid(ret), "%s", path);
	cr_expect_eq(ret->version, LUA_VERSION(2, 1), "%s", path);
}

Test(luajit, small_files)
{
	struct luajit_facts f;

	read_seed("jit", &f);
	cr_expect(f.known && f.jit_base == 0xf80 - 0xe08 && f.loop_end - f.loop_start > 8192);
	cr_expect_eq(f.protected_return, 5 + 5 + 7 + 2);
	read_seed("no_jit", &f);
	cr_expect(f.known && !f.jit_base);
	read_seed("other", &f);
	cr_expect(!f.known && !f.loop_start);
}

static struct luajit_facts some_facts(void)
{
	return (struct luajit_facts){.version = LUA_VERSION(2, 1),
				     .known = 1,
				     .loop_start = 0x10000,
				     .loop_end = 0x14000,
				     .jit_base = 376,
				     .protected_return = 0x200};
}

Test(luajit, facts_that_are_not_valid)
{
	struct luajit_facts f = some_facts();

	cr_assert(luajit_facts_valid(&f));
#define REFUSED(change)   \
	f = some_facts(); \
	change;           \
	cr_expect_not(luajit_facts_valid(&f), #change)
	REFUSED(f.version = 0);
	REFUSED(f.version = LUA_VERSION(2, 0));
	REFUSED(f.version = LUA_VERSION(5, 4));
	REFUSED(f.known = 0);
	REFUSED(f.known = 2);
	REFUSED(f.loop_end = f.loop_start);
	REFUSED(f.loop_end = f.loop_start + 4096);
	REFUSED(f.loop_end = f.loop_start + (1 << 20));
	REFUSED(f.jit_base = 377);
	REFUSED(f.jit_base = 1 << 20);
	REFUSED(f.protected_return = 0x4000);
#undef REFUSED
}

static void check_installed(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_image_ struct elf_image *img = NULL;
	char text[RUNTIME_VERSION_TEXT];
	struct runtime_facts f;

	if (fd < 0 || elf_image_open(&img, fd) < 0)
		return;
	cr_assert_eq(runtime_facts_read(&f, img), 0, "%s", path);
	cr_expect(runtime_facts_valid(&f));
	cr_expect_eq(f.kind, RUNTIME_FILE_LUAJIT);
	cr_expect_str_eq(runtime_facts_version(&f, text), "LuaJIT 2.1", "%s", path);
	if (strstr(path, "bullseye")) { /* pointers to objects of 32 bits */
		cr_expect_not(runtime_facts_known(&f), "%s", path);
		return;
	}
	cr_assert(runtime_facts_known(&f), "%s", path);
	cr_expect(f.luajit.jit_base, "%s", path);
	cr_expect(runtime_facts_is_loop(&f, f.luajit.loop_start));
	cr_expect_not(runtime_facts_is_loop(&f, f.luajit.loop_end));
}

Test(luajit, installed)
{
	static const char *const patterns[] = {"/usr/bin/luajit", "/usr/lib/*/libluajit-5.1.so.?.?.?",
					       "luas/*/usr/bin/luajit"};

	runtime_files_each(patterns, ARRAY_SIZE(patterns), check_installed);
}
