// SPDX-License-Identifier: Apache-2.0
/* Lua in files: those that are installed or that tests/oracle/run_lua has fetched, and small ones. */
#include "tests/unit/agent/elf/runtime/runtime_file.h"

#include <errno.h>
#include <fcntl.h>

#include "agent/elf/runtime/facts.h"

DEFINE_CLEANUP(struct elf_image *, elf_image_free)
#define _cleanup_image_ _cleanup_(elf_image_free_p)

static int read_text(const char *text, struct lua_facts *ret)
{
	_cleanup_buf_ struct buf b = {0};
	_cleanup_image_ struct elf_image *img = NULL;
	const struct runtime_symbol symbol = {"lua_ident", RUNTIME_VA, 64, OBJECT};
	const struct runtime_file f = {
		.symbols = &symbol, .n_symbols = 1, .runtime = text, .runtime_bytes = strlen(text) + 1};
	int r;

	runtime_file_write(&b, &f);
	img = file_open(&b);
	r = lua_facts_read(ret, img);
	cr_expect(lua_facts_valid(ret));
	return r;
}

Test(lua, small_files)
{
	static const struct {
		const char *text;
		int error;
		uint32_t version;
	} cases[] = {
		{"$LuaVersion: Lua 5.4.4  Copyright $", 0, LUA_VERSION(5, 4) | 4 << 8},
		{"$LuaVersion: Lua 5.2.0  Copyright $", 0, LUA_VERSION(5, 2)},
		{"$LuaVersion: Lua 9.9.9  Copyright $", 0, LUA_VERSION(9, 9) | 9 << 8},
		{"$LuaVersion: Lua 0.4.4  Copyright $", -ENOENT, 0},
		{"$LuaVersion: Lua 5.4   Copyright $$", -ENOENT, 0},
		{"$LuaVersion: Lua x.4.4  Copyright $", -ENOENT, 0},
		{"$Lua: Lua 5.1.5 Copyright (C) 1994$", -ENOENT, 0},
		{"$LuaVersion: Lua 5.", -ENOENT, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct lua_facts f;

		cr_expect_eq(read_text(cases[i].text, &f), cases[i].error, "%s", cases[i].text);
		cr_expect_eq(f.version, cases[i].version, "%s", cases[i].text);
		cr_expect_eq(f.known, 0, "there is no code");
	}
}

Test(lua, layouts)
{
	struct lua_layout l;

	cr_expect_not(lua_layout_of(&l, LUA_VERSION(5, 1) | 5 << 8));
	cr_assert(lua_layout_of(&l, LUA_VERSION(5, 2) | 4 << 8));
	cr_expect(l.fresh != l.fresh_value && l.base == 48 && !l.n_steps);
	cr_assert(lua_layout_of(&l, LUA_VERSION(5, 3)));
	cr_expect_eq(l.source, 104);
	cr_assert(lua_layout_of(&l, LUA_VERSION(5, 4) | 2 << 8));
	cr_expect_eq(l.error_jump, 80);
	cr_assert(lua_layout_of(&l, LUA_VERSION(5, 4) | 3 << 8));
	cr_expect_eq(l.error_jump, 88);
	cr_expect_not(lua_layout_of(&l, LUA_VERSION(5, 5)));
}

static struct lua_facts some_facts(void)
{
	struct lua_facts f;

	memset(&f, 0, sizeof f);
	f.version = LUA_VERSION(5, 4) | 4 << 8;
	f.known = 1;
	f.loop_start = 0x10000;
	f.loop_body = 0x10020;
	f.loop_end = 0x12000;
	f.n_sites = 2;
	f.leaf_register = 13;
	f.sites[0] = (struct lua_site){0x8000, -48, 1};
	f.sites[1] = (struct lua_site){0x9000, 0, 0};
	cr_assert(lua_layout_of(&f.layout, f.version));
	return f;
}

Test(lua, facts_that_are_not_valid)
{
	struct lua_facts f = some_facts();

	cr_assert(lua_facts_valid(&f));
	for (size_t i = 0; i < sizeof f.layout / 2; i++) {
		f = some_facts();
		((uint16_t *)&f.layout)[i] ^= 1;
		cr_expect_not(lua_facts_valid(&f), "field %zu", i);
	}
#define REFUSED(change)   \
	f = some_facts(); \
	change;           \
	cr_expect_not(lua_facts_valid(&f), #change)
	REFUSED(f.version = 0);
	REFUSED(f.version = LUA_VERSION(5, 5));
	REFUSED(f.known = 0);
	REFUSED(f.known = 2);
	REFUSED(f.loop_end = f.loop_start);
	REFUSED(f.loop_body = f.loop_start);
	REFUSED(f.loop_body = f.loop_end);
	REFUSED(f.n_sites = 0);
	REFUSED(f.n_sites = 1);
	REFUSED(f.n_sites = LUA_SITES_MAX + 1);
	REFUSED(f.leaf_register = 16);
	REFUSED(f.sites[0].va = 0xffffffffffff);
	REFUSED(f.sites[0].offset = LUA_OFFSET_MIN - 8);
	REFUSED(f.sites[0].offset = LUA_OFFSET_MAX + 8);
	REFUSED(f.sites[0].offset = 4);
	REFUSED(f.sites[0].resumes = 2);
#undef REFUSED
}

static void check_installed(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_image_ struct elf_image *img = NULL;
	unsigned n_resume = 0, n_on_stack = 0;
	char text[RUNTIME_VERSION_TEXT];
	struct runtime_facts f;

	if (fd < 0 || elf_image_open(&img, fd) < 0)
		return;
	cr_assert_eq(runtime_facts_read(&f, img), 0, "%s", path);
	cr_expect(runtime_facts_valid(&f));
	cr_expect_eq(f.kind, RUNTIME_FILE_LUA);
	cr_expect_eq(strncmp(runtime_facts_version(&f, text), "Lua 5.", 6), 0, "%s: %s", path, text);
	cr_assert(runtime_facts_known(&f), "%s", path);
	for (uint32_t i = 0; i < f.lua.n_sites; i++) {
		n_resume += f.lua.sites[i].resumes;
		n_on_stack += f.lua.sites[i].offset >= 0;
	}
	/* two functions that call, one at least that resumes, and the one that begins coroutines */
	cr_expect_geq(f.lua.n_sites, 4, "%s", path);
	cr_expect_eq(f.lua.n_sites - n_resume - n_on_stack, 2, "%s: %u, %u, %u", path, f.lua.n_sites,
		     n_resume, n_on_stack);
	cr_expect_geq(n_resume, 1, "%s", path);
	cr_expect_eq(f.lua.leaf_register != 0, f.lua.version >= LUA_VERSION(5, 4), "%s", path);
	cr_expect(runtime_facts_is_loop(&f, f.lua.loop_start));
	cr_expect_not(runtime_facts_is_loop(&f, f.lua.loop_end));
	cr_log_info("%s: %s, %u sites", path, text, f.lua.n_sites);
}

Test(lua, installed)
{
	static const char *const patterns[] = {"/usr/bin/lua5.[234]", "/usr/lib/*/liblua5.[234].so.?.?.?",
					       "luas/*/usr/bin/lua5.[234]",
					       "luas/*/usr/lib/*/liblua5.[234].so.?.?.?"};

	runtime_files_each(patterns, ARRAY_SIZE(patterns), check_installed);
}
