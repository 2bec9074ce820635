// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/lua.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"

/* "$LuaVersion: Lua 5.4.4  Copyright …" */
#define IDENT "$LuaVersion: Lua "

struct version_layout {
	uint32_t version; /* the first one with this layout */
	struct lua_layout layout;
};

static const struct version_layout layouts[] = {
	{LUA_VERSION(5, 2),
	 {.stack = 56,
	  .stack_end = 48,
	  .error_jump = 112,
	  .instruction = 56,
	  .base = 48,
	  .status = 34,
	  .fresh = 4,
	  .fresh_value = 0,
	  .content = 72,
	  .content_bytes = 40,
	  .first_line = 104,
	  .source = 72,
	  .code = 24,
	  .n_code = 88,
	  .lines = 40,
	  .call = 29,
	  .call_shift = 6}},
	{LUA_VERSION(5, 3),
	 {.stack = 56,
	  .stack_end = 48,
	  .error_jump = 88,
	  .instruction = 40,
	  .base = 32,
	  .status = 66,
	  .fresh = 8,
	  .fresh_value = 8,
	  .content = 16,
	  .content_bytes = 80,
	  .first_line = 40,
	  .source = 104,
	  .code = 56,
	  .n_code = 24,
	  .lines = 72,
	  .call = 36,
	  .call_shift = 6}},
	{LUA_VERSION(5, 4),
	 {.stack = 48,
	  .stack_end = 40,
	  .error_jump = 80,
	  .instruction = 32,
	  .status = 62,
	  .fresh = 4,
	  .fresh_value = 4,
	  .content = 16,
	  .content_bytes = 104,
	  .first_line = 44,
	  .source = 112,
	  .code = 64,
	  .n_code = 24,
	  .lines = 88,
	  .n_steps = 40,
	  .call = 68,
	  .call_shift = 7}},
	{LUA_VERSION(5, 4) | 3 << 8,
	 {.stack = 48,
	  .stack_end = 40,
	  .error_jump = 88,
	  .instruction = 32,
	  .status = 62,
	  .fresh = 4,
	  .fresh_value = 4,
	  .content = 16,
	  .content_bytes = 104,
	  .first_line = 44,
	  .source = 112,
	  .code = 64,
	  .n_code = 24,
	  .lines = 88,
	  .n_steps = 40,
	  .call = 68,
	  .call_shift = 7}},
};
static const uint32_t first_unknown = LUA_VERSION(5, 5);

bool lua_layout_of(struct lua_layout *ret, uint32_t version)
{
	if (version >= first_unknown)
		return false;
	for (size_t i = ARRAY_SIZE(layouts); i--;)
		if (version >= layouts[i].version) {
			*ret = layouts[i].layout;
			return true;
		}
	return false;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* 0: it is not the text of a version. */
static uint32_t version_of(const struct elf_image *img, uint64_t va)
{
	const struct elf_segment *s = elf_image_segment_at(img, va);
	char text[sizeof IDENT + 5];
	const char *at = text + strlen(IDENT);

	if (!s || elf_image_pread(img, s->offset + (va - s->va), text, sizeof text) < 0 ||
	    memcmp(text, IDENT, strlen(IDENT)) != 0 || !is_digit(at[0]) || at[1] != '.' || !is_digit(at[2]) ||
	    at[3] != '.' || !is_digit(at[4]) || at[0] == '0')
		return 0;
	return LUA_VERSION(at[0] - '0', at[2] - '0') | (uint32_t)(at[4] - '0') << 8;
}

int lua_facts_read(struct lua_facts *ret, struct elf_image *img)
{
	struct elf_definition d = {.name = "lua_ident"};
	struct lua_facts f;
	int r;

	memset(&f, 0, sizeof f);
	memset(ret, 0, sizeof *ret);
	r = elf_definitions_find_dynamic(img, &d, 1);
	if (r < 0)
		return r;
	f.version = d.found ? version_of(img, d.va) : 0;
	if (!f.version)
		return -ENOENT;
	if (lua_layout_of(&f.layout, f.version)) {
		r = lua_loop_find(&f, img);
		f.known = r == 0;
	}
	if (r == -ENOMEM)
		return r;
	if (!f.known) {
		const uint32_t version = f.version;

		memset(&f, 0, sizeof f);
		f.version = version;
	}
	*ret = f;
	return 0;
}

static bool sites_valid(const struct lua_facts *f)
{
	if (!f->n_sites || f->n_sites > LUA_SITES_MAX)
		return false;
	for (uint32_t i = 0; i < LUA_SITES_MAX; i++) {
		const struct lua_site *s = &f->sites[i];

		if (i >= f->n_sites ? s->va || s->offset || s->resumes
				    : s->va - f->loop_start + (1u << 30) >= 1u << 31 || s->offset % 8 ||
					      s->offset < LUA_OFFSET_MIN || s->offset > LUA_OFFSET_MAX ||
					      s->resumes > 1)
			return false;
	}
	return true;
}

bool lua_facts_valid(const struct lua_facts *f)
{
	static const struct lua_facts none;
	struct lua_facts g = none;
	struct lua_layout layout;

	g.version = f->version;
	if (!f->known)
		return memcmp(f, &g, sizeof g) == 0 && (!f->version || f->version >> 24);
	if (f->known > 1 || f->version & 0xff || f->loop_start >= f->loop_body ||
	    f->loop_body >= f->loop_end || f->leaf_register > 15 || !sites_valid(f))
		return false;
	memset(&layout, 0, sizeof layout);
	return lua_layout_of(&layout, f->version) && memcmp(&layout, &f->layout, sizeof layout) == 0;
}
