// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/runtime/php.h"

#include <errno.h>
#include <string.h>

#include "agent/base/cleanup.h"
#include "agent/elf/file/definition.h"
#include "agent/elf/file/elf_image.h"
#include "agent/elf/runtime/loops.h"

#define VERSION_PREFIX "X-Powered-By: PHP/"
#define CONSTANTS_MAX (64u << 20) /* bytes of .rodata in which the version is searched */

enum name { NAME_GLOBALS, NAME_OFFSET, NAME_LOOP, N_NAMES };

struct version_layout {
	uint32_t version;
	struct php_layout layout;
};

static const struct version_layout layouts[] = {
	{PHP_VERSION(7, 4), {488, 60, 64, 136, 144, 0}},  {PHP_VERSION(8, 0), {488, 68, 72, 144, 152, 0}},
	{PHP_VERSION(8, 1), {488, 68, 72, 144, 152, 0}},  {PHP_VERSION(8, 2), {488, 80, 88, 152, 160, 0}},
	{PHP_VERSION(8, 3), {488, 76, 80, 144, 152, 0}},  {PHP_VERSION(8, 4), {488, 96, 104, 168, 176, 0}},
	{PHP_VERSION(8, 5), {512, 96, 104, 168, 176, 0}},
};

bool php_layout_of(struct php_layout *ret, uint32_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].version == version) {
			*ret = layouts[i].layout;
			return true;
		}
	return false;
}

/* A number and the character that must follow it; 0 for that: any. False: there is none below 256. */
static bool read_number(const uint8_t **at, const uint8_t *end, char follows, uint32_t *ret)
{
	const uint8_t *p = *at;
	uint32_t n = 0;

	while (p < end && *p >= '0' && *p <= '9' && n < 256)
		n = n * 10 + (*p++ - '0');
	if (p == *at || n > 255 || (follows && (p == end || *p++ != (uint8_t)follows)))
		return false;
	*at = p;
	*ret = n;
	return true;
}

/* The version in the header that every build sends with its answers. 0: there is none. */
static uint32_t find_version(struct elf_image *img)
{
	struct elf_section section;
	uint32_t major, minor, release;
	struct elf_data data;
	const uint8_t *at, *end;

	if (elf_image_find_section(img, ".rodata", &section) < 0 || section.bytes > CONSTANTS_MAX ||
	    elf_image_section(img, ".rodata", &data) < 0)
		return 0;
	at = memmem(data.bytes, data.len, VERSION_PREFIX, strlen(VERSION_PREFIX));
	if (!at)
		return 0;
	at += strlen(VERSION_PREFIX);
	end = data.bytes + data.len;
	if (!read_number(&at, end, '.', &major) || !major || !read_number(&at, end, '.', &minor) ||
	    !read_number(&at, end, '\0', &release))
		return 0;
	return PHP_VERSION(major, minor) | release << 8;
}

static void add_loop(struct php_facts *f, uint64_t start, uint64_t end)
{
	uint32_t at = f->n_loops++;

	if (at && f->loop_start[0] > start) {
		f->loop_start[1] = f->loop_start[0];
		f->loop_end[1] = f->loop_end[0];
		at = 0;
	}
	f->loop_start[at] = start;
	f->loop_end[at] = end;
}

/* 0 or -ENOMEM. */
static int find_loops(struct php_facts *f, struct elf_image *img, const struct elf_definition *loop)
{
	uint64_t end, split, split_end;
	int r;

	if (!loop->found || !loop->va || !loop->bytes || __builtin_add_overflow(loop->va, loop->bytes, &end))
		return 0;
	add_loop(f, loop->va, end);
	r = php_loop_split(img, loop->va, end, &split, &split_end);
	if (r == 0 && split < split_end && (split >= end || split_end <= loop->va))
		add_loop(f, split, split_end);
	return r == -ENOMEM ? r : 0;
}

int php_facts_read(struct php_facts *ret, struct elf_image *img)
{
	struct elf_definition d[N_NAMES] = {[NAME_GLOBALS] = {.name = "executor_globals"},
					    [NAME_OFFSET] = {.name = "executor_globals_offset"},
					    [NAME_LOOP] = {.name = "execute_ex"}};
	const struct elf_definition *globals;
	struct php_facts f;
	int r;

	memset(&f, 0, sizeof f);
	memset(ret, 0, sizeof *ret);
	r = elf_definitions_find_dynamic(img, d, NAME_LOOP);
	if (r == 0 && (d[NAME_GLOBALS].found || d[NAME_OFFSET].found))
		r = elf_definitions_find_dynamic(img, d, N_NAMES);
	if (r < 0)
		return r;
	f.threads = !d[NAME_GLOBALS].found;
	globals = &d[f.threads ? NAME_OFFSET : NAME_GLOBALS];
	f.globals = globals->va;
	f.version = globals->found && f.globals ? find_version(img) : 0;
	if (!f.version)
		return -ENOENT;
	f.known = php_layout_of(&f.layout, f.version & 0xffff0000u) &&
		  globals->bytes >= (f.threads ? 8u : f.layout.current_frame + 8u);
	if (!f.known)
		memset(&f.layout, 0, sizeof f.layout);
	r = find_loops(&f, img, &d[NAME_LOOP]);
	if (r == 0)
		*ret = f;
	return r;
}

static bool loops_valid(const struct php_facts *f)
{
	return runtime_loops_valid(f->loop_start, f->loop_end, f->n_loops, PHP_LOOPS_MAX);
}

bool php_facts_valid(const struct php_facts *f)
{
	static const struct php_facts none;
	struct php_layout layout = none.layout;

	if (!f->version)
		return memcmp(f, &none, sizeof none) == 0;
	if (!f->globals || f->known > 1 || f->threads > 1 || f->zero_end || !loops_valid(f))
		return false;
	return (!f->known || php_layout_of(&layout, f->version & 0xffff0000u)) &&
	       memcmp(&layout, &f->layout, sizeof layout) == 0;
}
